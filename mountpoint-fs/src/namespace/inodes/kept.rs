//! Directories that exist even without a key.

use std::collections::{BTreeSet, HashMap};

use crate::operation::InodeNo;

/// The set of kept directories.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Number of kept directories.
    pub(super) count: usize,
    /// For each directory above a kept one: the subdirectories on the way to it.
    pub(super) below: HashMap<InodeNo, BTreeSet<InodeNo>>,
}
