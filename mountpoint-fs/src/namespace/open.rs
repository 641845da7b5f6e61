//! The version that an `open` opens, and the proof that it is the newest.
//!
//! The lookup of the same system call, if it has just asked; attributes that are valid, if the
//! mount was told to trust them (`--metadata-ttl`); a HEAD; or, for a small file that was not
//! opened before, the GET of its bytes, which the reader would send next: it names the version and
//! fails if that is not the newest.

use bytes::Bytes;
use mountpoint_client::types::Key;

use super::version::Version;

/// The facts that a read of an open file needs. Its inode stays until
/// [`Namespace::close`](super::Namespace::close).
#[derive(Clone, Debug)]
pub struct OpenVersion {
    /// The object.
    pub key: Key,
    /// The version that was opened.
    pub version: Version,
    /// Whether it is the newest.
    pub proof: Proof,
    /// Its first bytes, if they came along when it was looked up.
    pub first_bytes: Option<Bytes>,
}

/// Whether a version is known to be the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The version is the newest, or was when it last had to be.
    Known,
    /// A GET of the whole file will say. It is small, and has at least one byte.
    Fetch,
}

/// The state of a file when it is opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    /// Whether reads go past the kernel's page cache.
    pub(super) is_direct: bool,
    /// Where its bytes may be already.
    pub(super) held: HeldBytes,
    /// Whether its attributes are valid and such are trusted.
    pub(super) is_trusted: bool,
    /// Bytes that can be fetched: none of an archived object.
    pub(super) size: u64,
}

/// Where the bytes of a file may be already, so that they need not be fetched for a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeldBytes {
    Nowhere,
    /// The file was opened before: the kernel may have its pages.
    InPages,
    /// There is a cache on a disk.
    OnDisk,
}

/// How it is found out whether a version is the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HowToProve {
    Trust,
    Head,
    Fetch,
}

impl Opening {
    /// For a version that no lookup vouches for.
    pub(super) fn how_to_prove(self) -> HowToProve {
        let Self {
            is_direct,
            held,
            is_trusted,
            size,
        } = self;
        if is_trusted && !is_direct {
            return HowToProve::Trust;
        }
        let may_fetch = match held {
            HeldBytes::Nowhere => true,
            HeldBytes::InPages => is_direct,
            HeldBytes::OnDisk => false,
        };
        if may_fetch && (1..=OPEN_FETCH_MAX).contains(&size) {
            HowToProve::Fetch
        } else {
            HowToProve::Head
        }
    }
}

/// Largest file that `open` fetches instead of asking for its version: one request brings both.
///
/// The kernel would read these bytes first; an application that does not read the file wastes no
/// more.
pub(crate) const OPEN_FETCH_MAX: u64 = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_open_asks() {
        use HowToProve::{Fetch, Head, Trust};
        let plain = Opening {
            is_direct: false,
            held: HeldBytes::Nowhere,
            is_trusted: false,
            size: 1,
        };
        let direct = Opening {
            is_direct: true,
            ..plain
        };
        let trusted = |opening| Opening {
            is_trusted: true,
            ..opening
        };
        let known = |opening| Opening {
            held: HeldBytes::InPages,
            ..opening
        };
        let cached = |opening| Opening {
            held: HeldBytes::OnDisk,
            ..opening
        };
        let sized = |size| Opening { size, ..plain };
        for (opening, expected) in [
            (plain, Fetch),
            (sized(OPEN_FETCH_MAX), Fetch),
            (sized(OPEN_FETCH_MAX + 1), Head),
            (sized(0), Head),
            (known(plain), Head),
            (direct, Fetch),
            (known(direct), Fetch),
            (trusted(plain), Trust),
            (trusted(known(plain)), Trust),
            (trusted(sized(OPEN_FETCH_MAX + 1)), Trust),
            (trusted(direct), Fetch),
            (cached(plain), Head),
            (cached(trusted(plain)), Trust),
            (cached(trusted(direct)), Head),
        ] {
            assert_eq!(opening.how_to_prove(), expected, "{opening:?}");
        }
    }
}
