//! A compact form of an object's version, because there may be millions of inodes.
//!
//! Pure. Invariant: unpacking returns the packed version, except for fractions of a second, which a
//! version does not have (see [`Version`]).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::namespace::version::Version;
use crate::operation::PackedETag;

/// A [`Version`] in compact form.
#[derive(Debug)]
pub(crate) struct PackedVersion {
    size: u64,
    /// Seconds since 1970.
    mtime: i64,
    etag: PackedETag,
    is_archived: bool,
}

impl PackedVersion {
    pub(crate) fn pack(version: &Version) -> Self {
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

    pub(crate) fn unpack(&self) -> Version {
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

#[cfg(test)]
mod tests {
    use mountpoint_client::types::ETag;

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
            ("\"d41d8cd98f00b204e9800998ecf8427e", true),
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
