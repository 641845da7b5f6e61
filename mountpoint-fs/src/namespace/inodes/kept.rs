//! Directories that are there although no key says so.

use std::collections::{BTreeSet, HashMap};

use crate::operation::InodeNo;

/// Which directories are kept.
#[derive(Debug, Default)]
pub(in crate::namespace) struct Kept {
    /// How many are kept themselves.
    pub(super) count: usize,
    /// Of each directory with kept ones below it, the names in it that lead to them.
    pub(super) below: HashMap<InodeNo, BTreeSet<InodeNo>>,
}
