//! The system call behind a request.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroU64;

use futures::future::BoxFuture;

use super::FileKind;

/// Tells the system call that a lookup or an open belongs to.
///
/// The answer is not free, so callers ask only where it makes a difference.
pub trait Purpose: Sync {
    /// The kind of `name` if the system call only makes it if it is absent.
    ///
    /// `None` where that is unknown.
    fn made_kind<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<FileKind>>;

    /// The system call, as long as it waits. `None` where it is unknown.
    fn call(&self) -> Option<CallMark> {
        None
    }
}

/// Tells a system call of a thread from its other calls, and from those of other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallMark(NonZeroU64);

impl CallMark {
    /// The mark of the call that the kernel shows of `thread` as `call`.
    #[must_use]
    pub fn new(thread: u32, call: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (thread, call).hash(&mut hasher);
        Self(NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MAX))
    }
}
