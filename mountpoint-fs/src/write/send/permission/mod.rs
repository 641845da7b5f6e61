//! Whether S3 lets this mount write, found out before the first write of a file is answered.
//!
//! Shells ignore the error of `close`: where writing is not permitted, `echo hi > file` would
//! succeed and store nothing. So permission that was not shown is not believed. The first file that
//! a mount writes, and files after a refusal, begin an upload, send it one byte and abort it: that
//! takes the permissions that storing takes, by the same methods of HTTP, and changes nothing. Once
//! a file is stored, nothing is asked.
//!
//! A policy may permit some prefixes only: a directory in which a file was refused is asked about
//! until one is stored there, whatever is stored elsewhere.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use mountpoint_client::types::Key;

use crate::operation::FsError;
use crate::sync::Mutex;
use crate::write::background::SharedOutcome;

/// What stores and proofs have shown.
#[derive(Debug, Default)]
pub(in crate::write) struct Permission {
    /// Nothing is in doubt: no lock is taken then.
    is_believed: AtomicBool,
    /// The lock is a leaf.
    known: Mutex<PermissionRecord>,
}

#[derive(Debug, Default)]
struct PermissionRecord {
    /// A file was stored, or a proof succeeded.
    is_shown: bool,
    /// A file was refused since one was stored last.
    is_refused: bool,
    /// Directories, by their prefixes, where a file was refused and none stored since. The oldest
    /// is forgotten first.
    refused: VecDeque<String>,
    /// The proof of the first file, which the files that are begun meanwhile wait for.
    first: Option<SharedOutcome<Result<(), FsError>>>,
}

/// The proof that a file needs before its first write is answered.
pub(in crate::write) enum Proof {
    Nothing,
    Wait(SharedOutcome<Result<(), FsError>>),
    Own(SharedOutcome<Result<(), FsError>>),
}

impl Permission {
    /// Whether a file at `key` is to prove that it may be stored.
    pub(in crate::write) fn is_doubted(&self, key: &Key) -> bool {
        !self.is_believed.load(Ordering::Acquire) && self.known.lock().is_doubted(key)
    }

    /// The file `key` was stored.
    pub(in crate::write) fn stored(&self, key: &Key) {
        if !self.is_believed.load(Ordering::Acquire) {
            self.change(|known| {
                (known.is_shown, known.is_refused) = (true, false);
                known.refused.retain(|refused| refused != directory(key));
            });
        }
    }

    /// The file `key` was not stored because of `error`, which may hold for others as well.
    pub(in crate::write) fn failed(&self, key: &Key, error: &FsError) {
        if !matches!(error, FsError::Denied(_) | FsError::Client(_)) {
            return;
        }
        self.change(|known| {
            known.is_refused = true;
            known.refused.retain(|refused| refused != directory(key));
            if known.refused.len() == REFUSED_MAX {
                known.refused.pop_front();
            }
            known.refused.push_back(directory(key).to_owned());
        });
    }

    /// A proof succeeded, or the server has nothing to prove it by. That takes back no refusal.
    pub(in crate::write) fn shown(&self) {
        self.change(|known| known.is_shown = true);
    }

    fn change(&self, change: impl FnOnce(&mut PermissionRecord)) {
        let mut known = self.known.lock();
        change(&mut known);
        let is_believed = known.is_shown && !known.is_refused && known.refused.is_empty();
        self.is_believed.store(is_believed, Ordering::Release);
    }

    /// The proof that a file at `key` needs.
    pub(in crate::write) fn proof(&self, key: &Key) -> Proof {
        let mut known = self.known.lock();
        if !known.is_doubted(key) {
            return Proof::Nothing;
        }
        let is_first = !known.is_shown && !known.is_refused;
        match &known.first {
            Some(first) if is_first && first.get().is_none() => Proof::Wait(first.clone()),
            _ => {
                let own = SharedOutcome::new();
                known.first = Some(own.clone());
                Proof::Own(own)
            }
        }
    }
}

impl PermissionRecord {
    fn is_doubted(&self, key: &Key) -> bool {
        let is_refused = || self.refused.iter().any(|refused| refused == directory(key));
        !self.is_shown || self.is_refused || is_refused()
    }
}

/// The prefix of the directory that `key` is in.
fn directory(key: &Key) -> &str {
    let key = key.as_str();
    key.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Directories that are remembered: as many as policies are likely to tell apart. A directory that
/// is forgotten costs no file, but its program may not hear of the first refusal there.
const REFUSED_MAX: usize = 64;
