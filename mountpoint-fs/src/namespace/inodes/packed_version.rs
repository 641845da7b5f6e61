//! A version of an object in few bytes: there may be millions of inodes.
//!
//! Pure. Invariant: what is packed comes out as it went in, but for a time's fraction of a second,
//! which a version does not have (see [`Version`]).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mountpoint_client::types::ETag;

use crate::namespace::version::Version;

/// A [`Version`], packed.
#[derive(Debug)]
pub(in crate::namespace) struct PackedVersion {
    size: u64,
    /// Seconds since 1970.
    mtime: i64,
    etag: PackedETag,
    is_archived: bool,
}

/// An ETag. Most are an MD5 in hexadecimal, some with a number of parts behind it.
#[derive(Debug)]
enum PackedETag {
    Digest {
        digest: [u8; DIGEST_LEN],
        /// 0 where there is none.
        parts: u16,
        is_quoted: bool,
    },
    Other(ETag),
}

impl PackedVersion {
    pub(in crate::namespace) fn pack(version: &Version) -> Self {
        let seconds = |elapsed: Duration| i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX);
        let mtime = match version.mtime.duration_since(UNIX_EPOCH) {
            Ok(after) => seconds(after),
            Err(before) => -seconds(before.duration()),
        };
        Self {
            size: version.size,
            mtime,
            etag: PackedETag::pack(&version.etag),
            is_archived: version.is_archived,
        }
    }

    pub(in crate::namespace) fn unpack(&self) -> Version {
        Version {
            size: self.size,
            etag: self.etag.unpack(),
            mtime: self.mtime(),
            is_archived: self.is_archived,
        }
    }

    fn mtime(&self) -> SystemTime {
        let distance = Duration::from_secs(self.mtime.unsigned_abs());
        let time = if self.mtime < 0 {
            UNIX_EPOCH.checked_sub(distance)
        } else {
            UNIX_EPOCH.checked_add(distance)
        };
        time.unwrap_or(UNIX_EPOCH)
    }
}

impl PackedETag {
    fn pack(etag: &ETag) -> Self {
        let text = etag.as_str();
        let unquoted = text
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'));
        let packed = Self::digest(unquoted.unwrap_or(text), unquoted.is_some());
        // Only what comes out as it went in: upper case, leading zeros and whatever else there may
        // be do not.
        packed
            .filter(|packed| packed.unpack() == *etag)
            .unwrap_or_else(|| Self::Other(etag.clone()))
    }

    fn digest(text: &str, is_quoted: bool) -> Option<Self> {
        let (hex, parts) = match text.split_once('-') {
            None => (text, 0),
            Some((hex, parts)) => (hex, parts.parse().ok().filter(|parts| *parts > 0)?),
        };
        if hex.len() != 2 * DIGEST_LEN || !hex.is_ascii() {
            return None;
        }
        let mut digest = [0; DIGEST_LEN];
        for (index, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).ok()?;
        }
        Some(Self::Digest {
            digest,
            parts,
            is_quoted,
        })
    }

    fn unpack(&self) -> ETag {
        use std::fmt::Write;
        let (digest, parts, is_quoted) = match self {
            Self::Other(etag) => return etag.clone(),
            Self::Digest {
                digest,
                parts,
                is_quoted,
            } => (digest, *parts, *is_quoted),
        };
        let mut text = String::with_capacity(2 * DIGEST_LEN + "\"-65535\"".len());
        let quote = if is_quoted { "\"" } else { "" };
        text.push_str(quote);
        // Once for each name that is listed: the formatter would take a twentieth of a long
        // listing's time.
        for byte in digest {
            text.push(char::from(HEX[usize::from(byte >> 4)]));
            text.push(char::from(HEX[usize::from(byte & 0xf)]));
        }
        if parts > 0 {
            write!(text, "-{parts}").expect("a string takes everything");
        }
        text.push_str(quote);
        ETag::from_header(&text)
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Bytes of an MD5.
const DIGEST_LEN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn version(etag: &str, mtime: SystemTime) -> Version {
        Version {
            size: 7,
            etag: ETag::from_header(etag),
            mtime,
            is_archived: true,
        }
    }

    #[test]
    fn everything_comes_out_as_it_went_in() {
        for (etag, is_digest) in [
            ("\"d41d8cd98f00b204e9800998ecf8427e\"", true),
            ("d41d8cd98f00b204e9800998ecf8427e", true),
            ("\"d41d8cd98f00b204e9800998ecf8427e-1\"", true),
            ("\"d41d8cd98f00b204e9800998ecf8427e-10000\"", true),
            ("\"d41d8cd98f00b204e9800998ecf8427e-0\"", false),
            ("\"d41d8cd98f00b204e9800998ecf8427e-01\"", false),
            ("\"d41d8cd98f00b204e9800998ecf8427e-99999\"", false),
            ("\"D41D8CD98F00B204E9800998ECF8427E\"", false),
            ("\"+41d8cd98f00b204e9800998ecf8427e\"", false),
            ("\"ünïcode98f00b204e9800998ecf8427e\"", false),
            ("\"d41d8cd98f00b204e9800998ecf8427e", false),
            ("W/\"1\"", false),
            ("\"\"", false),
            ("\"", false),
            ("", false),
        ] {
            let version = version(etag, UNIX_EPOCH);
            let packed = PackedVersion::pack(&version);
            assert_eq!(packed.unpack(), version, "{etag}");
            assert_eq!(
                matches!(packed.etag, PackedETag::Digest { .. }),
                is_digest,
                "{etag}"
            );
        }
    }

    #[test]
    fn times() {
        for seconds in [0, 1, 1_700_000_000, 40_000_000_000] {
            for time in [
                UNIX_EPOCH + Duration::from_secs(seconds),
                UNIX_EPOCH - Duration::from_secs(seconds),
            ] {
                let version = version("\"e\"", time);
                assert_eq!(PackedVersion::pack(&version).unpack(), version);
            }
        }
    }

    #[test]
    fn it_is_small() {
        assert!(size_of::<PackedVersion>() <= 48);
    }
}
