//! The checksums S3 keeps with an object and verifies on upload.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use crc_fast::CrcAlgorithm;
use s3s::checksum::ChecksumHasher;
use s3s::dto::ChecksumType;
use s3s::{S3Result, s3_error};

use super::content::Content;

/// A checksum algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
}

impl Algorithm {
    pub(crate) const ALL: [Self; 5] = [
        Self::Crc32,
        Self::Crc32c,
        Self::Crc64Nvme,
        Self::Sha1,
        Self::Sha256,
    ];

    /// S3's name, as in `x-amz-checksum-algorithm`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC32",
            Self::Crc32c => "CRC32C",
            Self::Crc64Nvme => "CRC64NVME",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
        }
    }

    /// The header or trailer that carries its value.
    pub(crate) fn header(self) -> &'static str {
        match self {
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Sha1 => "x-amz-checksum-sha1",
            Self::Sha256 => "x-amz-checksum-sha256",
        }
    }

    pub(crate) fn parse(name: &str) -> S3Result<Self> {
        let found = Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.as_str().eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            s3_error!(
                InvalidRequest,
                "Checksum algorithm provided is unsupported: {name}"
            )
        })
    }

    /// Whether the whole object's checksum follows from those of its parts.
    fn crc(self) -> Option<CrcAlgorithm> {
        match self {
            Self::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
            Self::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
            Self::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
            Self::Sha1 | Self::Sha256 => None,
        }
    }
}

/// A checksum of an object or of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checksum {
    pub(crate) algorithm: Algorithm,
    pub(crate) bytes: Vec<u8>,
    /// For a checksum of the parts' checksums: how many parts.
    pub(crate) composite_of: Option<usize>,
}

impl Checksum {
    /// As in the header: base64, and the number of parts if it is composite.
    pub(crate) fn text(&self) -> String {
        let value = BASE64.encode(&self.bytes);
        self.composite_of
            .map_or_else(|| value.clone(), |parts| format!("{value}-{parts}"))
    }

    pub(crate) fn type_of(&self) -> ChecksumType {
        ChecksumType::from_static(match self.composite_of {
            Some(_) => ChecksumType::COMPOSITE,
            None => ChecksumType::FULL_OBJECT,
        })
    }
}

/// Computes one checksum.
pub(crate) struct Hasher {
    algorithm: Algorithm,
    inner: ChecksumHasher,
}

impl Hasher {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        let mut inner = ChecksumHasher::default();
        match algorithm {
            Algorithm::Crc32 => inner.crc32 = Some(s3s::crypto::Crc32::default()),
            Algorithm::Crc32c => inner.crc32c = Some(s3s::crypto::Crc32c::default()),
            Algorithm::Crc64Nvme => inner.crc64nvme = Some(s3s::crypto::Crc64Nvme::default()),
            Algorithm::Sha1 => inner.sha1 = Some(s3s::crypto::Sha1::default()),
            Algorithm::Sha256 => inner.sha256 = Some(s3s::crypto::Sha256::default()),
        }
        Self { algorithm, inner }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.inner.update(bytes);
    }

    pub(crate) fn finish(self) -> Checksum {
        let sums = self.inner.finalize();
        let text = match self.algorithm {
            Algorithm::Crc32 => sums.checksum_crc32,
            Algorithm::Crc32c => sums.checksum_crc32c,
            Algorithm::Crc64Nvme => sums.checksum_crc64nvme,
            Algorithm::Sha1 => sums.checksum_sha1,
            Algorithm::Sha256 => sums.checksum_sha256,
        };
        let bytes = BASE64.decode(text.unwrap_or_default()).unwrap_or_default();
        Checksum {
            algorithm: self.algorithm,
            bytes,
            composite_of: None,
        }
    }
}

/// Whether `given` in a header or trailer is the checksum that was computed.
pub(crate) fn verify(given: &str, computed: &Checksum) -> S3Result<()> {
    let name = computed.algorithm.as_str();
    match BASE64.decode(given) {
        Ok(bytes) if bytes.len() != computed.bytes.len() => Err(s3_error!(
            InvalidRequest,
            "Value for {} header is invalid.",
            computed.algorithm.header()
        )),
        Ok(bytes) if bytes == computed.bytes => Ok(()),
        Ok(_) => Err(s3_error!(
            BadDigest,
            "The {name} you specified did not match the calculated checksum."
        )),
        Err(_) => Err(s3_error!(
            InvalidRequest,
            "Value for {} header is invalid.",
            computed.algorithm.header()
        )),
    }
}

/// The checksum of the parts' checksums. `None` if a part has none of this algorithm.
pub(crate) fn composite(
    algorithm: Algorithm,
    parts: &[(Option<&Checksum>, u64)],
) -> Option<Checksum> {
    let mut hasher = Hasher::new(algorithm);
    for (checksum, _) in parts {
        hasher.update(
            &checksum
                .filter(|checksum| checksum.algorithm == algorithm)?
                .bytes,
        );
    }
    Some(Checksum {
        composite_of: Some(parts.len()),
        ..hasher.finish()
    })
}

/// The checksum of the whole, from those of the parts and their sizes. `None` if a part has none of
/// this algorithm, or if it cannot be combined.
pub(crate) fn combined(
    algorithm: Algorithm,
    parts: &[(Option<&Checksum>, u64)],
) -> Option<Checksum> {
    let crc = algorithm.crc()?;
    let mut whole = number(&Hasher::new(algorithm).finish().bytes);
    let mut width = 0;
    for (checksum, size) in parts {
        let checksum = checksum.filter(|checksum| checksum.algorithm == algorithm)?;
        width = checksum.bytes.len();
        whole = crc_fast::checksum_combine(crc, whole, number(&checksum.bytes), *size);
    }
    let bytes = whole.to_be_bytes();
    Some(Checksum {
        algorithm,
        bytes: bytes[bytes.len() - width..].to_vec(),
        composite_of: None,
    })
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, &byte| (number << 8) | u64::from(byte))
}

/// Puts a checksum (`Option<&Checksum>`) into the fields of one of `s3s`'s outputs.
macro_rules! set_checksum {
    ($output:expr, $checksum:expr) => {
        if let Some(checksum) = $checksum {
            let text = Some(checksum.text());
            match checksum.algorithm {
                $crate::testing::server::store::checksum::Algorithm::Crc32 => {
                    $output.checksum_crc32 = text
                }
                $crate::testing::server::store::checksum::Algorithm::Crc32c => {
                    $output.checksum_crc32c = text
                }
                $crate::testing::server::store::checksum::Algorithm::Crc64Nvme => {
                    $output.checksum_crc64nvme = text
                }
                $crate::testing::server::store::checksum::Algorithm::Sha1 => {
                    $output.checksum_sha1 = text
                }
                $crate::testing::server::store::checksum::Algorithm::Sha256 => {
                    $output.checksum_sha256 = text
                }
            }
        }
    };
}

/// Takes the checksums that a request gave out of the fields of one of `s3s`'s inputs.
macro_rules! given_checksums {
    ($input:expr) => {{
        use $crate::testing::server::store::checksum::Algorithm;
        let fields = [
            (Algorithm::Crc32, $input.checksum_crc32.take()),
            (Algorithm::Crc32c, $input.checksum_crc32c.take()),
            (Algorithm::Crc64Nvme, $input.checksum_crc64nvme.take()),
            (Algorithm::Sha1, $input.checksum_sha1.take()),
            (Algorithm::Sha256, $input.checksum_sha256.take()),
        ];
        fields
            .into_iter()
            .filter_map(|(algorithm, text)| Some((algorithm, text?)))
            .collect::<Vec<_>>()
    }};
}

pub(crate) use {given_checksums, set_checksum};

/// The checksum of all bytes.
pub(crate) fn hash(algorithm: Algorithm, content: &Content) -> Checksum {
    let mut hasher = Hasher::new(algorithm);
    content.pieces().for_each(|piece| hasher.update(&piece));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum(algorithm: Algorithm, bytes: &[u8]) -> Checksum {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(bytes);
        hasher.finish()
    }

    #[test]
    fn known_values() {
        // The check values of the CRC catalogue for "123456789"; the SHA-1 from sha1sum.
        let cases = [
            (Algorithm::Crc32, "y/Q5Jg=="),
            (Algorithm::Crc32c, "4waSgw=="),
            (Algorithm::Crc64Nvme, "rosUhgp5mIg="),
            (Algorithm::Sha1, "98O8HYCOBHMq32eZZczDTKeuNEE="),
        ];
        for (algorithm, text) in cases {
            let computed = checksum(algorithm, b"123456789");
            assert_eq!(computed.text(), text, "{algorithm:?}");
            assert!(verify(text, &computed).is_ok());
            assert!(verify("AAAA", &computed).is_err());
            assert!(verify("not base64!", &computed).is_err());
        }
    }

    #[test]
    fn parts_combine_to_the_whole() {
        for algorithm in [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64Nvme] {
            let [a, b, c] =
                [&b"hello "[..], b"", b"world, three parts"].map(|part| (part.len() as u64, part));
            let parts = [a, b, c].map(|(size, part)| (size, checksum(algorithm, part)));
            let parts: Vec<_> = parts.iter().map(|(size, sum)| (Some(sum), *size)).collect();
            let whole = checksum(algorithm, b"hello world, three parts");
            assert_eq!(combined(algorithm, &parts), Some(whole), "{algorithm:?}");
        }
    }
}
