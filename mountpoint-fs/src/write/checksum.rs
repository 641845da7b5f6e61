//! The checksum of written bytes, updated with each write.

use crc_fast::{CrcAlgorithm, Digest, checksum_combine};
use mountpoint_client::types::{Checksum, ChecksumAlgorithm};

/// The checksum of the bytes so far; empty if the upload has none.
#[derive(Clone, Copy, Debug)]
pub(in crate::write) struct RunningChecksum(Option<(ChecksumAlgorithm, Digest)>);

impl RunningChecksum {
    /// The checksum of no bytes.
    pub(in crate::write) fn new(algorithm: Option<ChecksumAlgorithm>) -> Self {
        Self(algorithm.map(|algorithm| {
            let digest = match algorithm {
                ChecksumAlgorithm::Crc32c => CrcAlgorithm::Crc32Iscsi,
                ChecksumAlgorithm::Crc64Nvme => CrcAlgorithm::Crc64Nvme,
            };
            (algorithm, Digest::new(digest))
        }))
    }

    /// Adds `bytes`.
    pub(in crate::write) fn update(&mut self, bytes: &[u8]) {
        if let Some((_, digest)) = &mut self.0 {
            digest.update(bytes);
        }
    }

    /// The checksum of all bytes so far.
    pub(in crate::write) fn value(&self) -> Option<Checksum> {
        self.0.map(|(algorithm, digest)| match algorithm {
            ChecksumAlgorithm::Crc32c => {
                let low = digest.finalize() & u64::from(u32::MAX);
                Checksum::Crc32c(u32::try_from(low).expect("the high bits are masked"))
            }
            ChecksumAlgorithm::Crc64Nvme => Checksum::Crc64Nvme(digest.finalize()),
        })
    }
}

/// The checksum of `body` behind the bytes of the checksum `before`. `sum` is that of
/// `body`, if it is known.
pub(in crate::write) fn joined(before: Checksum, body: &[u8], sum: Option<Checksum>) -> Checksum {
    let algorithm = algorithm_of(before);
    let sum = sum.filter(|sum| algorithm_of(*sum) == algorithm);
    let sum = sum.unwrap_or_else(|| {
        let mut running = RunningChecksum::new(Some(algorithm));
        running.update(body);
        running.value().expect("it has an algorithm")
    });
    let len = body.len() as u64;
    match (before, sum) {
        (Checksum::Crc32c(before), Checksum::Crc32c(sum)) => {
            let (before, sum) = (u64::from(before), u64::from(sum));
            let joined = checksum_combine(CrcAlgorithm::Crc32Iscsi, before, sum, len);
            Checksum::Crc32c(u32::try_from(joined).expect("it has 32 bits"))
        }
        (Checksum::Crc64Nvme(before), Checksum::Crc64Nvme(sum)) => {
            Checksum::Crc64Nvme(checksum_combine(CrcAlgorithm::Crc64Nvme, before, sum, len))
        }
        (before, _) => unreachable!("both are of the algorithm of {before:?}"),
    }
}

/// The algorithm of a checksum.
pub(in crate::write) fn algorithm_of(checksum: Checksum) -> ChecksumAlgorithm {
    match checksum {
        Checksum::Crc32c(_) => ChecksumAlgorithm::Crc32c,
        Checksum::Crc64Nvme(_) => ChecksumAlgorithm::Crc64Nvme,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_is_joined() {
        for algorithm in [ChecksumAlgorithm::Crc32c, ChecksumAlgorithm::Crc64Nvme] {
            let of = |bytes: &[u8]| {
                let mut sum = RunningChecksum::new(Some(algorithm));
                sum.update(bytes);
                sum.value().unwrap()
            };
            let other = match algorithm {
                ChecksumAlgorithm::Crc32c => Checksum::Crc64Nvme(1),
                ChecksumAlgorithm::Crc64Nvme => Checksum::Crc32c(1),
            };
            for (before, body) in [("", ""), ("", "one"), ("one", ""), ("one ", "two")] {
                let all = of(format!("{before}{body}").as_bytes());
                let (before, body) = (of(before.as_bytes()), body.as_bytes());
                for sum in [None, Some(of(body)), Some(other)] {
                    assert_eq!(joined(before, body, sum), all, "{algorithm:?}");
                }
            }
        }
    }

    #[test]
    fn pieces_give_the_checksum_of_the_whole() {
        let of = |algorithm, pieces: &[&[u8]]| {
            let mut sum = RunningChecksum::new(algorithm);
            pieces.iter().for_each(|piece| sum.update(piece));
            sum.value()
        };
        // The check values of the two polynomials' catalogue entries.
        for pieces in [&[&b"123456789"[..]][..], &[b"1234", b"", b"56789"]] {
            assert_eq!(
                of(Some(ChecksumAlgorithm::Crc32c), pieces),
                Some(Checksum::Crc32c(0xe306_9283))
            );
            assert_eq!(
                of(Some(ChecksumAlgorithm::Crc64Nvme), pieces),
                Some(Checksum::Crc64Nvme(0xae8b_1486_0a79_9888))
            );
            assert_eq!(of(None, pieces), None);
        }
    }
}
