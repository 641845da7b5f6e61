//! Open entries and the lines that the file lacks. Pure: touches no file.

use std::collections::VecDeque;
use std::io;
use std::time::SystemTime;

use futures::channel::oneshot;
use mountpoint_client::types::Upload;

use super::line::{Line, Renaming};

/// The state of the journal's thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Thread {
    /// No thread was started, or the thread has ended.
    #[default]
    None,
    Runs,
    /// The thread is to write the remaining lines and end.
    IsToEnd,
}

/// Work besides writing lines.
#[derive(Debug)]
pub(super) enum JournalTask {
    /// Take over entries of ended processes at this time; send their uploads.
    TakeOver(SystemTime, oneshot::Sender<Vec<Upload>>),
    /// Remove the file if no entry is open.
    TidyUp,
}

/// The next work of the thread.
pub(super) enum Work {
    Write,
    Task(JournalTask),
}

#[derive(Debug, Default)]
pub(super) struct JournalState {
    /// Uploads that were begun and have not ended, whether or not the file names them.
    pub(super) open: Vec<Upload>,
    /// Renames that were begun and have not ended, oldest first.
    pub(super) renames: Vec<Renaming>,
    /// Lines to write, by the number of their change; numbers are consecutive.
    lines: VecDeque<(u64, Vec<u8>)>,
    /// Bytes of all those lines.
    lines_len: usize,
    /// The queue was full: all open entries are to be written instead.
    tells_all: bool,
    /// Number of all changes.
    made: u64,
    /// Number of changes whose write has at least begun.
    taken: u64,
    /// Number of changes that were written or could not be.
    settled: u64,
    /// Callers that wait, each with the number of its change.
    pub(super) waiters: Vec<(u64, oneshot::Sender<()>)>,
    pub(super) tasks: VecDeque<JournalTask>,
    pub(super) thread: Thread,
    /// A write takes too long to be waited for.
    pub(super) is_stuck: bool,
    pub(super) has_warned: bool,
}

impl JournalState {
    /// Remembers `renaming` unless it is known; the oldest ones are forgotten. Returns the lines to
    /// write.
    pub(super) fn remember(&mut self, renaming: Renaming) -> Vec<Line> {
        let is_known = |known: &Renaming| known.is(&renaming.from, &renaming.to);
        if self.renames.iter().any(is_known) {
            return Vec::new();
        }
        let mut lines = Vec::new();
        while self.renames.len() >= RENAMES_REMEMBERED_MAX {
            lines.push(self.renames.remove(0).ended());
        }
        self.renames.push(renaming.clone());
        lines.push(Line::Renaming(renaming));
        lines
    }

    /// Forgets the renames that `is_meant` selects. Returns the lines to write.
    pub(super) fn forget(&mut self, is_meant: impl Fn(&Renaming) -> bool) -> Vec<Line> {
        let ended = self.renames.extract_if(.., |known| is_meant(known));
        ended.map(Renaming::ended).collect()
    }

    /// Whether the next mount needs to know nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.renames.is_empty()
    }

    /// The lines that name all open entries.
    pub(super) fn tell_all(&self) -> io::Result<Vec<u8>> {
        let mut lines = Vec::new();
        for upload in &self.open {
            Line::begun(upload).append_to(&mut lines)?;
        }
        for renaming in &self.renames {
            Line::Renaming(renaming.clone()).append_to(&mut lines)?;
        }
        Ok(lines)
    }

    /// Queues the lines of a change. Returns its number.
    pub(super) fn push(&mut self, lines: &[Line]) -> u64 {
        self.made += 1;
        let mut text = Vec::new();
        // A line that cannot be encoded counts as missing in the file.
        self.tells_all |= lines.iter().any(|line| line.append_to(&mut text).is_err());
        self.lines_len += text.len();
        self.lines.push_back((self.made, text));
        if self.lines_len > JOURNAL_QUEUE_MAX {
            self.lines.clear();
            self.lines_len = 0;
            self.tells_all = true;
        }
        self.made
    }

    /// The number of the last change.
    pub(super) fn last(&self) -> u64 {
        self.made
    }

    pub(super) fn has_work(&self) -> bool {
        self.settled < self.made || !self.tasks.is_empty()
    }

    pub(super) fn next_work(&mut self) -> Option<Work> {
        if self.settled < self.made {
            return Some(Work::Write);
        }
        self.tasks.pop_front().map(Work::Task)
    }

    /// The lines to write, and the number of their last change. The flag asks for all open entries
    /// instead of the lines.
    pub(super) fn take_lines(&mut self) -> (Vec<u8>, u64, bool) {
        let lines = self.lines.iter().flat_map(|(_, text)| text);
        let lines = lines.copied().collect();
        self.taken = self.made;
        (lines, self.made, std::mem::take(&mut self.tells_all))
    }

    /// Marks the changes up to `last` as written or given up. Returns the callers that waited for
    /// them.
    pub(super) fn settle(&mut self, last: u64) -> Vec<oneshot::Sender<()>> {
        assert!(last >= self.taken && last > self.settled);
        self.settled = last;
        self.is_stuck = false;
        while let Some((_, text)) = self.lines.pop_front_if(|(change, _)| *change <= last) {
            self.lines_len -= text.len();
        }
        let done = self.waiters.extract_if(.., |(change, _)| *change <= last);
        done.map(|(_, waiter)| waiter).collect()
    }

    /// Signals when the change of this number is settled. `None` if that has happened, or if the
    /// write is stuck.
    pub(super) fn wait_for(&mut self, change: u64) -> Option<oneshot::Receiver<()>> {
        if self.settled >= change || self.is_stuck {
            return None;
        }
        let (tell, told) = oneshot::channel();
        self.waiters.push((change, tell));
        Some(told)
    }

    /// Whether all changes are written, or their write has begun.
    #[cfg(test)]
    pub(super) fn is_taken(&self) -> bool {
        self.taken == self.made
    }

    /// Bytes that wait to be written.
    #[cfg(test)]
    pub(super) fn waiting_len(&self) -> usize {
        let len = self.lines.iter().map(|(_, text)| text.len()).sum();
        assert_eq!(self.lines_len, len);
        len
    }

    /// The number of settled changes, if a caller waits.
    pub(super) fn waiting(&self) -> Option<u64> {
        (!self.waiters.is_empty()).then_some(self.settled)
    }
}

/// Unfinished renames of directories that are remembered; the oldest are forgotten.
pub(super) const RENAMES_REMEMBERED_MAX: usize = 100;

/// Bytes of lines that wait to be written to a journal. Beyond that, all open entries are written
/// instead.
pub(super) const JOURNAL_QUEUE_MAX: usize = 64 << 10;
