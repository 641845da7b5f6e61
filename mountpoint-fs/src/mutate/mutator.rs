//! The type that changes objects.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use mountpoint_client::ObjectClient;

use super::completion_tags::CompletionTags;
use super::conditions::Conditions;
use super::deletion::Deleter;
use crate::clock::Clock;
use crate::config::{CopyLimits, WriteConfig};
use crate::journal::Journal;

/// Changes the objects of a bucket.
#[derive(Debug)]
pub struct Mutator {
    pub(super) client: Arc<dyn ObjectClient>,
    pub(super) clock: Clock,
    pub(super) allow_rename: bool,
    pub(super) allow_delete: bool,
    pub(super) directory_markers: bool,
    pub(super) limits: CopyLimits,
    /// The mount's journal: uploads, including copies in parts, and renames of directories.
    pub(super) journal: Arc<Journal>,
    pub(super) conditions: Conditions,
    pub(super) deleter: Deleter,
    pub(crate) completion_tags: CompletionTags,
    /// Whether the server rejects copies of parts: their bytes then go through this machine.
    pub(super) copies_no_parts: AtomicBool,
}

impl Mutator {
    /// Changes `client`'s bucket as far as `settings` allow it.
    #[must_use]
    pub fn new(client: Arc<dyn ObjectClient>, settings: &WriteConfig, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            deleter: Deleter::new(Arc::clone(&client)),
            client,
            clock,
            allow_rename: settings.allow_rename,
            allow_delete: settings.allow_delete,
            directory_markers: settings.directory_markers,
            limits: settings.copy_limits,
            journal: Arc::new(Journal::new(
                settings.state_directory.as_deref(),
                &settings.bucket,
            )),
            conditions: Conditions::default(),
            completion_tags: CompletionTags::default(),
            copies_no_parts: AtomicBool::new(false),
        })
    }

    /// Skips the trial of copies if the server's conditions `are_kept`, for tests of later changes.
    #[cfg(test)]
    pub(crate) fn believe(&self, are_kept: bool) {
        self.conditions.believe(are_kept);
    }

    /// What is known of the server's conditions.
    pub(crate) fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// Entries for the next mount.
    pub(crate) fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }
}
