//! The purpose of a lookup.

use futures::future::BoxFuture;

use super::FileKind;

/// Tells the system call that a lookup belongs to.
///
/// The answer is not free, so callers ask only where it makes a difference.
pub trait Purpose: Sync {
    /// The kind of `name` if the system call only makes it if it is absent.
    ///
    /// `None` where that is unknown.
    fn made_kind<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<FileKind>>;
}

/// A lookup that only looks, or whose purpose is unknown.
#[derive(Clone, Copy, Debug)]
pub struct Looking;

impl Purpose for Looking {
    fn made_kind<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<FileKind>> {
        Box::pin(std::future::ready(None))
    }
}
