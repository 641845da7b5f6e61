//! Failures of open files that were logged.
//!
//! After a refused write or length, every later write and the close fail with the same error: that
//! is one failure.

use std::collections::VecDeque;

use crate::fuse::errno::FuseOperation;
use crate::operation::InodeNo;
use crate::sync::Mutex;

/// The failures of written files, each until a handle of its file is released.
#[derive(Debug, Default)]
pub(in crate::fuse) struct LoggedFailures {
    /// The newest last. Held for a few instructions, inside any other lock.
    files: Mutex<VecDeque<(InodeNo, String)>>,
}

impl LoggedFailures {
    /// Whether this failure of `operation` of `ino` was not logged yet. From now on it counts as
    /// logged.
    pub(in crate::fuse) fn is_news(
        &self,
        operation: FuseOperation,
        ino: InodeNo,
        text: &str,
    ) -> bool {
        let may_repeat = matches!(
            operation,
            FuseOperation::Write | FuseOperation::Close | FuseOperation::FSync
        );
        // A refused length is logged each time: a file that is not open is never released.
        if !may_repeat && !matches!(operation, FuseOperation::SetAttr | FuseOperation::FAllocate) {
            return true;
        }
        let mut files = self.files.lock();
        let is_known = |(known, told): &(InodeNo, String)| *known == ino && told == text;
        if files.iter().any(is_known) {
            return !may_repeat;
        }
        if files.len() == FILES_MAX {
            files.pop_front();
        }
        files.push_back((ino, text.to_owned()));
        true
    }

    /// Notes that a handle of `ino` is released: its next failure is logged again.
    pub(in crate::fuse) fn released(&self, ino: InodeNo) {
        let mut files = self.files.lock();
        if !files.is_empty() {
            files.retain(|(known, _)| *known != ino);
        }
    }
}

/// More files than fail at once in a log that people still read line by line.
const FILES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_news_once_for_each_open() {
        let logged = LoggedFailures::default();
        let (file, other) = (InodeNo(2), InodeNo(3));
        for (operation, ino, text, is_news) in [
            (FuseOperation::Write, file, "a", true),
            (FuseOperation::Write, file, "a", false),
            (FuseOperation::Close, file, "a", false),
            (FuseOperation::FSync, file, "b", true),
            (FuseOperation::Write, other, "a", true),
            (FuseOperation::Open, file, "a", true),
            (FuseOperation::Open, file, "a", true),
            (FuseOperation::SetAttr, file, "c", true),
            (FuseOperation::SetAttr, file, "c", true),
            (FuseOperation::Close, file, "c", false),
        ] {
            assert_eq!(
                logged.is_news(operation, ino, text),
                is_news,
                "{operation} {text}"
            );
        }
        logged.released(file);
        assert!(logged.is_news(FuseOperation::Write, file, "a"));
        assert!(!logged.is_news(FuseOperation::Write, other, "a"));
        for number in 0..FILES_MAX as u64 {
            assert!(logged.is_news(FuseOperation::Write, InodeNo(10 + number), "a"));
        }
        assert!(logged.is_news(FuseOperation::Write, other, "a"));
        assert_eq!(logged.files.lock().len(), FILES_MAX);
    }
}
