//! The purpose of a lookup.

use futures::future::BoxFuture;

/// Tells the system call that a lookup belongs to.
///
/// The answer is not free, so callers ask only where it makes a difference.
pub trait Purpose: Sync {
    /// Whether the system call only makes `name` if it is absent: a file, a directory or a link.
    ///
    /// `false` where that is unknown.
    fn is_to_make<'a>(&'a self, name: &'a str) -> BoxFuture<'a, bool>;
}

/// A lookup that only looks, or whose purpose is unknown.
#[derive(Clone, Copy, Debug)]
pub struct Looking;

impl Purpose for Looking {
    fn is_to_make<'a>(&'a self, _: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }
}
