//! The checksum of written bytes, updated with each write.

use crc_fast::{CrcAlgorithm, Digest};
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

#[cfg(test)]
mod tests {
    use super::*;

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
