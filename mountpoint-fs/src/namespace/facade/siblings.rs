//! The files behind a file in its directory, as far as listings that are still valid tell.

use std::sync::Arc;

use mountpoint_client::types::Key;

use super::Namespace;
use crate::namespace::names;
use crate::namespace::version::{Found, Version};
use crate::operation::InodeNo;

/// A file that a listing shows behind another.
#[derive(Clone, Debug)]
pub struct NextSibling {
    /// Its name.
    pub name: Arc<str>,
    /// Its object.
    pub key: Key,
    /// The version that was listed.
    pub version: Version,
    /// Whether an open would open that version, and the kernel has no pages of it.
    pub is_unread: bool,
}

impl Namespace {
    /// The files behind `name` in the directory of the file `ino`, in order of name: at most
    /// `count`. Fewer where no listing that is valid shows more. Asks nobody.
    #[must_use]
    pub fn files_behind(&self, ino: InodeNo, name: &str, count: usize) -> Vec<NextSibling> {
        let Ok(view) = self.table.view(ino) else {
            return Vec::new();
        };
        let Ok(prefix) = self.table.directory_prefix(view.parent) else {
            return Vec::new();
        };
        let now = self.clock.now().into();
        let entries = self.recent.behind(&prefix, name, now, count);
        let files = entries.into_iter().filter_map(|entry| {
            let Found::File(version) = entry.listed.found else {
                return None;
            };
            let name = entry.listed.name;
            let key = names::file_key(&prefix, &name).ok()?;
            let is_changed = self
                .local_changes
                .invalidates_moment(&prefix, &name, entry.asked);
            let is_unread = !is_changed && self.table.is_unread(view.parent, &name, &version);
            Some(NextSibling {
                is_unread: is_unread && !version.is_archived,
                name,
                key,
                version,
            })
        });
        files.collect()
    }
}
