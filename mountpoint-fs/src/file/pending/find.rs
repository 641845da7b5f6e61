//! The files that wait for their upload, from whoever knows them.
//!
//! A mount that starts has the directory before it knows what is pending. Then nobody knows, so the
//! caller waits.

use super::versions::{PendingEntry, PendingVersions};
use crate::file::control::{ControlRequest, PendingReport, ask};
use crate::file::directory::{Holder, find_holder};
use crate::file::kept::KeptVersions;

/// The source that knows the pending files.
#[derive(Debug)]
pub(crate) enum Pending {
    /// The mount that uses the directory.
    OfMount(PendingReport),
    /// The journal, as no mount uses the directory.
    OfNobody(FoundPending),
}

/// The versions in the journal of a directory that no mount uses.
#[derive(Debug, Default)]
pub(crate) struct FoundPending {
    pub(crate) versions: Vec<PendingEntry>,
    /// Damage of the journal.
    pub(crate) damage: Vec<String>,
}

impl FoundPending {
    /// Versions that the next mount can upload, and those that it cannot.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let damaged = self
            .versions
            .iter()
            .filter(|it| it.damage.is_some())
            .count() as u64;
        (self.versions.len() as u64 - damaged, damaged)
    }
}

/// Asks the mount that uses the directory, or reads the journal if none does. `wait` waits a moment
/// for a process that has the directory and does not answer.
///
/// # Errors
/// A text for the user, or that of `wait`.
pub(crate) fn find_pending(
    versions: &KeptVersions,
    request: ControlRequest,
    wait: &mut dyn FnMut(&Holder) -> Result<(), String>,
) -> Result<Pending, String> {
    let folder = versions.folder();
    loop {
        let asked = ask(folder, request);
        if let Some(report) = asked.map_err(|error| format!("the mount: {error}"))? {
            return Ok(Pending::OfMount(report));
        }
        let mut found = FoundPending::default();
        let holder_now = match find_holder(folder)? {
            Some(holder) => Some(holder),
            None => {
                if let Some(seen) = PendingVersions::look(versions.directory())? {
                    found.versions = seen.all();
                    found.damage = seen.damage();
                }
                // What was read counts if no mount has changed it meanwhile.
                find_holder(folder)?
            }
        };
        match holder_now {
            None => return Ok(Pending::OfNobody(found)),
            Some(holder) => wait(&holder)?,
        }
    }
}
