//! The permission to store files, found out before the first write of a file is answered.
//!
//! Shells ignore the error of `close`: without permission, `echo hi > file` would succeed and store
//! nothing. So the first file of a mount, and files after a refusal, make a probe: an upload is
//! begun, gets one byte and is aborted. The probe needs the permissions and HTTP methods of a
//! store, and changes nothing. After the first stored file no probe is made.
//!
//! A policy may permit some prefixes only: after a refusal in a directory, files there make a probe
//! until one of them is stored.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use mountpoint_client::types::Key;

use crate::operation::FsError;
use crate::sync::Mutex;
use crate::write::background::SharedOutcome;

/// The results of stores and probes.
#[derive(Debug, Default)]
pub(in crate::write) struct Permission {
    /// No permission is in doubt: then no lock is taken.
    is_believed: AtomicBool,
    /// The lock is a leaf.
    known: Mutex<PermissionRecord>,
}

#[derive(Debug, Default)]
struct PermissionRecord {
    /// A file was stored, or a probe succeeded.
    is_shown: bool,
    /// A file was refused since the last stored one.
    is_refused: bool,
    /// Prefixes of directories with a refused file and none stored since. The oldest is forgotten
    /// first.
    refused: VecDeque<String>,
    /// The probe of the first file. Other new files wait for its outcome.
    first: Option<SharedOutcome<Result<(), FsError>>>,
}

/// The probe that a file needs before its first write is answered.
pub(in crate::write) enum Proof {
    Nothing,
    Wait(SharedOutcome<Result<(), FsError>>),
    Own(SharedOutcome<Result<(), FsError>>),
}

impl Permission {
    /// Whether a file at `key` needs a probe.
    pub(in crate::write) fn is_doubted(&self, key: &Key) -> bool {
        !self.is_believed.load(Ordering::Acquire) && self.known.lock().is_doubted(key)
    }

    /// Notes that the file `key` was stored.
    pub(in crate::write) fn stored(&self, key: &Key) {
        if !self.is_believed.load(Ordering::Acquire) {
            self.change(|known| {
                (known.is_shown, known.is_refused) = (true, false);
                known.refused.retain(|refused| refused != directory(key));
            });
        }
    }

    /// Notes that the file `key` failed with `error`, which may hold for other files as well.
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

    /// Notes a successful probe, or a server without uploads. Earlier refusals still hold.
    pub(in crate::write) fn shown(&self) {
        self.change(|known| known.is_shown = true);
    }

    fn change(&self, change: impl FnOnce(&mut PermissionRecord)) {
        let mut known = self.known.lock();
        change(&mut known);
        let is_believed = known.is_shown && !known.is_refused && known.refused.is_empty();
        self.is_believed.store(is_believed, Ordering::Release);
    }

    /// The probe that a file at `key` needs.
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

/// The prefix of the directory of `key`.
fn directory(key: &Key) -> &str {
    let key = key.as_str();
    key.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Most remembered directories: as many as policies are likely to distinguish. A forgotten
/// directory loses no file, but its program may miss the first refusal there.
const REFUSED_MAX: usize = 64;
