//! The child process's view of a server, embedded or given.

use anyhow::Result;

use super::setup::Requests;
use crate::dataset::FileSet;
use crate::workload::Conditions;

/// A server that holds the objects.
pub(super) trait Store {
    fn url(&self) -> String;
    fn clear(&self);
    /// `None` if it does not count.
    fn requests(&self) -> Option<Requests>;
    fn behave(&self, conditions: Conditions) -> Result<()>;
    /// The first object that differs from its expected content is an error.
    fn check(&self, files: FileSet) -> Result<()>;
    fn remove_written(&self) -> Result<()>;
}

/// A key that makes the directory of written files, for systems that do not see it without.
pub(super) fn written_marker() -> String {
    format!("{}/keep", crate::dataset::WRITTEN)
}
