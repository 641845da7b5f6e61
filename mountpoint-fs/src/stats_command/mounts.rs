//! The mounts that are asked for, among those that answer.

use std::path::{Path, PathBuf};

use super::sockets::{self, AnsweringMount};
use crate::fuse::{Coverage, MountedAt};
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
        let mounts = self.find()?.into_iter();
        Ok(mounts.map(|mount| mount.document).collect())
    }

    /// The mounts that run, with the way to ask them more.
    ///
    /// # Errors
    /// A text for the user if none answers.
    pub(super) fn find(&self) -> Result<Vec<AnsweringMount>, String> {
        let mut mounts = sockets::find_all();
        let Some(directory) = &self.0 else {
            return match mounts.is_empty() {
                true => Err(format!("no mount of this user answers{HINT}")),
                false => Ok(mounts),
            };
        };
        mounts.retain(|mount| is_at(&mount.document, directory));
        match mounts.is_empty() {
            true => Err(without_answer(directory)),
            false => Ok(mounts),
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

/// Why no mount answers for `directory`, as far as the mount table tells.
fn without_answer(directory: &Path) -> String {
    let place = directory.display();
    match MountedAt::of(directory) {
        Some(mounted) if !mounted.is_ours() => format!(
            "{place} is in a mount of another program ({})",
            mounted.kind
        ),
        Some(mounted) => match mounted.user {
            Some(user) if user != nix::unistd::geteuid().as_raw() => format!(
                "no mount of this user that answers shows {place}: that mount is of user {user}; \
                 that user and root may ask it"
            ),
            _ => format!("no mount of this user that answers shows {place}{HINT}"),
        },
        None => format!(
            "no mount of this user that answers shows {place}: it is in no mount of mount-s3"
        ),
    }
}

const HINT: &str = " (root sees the mounts of all users; mounts with --no-metrics do not answer)";
