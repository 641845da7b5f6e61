//! What a name is looked up for.

use futures::future::BoxFuture;

/// Tells what the system call is about that a look-up belongs to. It costs something to find out, and is asked only where it
/// makes a difference.
pub trait Purpose: Sync {
    /// Whether the call makes a file of `name`, which it looks up, if that is absent, and does nothing else with it. `false`
    /// where that is not known.
    fn is_to_make_file<'a>(&'a self, name: &'a str) -> BoxFuture<'a, bool>;
}

/// A look at the name, or nobody knows what for.
#[derive(Clone, Copy, Debug)]
pub struct Looking;

impl Purpose for Looking {
    fn is_to_make_file<'a>(&'a self, _: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }
}
