//! The end of a staged file: why its changes are never stored again.

use crate::operation::FsError;

/// Whether a file has ended, and by what.
#[derive(Clone, Debug)]
pub(in crate::file::life) enum End {
    /// The file goes on: its changes are stored.
    None,
    /// Its name was removed, or is another file's. Programs that have it open read and write it.
    Removed,
    /// A failure: each commit returns it, as the bucket lacks what a program believes to have
    /// closed.
    Failed(FsError),
    /// A failure and a removal, one behind the other.
    FailedAndRemoved(FsError),
    /// A failure of which no close tells: the bucket has the changes, or there were none.
    Settled(FsError),
}

impl End {
    /// The failure, if there was one.
    pub(in crate::file::life) fn failure(&self) -> Option<&FsError> {
        match self {
            Self::None | Self::Removed => None,
            Self::Failed(failure) | Self::FailedAndRemoved(failure) | Self::Settled(failure) => {
                Some(failure)
            }
        }
    }

    /// Whether the file's changes are never stored again.
    pub(in crate::file::life) fn is_over(&self) -> bool {
        !matches!(self, Self::None)
    }

    pub(in crate::file::life) fn is_removed(&self) -> bool {
        matches!(self, Self::Removed | Self::FailedAndRemoved(_))
    }

    /// Whether the file still has its name, which was neither removed nor given up.
    pub(super) fn has_name(&self) -> bool {
        matches!(self, Self::None | Self::Failed(_))
    }

    /// The file has lost its name. One that has ended with all of its bytes stays so.
    pub(super) fn remove(&mut self) {
        *self = match std::mem::replace(self, Self::None) {
            Self::None => Self::Removed,
            Self::Failed(failure) => Self::FailedAndRemoved(failure),
            end => end,
        };
    }

    /// The file ends by the failure, unless it has failed before.
    pub(in crate::file::life) fn fail(&mut self, failure: FsError) {
        match self {
            Self::None => *self = Self::Failed(failure),
            Self::Removed => *self = Self::FailedAndRemoved(failure),
            Self::Failed(_) | Self::FailedAndRemoved(_) | Self::Settled(_) => {}
        }
    }

    /// The file ends by the failure, or by the one before, and there is nothing that a close could
    /// lose.
    pub(super) fn settle(&mut self, failure: FsError) {
        *self = Self::Settled(self.failure().cloned().unwrap_or(failure));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(text: &str) -> FsError {
        FsError::Stale(text.to_owned())
    }

    fn is_by(end: &End, text: &str) -> bool {
        matches!(end.failure(), Some(FsError::Stale(failure)) if failure == text)
    }

    #[test]
    fn the_first_failure_stays_and_a_removal_is_noted_beside_it() {
        let mut end = End::None;
        assert!(!end.is_over() && end.has_name());
        end.fail(failure("first"));
        end.fail(failure("second"));
        assert!(end.is_over() && end.has_name() && !end.is_removed());
        end.remove();
        assert!(end.is_removed() && !end.has_name());
        assert!(is_by(&end, "first"));
        let mut removed = End::None;
        removed.remove();
        assert!(removed.is_removed() && removed.failure().is_none());
        removed.fail(failure("later"));
        assert!(removed.is_removed());
        assert!(is_by(&removed, "later"));
    }

    #[test]
    fn a_settled_file_stays_settled() {
        let mut end = End::None;
        end.fail(failure("first"));
        end.settle(failure("second"));
        end.remove();
        end.fail(failure("third"));
        assert!(matches!(end, End::Settled(_)) && is_by(&end, "first"));
        assert!(end.is_over() && !end.is_removed() && !end.has_name());
    }
}
