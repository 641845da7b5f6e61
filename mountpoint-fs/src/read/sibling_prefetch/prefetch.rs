//! Fetches the files that are opened next.
//!
//! What was fetched is a [`Reader`] that holds all bytes of one version, until the file is opened.
//! Its memory is read-ahead's: it is never waited for, goes first when readers wait for memory, and
//! after a while anyway.
//!
//! Lock order: the runs', then a reader's own or the budget's. None is held while anything is sent,
//! given back or asked of the namespace.

use std::sync::Arc;

use mountpoint_client::types::{ETag, Key};

use super::runs::{Runs, Sibling};
use crate::config::limits::SMALL_FILE_MAX;
use crate::read::prefetch_budget::{PrefetchBudget, PrefetchLoan};
use crate::read::{ReadContext, Reader};
use crate::sync::Mutex;

/// The files that were asked for and not opened yet.
#[derive(Debug)]
pub struct SiblingPrefetch {
    context: Arc<ReadContext>,
    runs: Mutex<Runs<Reader>>,
    budget: Arc<Mutex<PrefetchBudget>>,
}

/// What became of the files that were fetched before they were opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiblingPrefetchStats {
    /// Bytes that were fetched and not read so far.
    pub unread: u64,
    /// Bytes that were fetched and will not be read.
    pub wasted: u64,
}

impl SiblingPrefetch {
    /// None yet.
    #[must_use]
    pub fn new(context: Arc<ReadContext>) -> Self {
        Self {
            context,
            runs: Mutex::default(),
            budget: Arc::default(),
        }
    }

    /// The reader of a file that is being opened at the version `etag`, if its bytes were asked
    /// for. Nothing is known of whether that version is the newest: whoever opens it does.
    #[must_use]
    pub fn take(&self, key: &Key, etag: &ETag) -> Option<Reader> {
        let (directory, name) = split(key);
        let reader = self.runs.lock().take(directory, name)?;
        // Of another version: it is dropped here, with no lock held.
        (reader.is_of(etag) && reader.is_prefetched()).then_some(reader)
    }

    /// The file `key` of `size` bytes was opened. Fetches what comes next, if there is a pattern;
    /// `behind` tells the files that come behind a name, at most so many.
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

    /// Forgets files whose bytes were given back, because nobody opened them for a while or others
    /// needed the memory.
    pub fn give_back_idle(&self) {
        let mut removed = Vec::new();
        self.runs.lock().retain(Reader::is_prefetched, &mut removed);
    }

    /// What is at stake, and what was lost.
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

/// The prefix of a key's directory, and the name in it.
fn split(key: &Key) -> (&str, &str) {
    let key = key.as_str();
    key.split_at(key.rfind('/').map_or(0, |slash| slash + 1))
}
