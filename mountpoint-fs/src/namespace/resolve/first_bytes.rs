//! First bytes of files that lookups have fetched for the `open` that may follow.
//!
//! The kernel does not tell why it looks a name up. [`Eagerness`] learns whether fetching first
//! bytes pays: each fetch costs a credit, and an `open` that follows returns two.
//!
//! Bounded by [`FIRST_BYTES_FILES_MAX`]. Bytes that no `open` takes make room for later ones or
//! expire.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use mountpoint_client::types::ETag;

use crate::namespace::moment::Moment;
use crate::operation::InodeNo;
use crate::sync::Mutex;

/// The fetched bytes. The lock guards only them; no other lock is taken under it.
#[derive(Debug, Default)]
pub(crate) struct FirstBytesCache(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    /// The oldest entry is the first.
    first_bytes: VecDeque<Kept>,
    eagerness: Eagerness,
    /// Time until which lookups fetch no first bytes, because a fetch failed.
    failed_until: Option<Moment>,
    /// Whether first bytes are never fetched.
    is_unused: bool,
}

#[derive(Debug)]
struct Kept {
    ino: InodeNo,
    etag: ETag,
    bytes: Bytes,
    until: Moment,
}

impl Held {
    fn can_be_had(&self, now: Moment) -> bool {
        !self.is_unused && self.failed_until.is_none_or(|until| until <= now)
    }
}

impl FirstBytesCache {
    /// A cache that no lookup fills, because first bytes are cached elsewhere.
    pub(crate) fn unused() -> Self {
        Self(Mutex::new(Held {
            is_unused: true,
            ..Held::default()
        }))
    }

    /// Whether a lookup should fetch first bytes. Spends a credit: call it once for each fetch.
    pub(crate) fn spend(&self, now: Moment) -> bool {
        let mut held = self.0.lock();
        held.can_be_had(now) && held.eagerness.spend()
    }

    /// Whether [`FirstBytesCache::spend`] would return `true`.
    pub(crate) fn are_worth_it(&self, now: Moment) -> bool {
        let held = self.0.lock();
        held.can_be_had(now) && held.eagerness.is_worth_it()
    }

    /// Stops fetching for a while after a failed fetch: some servers do not support it.
    pub(crate) fn failed(&self, now: Moment) {
        self.0.lock().failed_until = Some((now.since_start() + FIRST_BYTES_FAILED_AGE).into());
    }

    /// Keeps the fetched `bytes` of the version `etag` of `ino`.
    pub(crate) fn keep(&self, ino: InodeNo, etag: &ETag, bytes: &Bytes, until: Moment) {
        if bytes.is_empty() {
            return;
        }
        let mut held = self.0.lock();
        held.first_bytes.retain(|kept| kept.ino != ino);
        if held.first_bytes.len() == FIRST_BYTES_FILES_MAX {
            held.first_bytes.pop_front();
        }
        held.first_bytes.push_back(Kept {
            ino,
            etag: etag.clone(),
            bytes: bytes.clone(),
            until,
        });
    }

    /// Takes the bytes for an `open` of the version `etag`. `is_fresh` tells whether the `open`
    /// relies on a lookup just before it.
    pub(crate) fn take(&self, ino: InodeNo, etag: &ETag, is_fresh: bool) -> Option<Bytes> {
        let mut held = self.0.lock();
        let index = held.first_bytes.iter().position(|kept| kept.ino == ino);
        let kept = index.and_then(|index| held.first_bytes.remove(index));
        let kept = kept.filter(|kept| kept.etag == *etag);
        if is_fresh || kept.is_some() {
            held.eagerness.earn();
        }
        kept.map(|kept| kept.bytes)
    }

    /// Drops bytes that no `open` has taken in time.
    pub(crate) fn expire(&self, now: Moment) {
        self.0.lock().first_bytes.retain(|kept| kept.until > now);
    }
}

/// Learns whether an `open` follows a lookup.
#[derive(Debug)]
struct Eagerness {
    credit: u8,
}

impl Default for Eagerness {
    fn default() -> Self {
        Self {
            credit: FIRST_BYTES_CREDIT,
        }
    }
}

impl Eagerness {
    fn is_worth_it(&self) -> bool {
        self.credit > 0
    }

    fn spend(&mut self) -> bool {
        let is_worth_it = self.is_worth_it();
        self.credit = self.credit.saturating_sub(1);
        is_worth_it
    }

    /// Records that an `open` followed a lookup.
    fn earn(&mut self) {
        self.credit = (self.credit + 2).min(FIRST_BYTES_CREDIT_MAX);
    }
}

/// Files whose first bytes wait for their open: 1 MiB in all.
const FIRST_BYTES_FILES_MAX: usize = 8;

/// Lookups of a new mount that fetch first bytes before the first open.
const FIRST_BYTES_CREDIT: u8 = 2;

/// Largest number of lookups that fetch first bytes without an open, after many opens.
const FIRST_BYTES_CREDIT_MAX: u8 = 8;

/// How long lookups fetch no first bytes after a failure.
///
/// A server without support is asked once a minute, and a chance failure costs no more than that.
pub(crate) const FIRST_BYTES_FAILED_AGE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn etag() -> ETag {
        ETag::from_header("\"e\"")
    }

    fn at(seconds: u64) -> Moment {
        Duration::from_secs(seconds).into()
    }

    #[test]
    fn bytes_are_taken_once_by_the_version_they_are_of() {
        let first_bytes = FirstBytesCache::default();
        let keep = || first_bytes.keep(InodeNo(7), &etag(), &Bytes::from_static(b"x"), at(1));
        keep();
        assert_eq!(first_bytes.take(InodeNo(8), &etag(), true), None);
        let taken = first_bytes.take(InodeNo(7), &etag(), true);
        assert_eq!(taken.as_deref(), Some(&b"x"[..]));
        assert_eq!(first_bytes.take(InodeNo(7), &etag(), true), None);
        keep();
        let other = ETag::from_header("\"f\"");
        assert_eq!(first_bytes.take(InodeNo(7), &other, true), None);
        assert_eq!(first_bytes.take(InodeNo(7), &etag(), true), None);
        keep();
        first_bytes.expire(at(1));
        assert_eq!(first_bytes.take(InodeNo(7), &etag(), true), None);
    }

    #[test]
    fn where_they_cannot_be_had_they_are_not_asked_for() {
        let first_bytes = FirstBytesCache::default();
        assert!(first_bytes.spend(at(0)));
        first_bytes.failed(at(1));
        let later = at(1 + FIRST_BYTES_FAILED_AGE.as_secs());
        for (now, expected) in [(at(1), false), (at(60), false), (later, true)] {
            assert_eq!(first_bytes.are_worth_it(now), expected);
            assert_eq!(first_bytes.spend(now), expected);
        }
    }

    #[test]
    fn they_are_bounded() {
        let first_bytes = FirstBytesCache::default();
        for number in 0..3 * FIRST_BYTES_FILES_MAX as u64 {
            first_bytes.keep(InodeNo(number), &etag(), &Bytes::from_static(b"x"), at(1));
        }
        assert_eq!(
            first_bytes.0.lock().first_bytes.len(),
            FIRST_BYTES_FILES_MAX
        );
        assert_eq!(first_bytes.take(InodeNo(0), &etag(), false), None);
    }

    /// `s`: a lookup fetches bytes; `-`: a lookup fetches none; `o`: an `open` follows a lookup.
    #[test]
    fn lookups_that_no_open_follows_bring_nothing_along() {
        for steps in ["ss-----", "sososososs", "ss--oss-", "oooooooooossssssss-"] {
            let mut eagerness = Eagerness::default();
            for (index, step) in steps.chars().enumerate() {
                match step {
                    'o' => eagerness.earn(),
                    step => assert_eq!(eagerness.spend(), step == 's', "{steps} at {index}"),
                }
            }
        }
    }
}
