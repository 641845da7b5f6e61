//! Fetches the files that will probably be opened next.
//!
//! A prefetched file is a [`Reader`] that holds all bytes of one version until the file is opened.
//! Its memory counts as read-ahead: the prefetch never waits for it, and gives it back when readers
//! need memory, or after a while.
//!
//! Lock order: the lock of the runs, then a reader's or the budget's. No lock is held during
//! requests, drops of readers or calls of the namespace.

use std::sync::Arc;

use mountpoint_client::types::{ETag, Key};

use super::runs::{Runs, Sibling};
use crate::config::limits::SMALL_FILE_MAX;
use crate::read::prefetch_budget::{PrefetchBudget, PrefetchLoan};
use crate::read::{ReadContext, Reader};
use crate::sync::Mutex;

/// The prefetched files that were not opened yet.
#[derive(Debug)]
pub struct SiblingPrefetch {
    context: Arc<ReadContext>,
    runs: Mutex<Runs<Reader>>,
    budget: Arc<Mutex<PrefetchBudget>>,
}

/// Bytes that were prefetched before an open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiblingPrefetchStats {
    /// Bytes that were fetched and not read so far.
    pub unread: u64,
    /// Bytes that were fetched and will not be read.
    pub wasted: u64,
}

impl SiblingPrefetch {
    /// A prefetch without any files.
    #[must_use]
    pub fn new(context: Arc<ReadContext>) -> Self {
        Self {
            context,
            runs: Mutex::default(),
            budget: Arc::default(),
        }
    }

    /// Takes the prefetched file `key` for an open of the version `etag`. The caller must know that
    /// this version is the newest.
    #[must_use]
    pub fn take(&self, key: &Key, etag: &ETag) -> Option<Reader> {
        let (directory, name) = split(key);
        let reader = self.runs.lock().take(directory, name)?;
        // A reader of another version is dropped here, under no lock.
        (reader.is_of(etag) && reader.is_prefetched()).then_some(reader)
    }

    /// Records an open of the file `key` of `size` bytes, and prefetches the next files.
    ///
    /// Prefetches only in a run. `behind` returns the files behind a name, at most the given
    /// number.
    pub fn opened(&self, key: &Key, size: u64, behind: impl FnOnce(&str, usize) -> Vec<Sibling>) {
        let (directory, name) = split(key);
        let mut removed = Vec::new();
        let (in_order, lack) = {
            let mut runs = self.runs.lock();
            let in_order = runs.opened(directory, name, &mut removed);
            (in_order, runs.lack())
        };
        drop(removed);
        if in_order {
            self.budget.lock().earn(size.min(SMALL_FILE_MAX));
        }
        let files = lack.map(|lack| {
            let files = behind(&lack.behind, lack.count);
            (lack, files)
        });
        if !in_order && files.is_none() {
            return;
        }
        let mut asked = Vec::new();
        {
            let mut runs = self.runs.lock();
            if let Some((lack, files)) = files {
                runs.extend(directory, &lack, files);
            }
            runs.ask(|next| {
                let ahead = self.borrow(next.size)?;
                let reader = self.reader(next);
                reader.set_loan(ahead);
                asked.push(reader.clone());
                Some(reader)
            });
        }
        for reader in asked {
            reader.fetch_ahead();
        }
    }

    /// Forgets files whose memory was given back, after a while or because readers needed it.
    pub fn give_back_idle(&self) {
        let mut removed = Vec::new();
        self.runs.lock().retain(Reader::is_prefetched, &mut removed);
    }

    /// Counts of the prefetched bytes.
    #[must_use]
    pub fn stats(&self) -> SiblingPrefetchStats {
        let budget = self.budget.lock();
        SiblingPrefetchStats {
            unread: budget.unread(),
            wasted: budget.wasted(),
        }
    }

    fn borrow(&self, len: u64) -> Option<PrefetchLoan> {
        PrefetchLoan::borrow(&self.budget, len)
    }

    fn reader(&self, next: &Sibling) -> Reader {
        Reader::new(
            &self.context,
            next.key.clone(),
            next.etag.clone(),
            next.size,
        )
    }
}

/// Splits a key into its directory's prefix and the name.
fn split(key: &Key) -> (&str, &str) {
    let key = key.as_str();
    key.split_at(key.rfind('/').map_or(0, |slash| slash + 1))
}
