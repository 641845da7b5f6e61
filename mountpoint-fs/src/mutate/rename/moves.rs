//! Which objects a directory's rename moves, and which of them are copied already.
//!
//! Pure: two listings in, moves out.

use std::collections::HashMap;

use mountpoint_client::types::{Key, ObjectInfo};

use crate::operation::FsError;

/// One object to move.
#[derive(Debug)]
pub(super) struct Move {
    pub(super) source: ObjectInfo,
    pub(super) to: Key,
    /// Whether this attempt or an earlier one has copied the object.
    pub(super) is_copied: bool,
}

/// The objects that a rename moves.
#[derive(Debug)]
pub(super) struct Moves {
    pub(super) from: String,
    pub(super) all: Vec<Move>,
}

impl Moves {
    pub(super) fn plan(
        sources: Vec<ObjectInfo>,
        there: Vec<ObjectInfo>,
        (from, to, was_begun): (&str, &str, bool),
        whole_max: u64,
    ) -> Result<Self, FsError> {
        for object in sources.iter().chain(&there) {
            check_key(&object.key, from, to)?;
        }
        let mut there: HashMap<Key, ObjectInfo> = there
            .into_iter()
            .map(|object| (object.key.clone(), object))
            .collect();
        let mut all = Vec::with_capacity(sources.len());
        // The number of objects without the directory's own, and of those whose bytes are already
        // copied.
        let (mut objects, mut copies) = (0, 0);
        for source in sources {
            let rest = source.key.as_str().strip_prefix(from).unwrap_or_default();
            let key = Key::parse(&format!("{to}{rest}")).ok_or(FsError::NameTooLong)?;
            objects += usize::from(key.as_str() != to);
            let found = there.remove(&key);
            let is_copied = match found.map(|copy| Earlier::of(&source, &copy, whole_max)) {
                // Markers look alike whatever their headers: the directory's own is always copied.
                Some(_) if key.as_str() == to => false,
                Some(Earlier::Copy { is_newer }) => {
                    copies += 1;
                    is_newer
                }
                Some(Earlier::CopyInParts) | None => false,
                Some(Earlier::Other) => return Err(FsError::NotEmpty),
            };
            all.push(Move {
                source,
                to: key,
                is_copied,
            });
        }
        // The marker of an empty directory is replaced with it.
        there.retain(|key, _| key.as_str() != to);
        // An earlier attempt that stopped during its deletions has left only objects that are
        // copied already.
        let is_half_deleted = objects > 0 && copies == objects;
        if there.is_empty() || is_half_deleted || was_begun {
            let from = from.to_owned();
            Ok(Self { from, all })
        } else {
            Err(FsError::NotEmpty)
        }
    }

    pub(super) fn copied(&self) -> usize {
        self.all.iter().filter(|one| one.is_copied).count()
    }
}

/// An object that already has the new name of another one.
enum Earlier {
    /// A copy with the same ETag. Equal bytes may have other headers if they were written after
    /// the copy, so only a copy that `is_newer` is kept.
    Copy { is_newer: bool },
    /// Probably a copy in parts. Such a copy has an ETag of its own, so it is repeated.
    CopyInParts,
    /// Another object, which must not be lost.
    Other,
}

impl Earlier {
    fn of(source: &ObjectInfo, copy: &ObjectInfo, whole_max: u64) -> Self {
        if copy.size != source.size {
            Self::Other
        } else if copy.etag.matches(&source.etag) {
            Self::Copy {
                is_newer: copy.last_modified > source.last_modified,
            }
        } else if copy.size > whole_max && copy.last_modified >= source.last_modified {
            Self::CopyInParts
        } else {
            Self::Other
        }
    }
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
