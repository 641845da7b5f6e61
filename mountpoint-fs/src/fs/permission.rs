//! The changes that a mount permits: the one place that maps flags to changes.
//!
//! Pure: settings and a change in, permission or refusal out. A refusal's text names the flag that
//! would allow the change; `fuse::errno` chooses the errno, and the log gets the text.

use crate::config::WriteConfig;
use crate::operation::FsError;

/// A change that an application requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A file that does not exist.
    Create,
    /// An existing file is written from its beginning.
    Overwrite,
    /// An existing file is extended.
    Append,
    /// A directory that does not exist.
    MakeDirectory,
    /// A file is removed.
    Delete,
    /// A directory is removed.
    RemoveDirectory,
    /// A name is changed. Replacing another file needs [`Change::Overwrite`] as well.
    Rename,
    /// Mode, owner, times or extended attributes of an existing file.
    Attributes,
    /// A symbolic link.
    SymbolicLink,
    /// A pipe or a socket.
    Special,
    /// Another name for a file: a copy on the server.
    HardLink,
}

/// Whether `change` is allowed.
pub(crate) fn permit(settings: &WriteConfig, change: Change) -> Result<(), FsError> {
    if settings.read_only {
        return Err(FsError::ReadOnly);
    }
    let (allowed, text) = match change {
        Change::Create | Change::MakeDirectory | Change::Rename | Change::Attributes => {
            return Ok(());
        }
        Change::SymbolicLink => (settings.posix_metadata, SYMBOLIC_LINK),
        Change::Special => (settings.posix_metadata, SPECIAL),
        Change::HardLink => (settings.allow_rename, HARD_LINK),
        Change::Overwrite => (settings.allow_overwrite, OVERWRITE),
        Change::Append => (settings.allow_append, APPEND),
        Change::Delete => (settings.allow_delete, DELETE),
        Change::RemoveDirectory => (settings.allow_delete, REMOVE_DIRECTORY),
    };
    if allowed {
        Ok(())
    } else {
        Err(FsError::NotPermitted(text.to_owned()))
    }
}

const OVERWRITE: &str =
    "an existing file is not replaced without --allow-changes, or --allow-overwrite alone";
const APPEND: &str = "an existing file is not appended to without --allow-changes, or --allow-append alone \
                      (or --incremental-upload on a directory bucket)";
const DELETE: &str = "a file is not removed without --allow-changes, or --allow-delete alone";
/// The refusal of an attribute that S3 does not keep by itself.
pub(super) fn not_kept(attribute: &str) -> FsError {
    FsError::NotPermitted(format!(
        "{attribute} cannot be changed: S3 keeps none, and objects carry it only with --allow-changes, or \
         --posix-metadata alone"
    ))
}

/// The refusal of other attributes.
pub(super) const NO_EXTENDED_ATTRIBUTES: &str = "extended attributes are stored only with --allow-changes, or \
     --posix-metadata alone, and only those whose names begin with user.";

const SYMBOLIC_LINK: &str =
    "a symbolic link is not made without --allow-changes, or --posix-metadata alone";
const SPECIAL: &str =
    "a pipe or a socket is not made without --allow-changes, or --posix-metadata alone";
const HARD_LINK: &str = "a hard link, which is a copy on the server, is not made without --allow-changes, or --allow-rename \
                         alone";
const REMOVE_DIRECTORY: &str =
    "a directory is not removed without --allow-changes, or --allow-delete alone";

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Change; 11] = [
        Change::Create,
        Change::Overwrite,
        Change::Append,
        Change::MakeDirectory,
        Change::Delete,
        Change::RemoveDirectory,
        Change::Rename,
        Change::Attributes,
        Change::SymbolicLink,
        Change::Special,
        Change::HardLink,
    ];

    #[track_caller]
    fn check(settings: &WriteConfig, change: Change, flag: Option<&str>) {
        match (permit(settings, change), flag) {
            (Ok(()), None) => {}
            (Err(FsError::NotPermitted(text)), Some(flag)) => {
                assert!(text.contains(flag), "{change:?}: {text}");
                assert!(text.contains("--allow-changes"), "{change:?}: {text}");
            }
            (other, expected) => panic!("{change:?}: {other:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn each_change_needs_its_flag() {
        let none = WriteConfig::default();
        check(&none, Change::Create, None);
        check(&none, Change::MakeDirectory, None);
        check(&none, Change::Overwrite, Some("--allow-overwrite"));
        check(&none, Change::Append, Some("--allow-append"));
        check(&none, Change::Append, Some("--incremental-upload"));
        check(&none, Change::Delete, Some("--allow-delete"));
        check(&none, Change::RemoveDirectory, Some("--allow-delete"));
        check(&none, Change::SymbolicLink, Some("--posix-metadata"));
        check(&none, Change::Special, Some("--posix-metadata"));
        check(&none, Change::HardLink, Some("--allow-rename"));
        let all = WriteConfig {
            allow_delete: true,
            allow_overwrite: true,
            allow_append: true,
            allow_rename: true,
            posix_metadata: true,
            ..none
        };
        for change in ALL {
            check(&all, change, None);
            let read_only = WriteConfig {
                read_only: true,
                ..all.clone()
            };
            assert!(matches!(permit(&read_only, change), Err(FsError::ReadOnly)));
        }
    }
}
