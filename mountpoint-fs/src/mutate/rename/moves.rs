//! Which objects a directory's rename moves, and which of them are copied already.
//!
//! Pure: two listings in, moves out. What an earlier attempt has copied carries the token of the
//! rename, which only the journal of this host knows: equal objects prove nothing.

use std::collections::{HashMap, HashSet};
use std::time::SystemTime;

use crc_fast::{CrcAlgorithm, checksum};
use mountpoint_client::types::{ETag, Key, ObjectInfo};

use crate::operation::FsError;

/// One object to move.
#[derive(Debug)]
pub(super) struct Move {
    pub(super) source: ObjectInfo,
    pub(super) to: Key,
    /// Whether this attempt or an earlier one has copied the object.
    pub(super) is_copied: bool,
    /// Whether an earlier attempt has left a copy of an older version.
    pub(super) is_outdated: bool,
    /// The version of the copy that this attempt has made.
    pub(super) copied_as: Option<ETag>,
}

/// An object that has another version behind the rename of its directory: servers give the copy of
/// an object that was uploaded in parts, or is encrypted, an ETag of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenamedVersion {
    /// The new key.
    pub key: Key,
    /// The version that had the old key.
    pub before: ETag,
    /// The version that has the new key.
    pub now: ETag,
}

/// The objects that a rename moves.
#[derive(Debug)]
pub(super) struct Moves {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) all: Vec<Move>,
    /// The index of the object that marks the directory itself.
    pub(super) marker: Option<usize>,
}

impl Moves {
    /// The copies of this attempt that have another version than their sources.
    pub(super) fn renamed_versions(self) -> Vec<RenamedVersion> {
        let renamed = |one: Move| {
            let now = one.copied_as?;
            (!now.matches(&one.source.etag)).then_some(RenamedVersion {
                key: one.to,
                before: one.source.etag,
                now,
            })
        };
        self.all.into_iter().filter_map(renamed).collect()
    }

    pub(super) fn plan(
        sources: Vec<ObjectInfo>,
        there: &[ObjectInfo],
        (from, to): (&str, &str),
        earlier: &EarlierAttempt,
    ) -> Result<Self, FsError> {
        for object in sources.iter().chain(there) {
            check_key(&object.key, from, to)?;
        }
        let mut there: HashSet<&Key> = there.iter().map(|object| &object.key).collect();
        let mut all = Vec::with_capacity(sources.len());
        for source in sources {
            let rest = source.key.as_str().strip_prefix(from).unwrap_or_default();
            let key = Key::parse(&format!("{to}{rest}")).ok_or(FsError::NameTooLong)?;
            let is_there = there.remove(&key);
            let is_copied = match is_there {
                // The directory's own marker is always replaced.
                true if key.as_str() == to => false,
                true => match earlier.copies.get(&key) {
                    Some(number) => *number == version_number(&source),
                    None => return Err(FsError::NotEmpty),
                },
                false => false,
            };
            all.push(Move {
                source,
                to: key,
                is_copied,
                is_outdated: is_there && !is_copied,
                copied_as: None,
            });
        }
        // The marker of an empty directory is replaced with it.
        there.retain(|key| key.as_str() != to);
        // Objects that have only their new name: the earlier attempt stopped behind their deletion.
        let is_ours = |key: &&Key| earlier.has_moved || earlier.copies.contains_key(*key);
        if there.iter().all(is_ours) {
            let marker = all.iter().position(|one| one.source.key.as_str() == from);
            let (from, to) = (from.to_owned(), to.to_owned());
            Ok(Self {
                from,
                to,
                all,
                marker,
            })
        } else {
            Err(FsError::NotEmpty)
        }
    }

    /// The indices of what the directory holds.
    pub(super) fn content(&self) -> impl Iterator<Item = usize> + use<> {
        let marker = self.marker;
        (0..self.all.len()).filter(move |index| Some(*index) != marker)
    }

    /// The object to begin with; the marker only where there is no other. `None` if it is copied.
    pub(super) fn first(&self) -> Option<&Move> {
        let first = self.content().next().or(self.marker);
        let first = first.and_then(|index| self.all.get(index));
        first.filter(|first| !first.is_copied)
    }

    /// Whether something else is moved than the marker of an empty directory.
    pub(super) fn has_content(&self) -> bool {
        let marker = self.marker.and_then(|index| self.all.get(index));
        self.content().next().is_some() || marker.is_some_and(|one| one.source.size > 0)
    }

    pub(super) fn copied(&self) -> usize {
        self.all.iter().filter(|one| one.is_copied).count()
    }
}

/// What an earlier attempt of the same rename has left below the new name.
#[derive(Debug, Default)]
pub(super) struct EarlierAttempt {
    /// Its copies, each with the number of the version that it is a copy of.
    pub(super) copies: HashMap<Key, u64>,
    /// Whether it moved objects as they are, so that nothing tells them from others.
    pub(super) has_moved: bool,
}

/// The number of a version, by which a copy tells what it is a copy of. Equal bytes that were
/// written later may have other headers.
pub(super) fn version_number(source: &ObjectInfo) -> u64 {
    let since = source.last_modified.duration_since(SystemTime::UNIX_EPOCH);
    let nanos = since.unwrap_or_default().as_nanos();
    let text = format!("{nanos} {}", source.etag.as_str());
    checksum(CrcAlgorithm::Crc64Nvme, text.as_bytes())
}

/// Refuses a directory with a key that no request can name.
fn check_key(key: &Key, from: &str, to: &str) -> Result<(), FsError> {
    let Some(why) = key.why_made_up() else {
        return Ok(());
    };
    let key = key.as_str();
    let key = key.strip_suffix(Key::NO_ETAG).unwrap_or(key);
    Err(FsError::NotPermitted(format!(
        "{from} cannot be renamed to {to}: {key:?} has {why}, so it stays where it is; move or \
         remove it with what stored it"
    )))
}
