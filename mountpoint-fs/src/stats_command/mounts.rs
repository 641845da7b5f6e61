//! The mounts that are asked for, among those that answer.

use std::path::{Path, PathBuf};

use super::sockets;
use crate::fuse::Coverage;
use crate::mount::StatsDocument;

/// All mounts, or the one that shows a directory.
#[derive(Debug)]
pub(super) struct SelectedMounts(Option<PathBuf>);

impl SelectedMounts {
    /// The mount at `directory`; all mounts without one.
    pub(super) fn new(directory: Option<&Path>) -> Self {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self(directory.map(absolute))
    }

    /// The answers of those that run, sorted by directory.
    ///
    /// # Errors
    /// A text for the user if none answers.
    pub(super) fn ask(&self) -> Result<Vec<StatsDocument>, String> {
        let mut documents = sockets::ask_all();
        let Some(directory) = &self.0 else {
            return match documents.is_empty() {
                true => Err(format!("no mount of this user answers{HINT}")),
                false => Ok(documents),
            };
        };
        documents.retain(|document| is_at(document, directory));
        match documents.is_empty() {
            true => Err(format!(
                "no mount of this user that answers shows {}{HINT}",
                directory.display()
            )),
            false => Ok(documents),
        }
    }
}

/// Whether the mount is the one that `directory` leads into. The mount itself is not touched: it
/// may hang.
fn is_at(document: &StatsDocument, directory: &Path) -> bool {
    let coverage = document.mount.device.as_deref();
    match coverage.and_then(Coverage::of_named) {
        Some(coverage) => coverage.covers(directory),
        None => directory.starts_with(&document.mount.directory),
    }
}

const HINT: &str = " (root sees the mounts of all users; mounts with --no-metrics do not answer)";
