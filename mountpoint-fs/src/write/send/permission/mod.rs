//! Whether S3 lets this mount write, found out before the first write of a file is answered.
//!
//! Shells ignore the error of `close`: where writing is not permitted, `echo hi > file` would
//! succeed and store nothing. So what was not shown is not believed. The first file that a mount
//! writes, and files after a refusal, begin an upload, send it one byte and abort it: that takes
//! the permissions that storing takes, by the same methods of HTTP, and changes nothing. Once a
//! file is stored, nothing is asked.
//!
//! A policy may permit some prefixes only: a directory in which a file was refused is asked about
//! until one is stored there, whatever is stored elsewhere.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use mountpoint_client::types::{Key, ObjectHeaders, PartNumber, Upload};
use mountpoint_client::{ClientError, ErrorKind};

use crate::operation::FsError;
use crate::sync::Mutex;
use crate::write::background::{self, SharedOutcome};
use crate::write::context::{WriteContext, failed};

/// What stores and proofs have shown.
#[derive(Debug, Default)]
pub(in crate::write) struct Permission {
    /// Nothing is in doubt: no lock is taken then.
    is_believed: AtomicBool,
    /// The lock is a leaf.
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
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

/// What a file has to do before its first write is answered.
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
    fn shown(&self) {
        self.change(|known| known.is_shown = true);
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
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

impl Known {
    fn is_doubted(&self, key: &Key) -> bool {
        let is_refused = || self.refused.iter().any(|refused| refused == directory(key));
        !self.is_shown || self.is_refused || is_refused()
    }
}

impl WriteContext {
    /// Tries whether an object `key` that carries `headers` may be stored, and settles `outcome`.
    /// Goes on if nobody waits.
    pub(in crate::write) fn try_storing(
        self: Arc<Self>,
        key: Key,
        headers: ObjectHeaders,
        outcome: SharedOutcome<Result<(), FsError>>,
    ) {
        let pending = self.begin();
        background::run(async move {
            let (upload, tried) = self.try_to_store(&key, headers).await;
            let proven = match tried {
                Ok(()) => Ok(()),
                Err(error) if error.kind == ErrorKind::Unsupported => {
                    tracing::debug!(%key, "whether files may be stored is seen when one is: {error}");
                    Ok(())
                }
                Err(error) => Err(failed(error)),
            };
            match &proven {
                Ok(()) => self.permission.shown(),
                Err(error) => self.permission.failed(&key, error),
            }
            // Before the file is stored: a server that ends an upload by its key would take the
            // object for a part of it.
            if let Some(upload) = upload {
                self.end_proof(&upload).await;
            }
            outcome.settle(proven);
            drop(pending);
        });
    }

    async fn try_to_store(
        &self,
        key: &Key,
        headers: ObjectHeaders,
    ) -> (Option<Upload>, Result<(), ClientError>) {
        let upload = match self.client.create_upload(key, headers, None).await {
            Ok(upload) => upload,
            Err(error) => return (None, Err(error)),
        };
        self.journal.begun(&upload).await;
        let body = Bytes::from_static(PROOF_BODY);
        let sent = self.client.put_part(&upload, PartNumber(1), body, None);
        let sent = sent.await.map(drop);
        (Some(upload), sent)
    }

    async fn end_proof(&self, upload: &Upload) {
        match self.client.abort_upload(upload).await {
            Ok(()) => self.journal.ended(upload),
            Err(error) if error.kind == ErrorKind::NoSuchUpload => self.journal.ended(upload),
            Err(error) => {
                let key = &upload.key;
                tracing::warn!(%key, "an unfinished upload stays in the bucket: {error}");
            }
        }
    }
}

/// The prefix of the directory that `key` is in.
fn directory(key: &Key) -> &str {
    let key = key.as_str();
    key.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Directories that are remembered: as many as policies are likely to tell apart. What is forgotten
/// costs no file, but its program may not hear of the first refusal there.
const REFUSED_MAX: usize = 64;

/// What is sent to be refused or thrown away. Not empty: some servers take no empty part.
const PROOF_BODY: &[u8] = b"\0";
