//! What is open, and what of it the file does not say yet. Pure: nothing here touches a file.

use std::collections::VecDeque;
use std::io;
use std::time::SystemTime;

use futures::channel::oneshot;
use mountpoint_client::types::Upload;

use super::line::{Line, Renaming};
use crate::config::limits::{JOURNAL_QUEUE_MAX, RENAMES_REMEMBERED_MAX};

/// What the journal's thread does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Thread {
    /// There is none, or none any more.
    #[default]
    None,
    Runs,
    /// It is to write what is left.
    IsToEnd,
}

/// What is done besides writing lines.
#[derive(Debug)]
pub(super) enum Errand {
    /// Take over what others left, by the time of day, and tell which uploads that are.
    TakeOver(SystemTime, oneshot::Sender<Vec<Upload>>),
    /// Remove the file if it says nothing.
    TidyUp,
}

/// What is to be done next.
pub(super) enum Work {
    Write,
    Errand(Errand),
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Begun and not ended, whether or not the file says so.
    pub(super) open: Vec<Upload>,
    /// The same of renames. Oldest first.
    pub(super) renames: Vec<Renaming>,
    /// Changes that are to be written: each has a number, one more than that before.
    lines: VecDeque<(u64, Vec<u8>)>,
    /// The bytes of all those.
    lines_len: usize,
    /// There was more to write than is kept: all that is open is to be told instead.
    tells_all: bool,
    /// How many changes there were.
    made: u64,
    /// How many of them were at least begun to be written.
    taken: u64,
    /// How many of them were written, or could not be.
    settled: u64,
    /// Who waits for which change.
    pub(super) waiters: Vec<(u64, oneshot::Sender<()>)>,
    pub(super) errands: VecDeque<Errand>,
    pub(super) thread: Thread,
    /// A write takes too long to be waited for.
    pub(super) is_stuck: bool,
    pub(super) has_warned: bool,
}

impl State {
    /// Remembers `renaming` unless it is known; the oldest ones are forgotten. What there is to be written of it.
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

    /// Forgets the renames that are meant. What there is to be written of it.
    pub(super) fn forget(&mut self, is_meant: impl Fn(&Renaming) -> bool) -> Vec<Line> {
        let ended = self.renames.extract_if(.., |known| is_meant(known));
        ended.map(Renaming::ended).collect()
    }

    /// Whether there is nothing that the next mount would have to know.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.renames.is_empty()
    }

    /// The lines that say all that is open.
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

    /// A change, which these lines tell. Returns its number.
    pub(super) fn push(&mut self, lines: &[Line]) -> u64 {
        self.made += 1;
        let mut text = Vec::new();
        // A line that cannot be written down is one that the file misses.
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
        self.settled < self.made || !self.errands.is_empty()
    }

    pub(super) fn next_work(&mut self) -> Option<Work> {
        if self.settled < self.made {
            return Some(Work::Write);
        }
        self.errands.pop_front().map(Work::Errand)
    }

    /// What is to be written, the number of the last change in it, and whether all that is open is to be told instead.
    pub(super) fn take_lines(&mut self) -> (Vec<u8>, u64, bool) {
        let lines = self.lines.iter().flat_map(|(_, text)| text);
        let lines = lines.copied().collect();
        self.taken = self.made;
        (lines, self.made, std::mem::take(&mut self.tells_all))
    }

    /// The changes up to `last` were written, or could not be. Who waited for them.
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

    /// What tells that the change of this number is settled; `None` if it is, or is not waited for.
    pub(super) fn wait_for(&mut self, change: u64) -> Option<oneshot::Receiver<()>> {
        if self.settled >= change || self.is_stuck {
            return None;
        }
        let (tell, told) = oneshot::channel();
        self.waiters.push((change, tell));
        Some(told)
    }

    /// Whether all changes are written, or begun to be.
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

    /// How much was written by now, if anybody waits.
    pub(super) fn waiting(&self) -> Option<u64> {
        (!self.waiters.is_empty()).then_some(self.settled)
    }
}
