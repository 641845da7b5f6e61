//! Versions that this mount has replaced by equal bytes: a change of an object's headers is a copy.
//!
//! The copy of an object that was uploaded in parts, or is encrypted, has another ETag. Readers of
//! the version before go on with the copy. A reader that meets it before the copy is answered
//! waits for that answer. Knows the last [`RENEWALS_MAX`] of them; an older one is forgotten.

use std::collections::VecDeque;

use futures::FutureExt as _;
use futures::channel::oneshot;
use futures::future::Shared;
use mountpoint_client::types::{ETag, Key};

use crate::sync::Mutex;

/// The last renewals of the mount, the oldest one first. The lock is a leaf.
#[derive(Debug, Default)]
pub(super) struct Renewals(Mutex<VecDeque<Renewed>>);

#[derive(Debug)]
struct Renewed {
    key: Key,
    before: ETag,
    now: Shared<oneshot::Receiver<ETag>>,
}

/// A copy of an object onto itself that was begun. Without its version, nothing was renewed.
#[derive(Debug)]
pub(crate) struct Renewal(oneshot::Sender<ETag>);

impl Renewal {
    /// The copy was made, and has the version `now`.
    pub(crate) fn made(self, now: &ETag) {
        if *now == ETag::none() {
            // Its readers could not tell it from another version.
            return;
        }
        // Its readers may be gone.
        self.0.send(now.clone()).ok();
    }
}

impl Renewals {
    /// The version `before` of the object `key` is about to be copied onto itself.
    pub(super) fn begin(&self, key: &Key, before: &ETag) -> Renewal {
        let (sender, receiver) = oneshot::channel();
        let mut all = self.0.lock();
        if all.len() >= RENEWALS_MAX {
            all.pop_front();
        }
        all.push_back(Renewed {
            key: key.clone(),
            before: before.clone(),
            now: receiver.shared(),
        });
        Renewal(sender)
    }

    /// The last version with the bytes of the version `before`, if there is another one.
    pub(super) async fn version_behind(&self, key: &Key, before: &ETag) -> Option<ETag> {
        if *before == ETag::none() {
            return None;
        }
        let mut last = before.clone();
        for _ in 0..RENEWALS_MAX {
            let Some(copy) = self.newest_copy(key, &last) else {
                break;
            };
            match copy.await {
                Ok(now) if !now.matches(&last) => last = now,
                // The version is the same, or nothing tells that the copy was made.
                _ => break,
            }
        }
        (!last.matches(before)).then_some(last)
    }

    fn newest_copy(&self, key: &Key, before: &ETag) -> Option<Shared<oneshot::Receiver<ETag>>> {
        let all = self.0.lock();
        let found = all
            .iter()
            .rev()
            .find(|one| one.key == *key && one.before.matches(before));
        found.map(|one| one.now.clone())
    }
}

/// About 300 bytes each. Readers of an older one are told that their version was replaced.
const RENEWALS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_leads_to_the_copy_that_was_made_of_it() {
        let tag = |name: &str| ETag::from_header(&format!("\"{name}\""));
        let (renewals, key) = (Renewals::default(), Key::parse("key").unwrap());
        let find = |before: &str| {
            let before = tag(before);
            let found = renewals.version_behind(&key, &before);
            found.now_or_never()
        };
        assert_eq!(find("a"), Some(None));
        let renewal = renewals.begin(&key, &tag("a"));
        assert_eq!(find("a"), None, "it waits for the copy");
        renewal.made(&tag("b"));
        assert_eq!(find("a"), Some(Some(tag("b"))));
        drop(renewals.begin(&key, &tag("b")));
        assert_eq!(find("b"), Some(None), "it was not made");
        assert_eq!(find("a"), Some(Some(tag("b"))));
        renewals.begin(&key, &tag("b")).made(&tag("d"));
        assert_eq!(find("a"), Some(Some(tag("d"))), "the last one");
        renewals.begin(&key, &ETag::none()).made(&tag("e"));
        renewals.begin(&key, &tag("e")).made(&ETag::none());
        assert_eq!(find(""), Some(None), "it has no version");
        assert_eq!(find("e"), Some(None), "the copy has no version");
        let other = Key::parse("other").unwrap();
        let before = tag("a");
        let found = renewals.version_behind(&other, &before);
        assert_eq!(found.now_or_never(), Some(None), "another object");
        renewals.begin(&key, &tag("c")).made(&tag("c"));
        assert_eq!(find("c"), Some(None), "the version is the same");
        for number in 0..RENEWALS_MAX {
            drop(renewals.begin(&key, &tag(&number.to_string())));
        }
        assert_eq!(find("a"), Some(None), "it is forgotten");
    }
}
