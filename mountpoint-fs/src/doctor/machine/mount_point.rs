//! Whether a directory can be mounted on.

use std::path::Path;

use crate::doctor::error_text::split_hint;
use crate::doctor::finding::{Area, Check, Finding};
use crate::fuse::{MountError, check_mount_point, is_dead_mount};

const CHECK: &str = "mount point";

/// The state of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::doctor) enum State {
    Usable {
        is_empty: bool,
    },
    Missing,
    /// A mount of this program whose process has ended.
    Dead,
    Unusable(String),
    /// `/dev/fd/N`: the mounting process has checked the directory.
    Passed,
}

/// Examines a directory. A dead file system in its path may block this for ever; the caller bounds
/// it.
pub(in crate::doctor) fn look(directory: &Path) -> State {
    if directory.starts_with("/dev/fd") {
        return State::Passed;
    }
    match check_mount_point(directory) {
        Ok(canonical) if is_dead_mount(&canonical) => State::Dead,
        Ok(canonical) => {
            let is_empty =
                std::fs::read_dir(canonical).map_or(true, |mut entries| entries.next().is_none());
            State::Usable { is_empty }
        }
        Err(MountError::Missing(_)) => State::Missing,
        Err(error) => State::Unusable(error.to_string()),
    }
}

/// The finding on a directory; `None` as the state means that the check timed out.
///
/// `is_given` means that the user named the directory. A default directory does not prevent a
/// mount.
pub(in crate::doctor) fn judge(directory: &Path, state: Option<&State>, is_given: bool) -> Finding {
    let shown = directory.display();
    match state {
        Some(State::Usable { is_empty: true }) => {
            Check(Area::Directory, CHECK).ok(format!("{shown} is an empty directory"))
        }
        Some(State::Usable { is_empty: false }) => Check(Area::Directory, CHECK).warning(
            format!("{shown} is not empty: its content is hidden while the bucket is mounted"),
            "choose an empty directory, unless that is intended",
        ),
        Some(State::Dead) => Check(Area::Directory, CHECK).warning(
            format!("{shown} is a mount whose process is gone"),
            format!("nothing: the next mount there replaces it; `umount -l {shown}` removes it"),
        ),
        Some(State::Passed) => Check(Area::Directory, CHECK).ok(format!(
            "{shown} is a descriptor that the mounting process passes"
        )),
        Some(State::Missing) if is_given => Check(Area::Directory, CHECK).error(
            format!("{shown} does not exist"),
            format!("`mkdir -p {shown}`"),
        ),
        Some(State::Missing) => {
            Check(Area::Directory, CHECK).ok(format!("{shown} does not exist yet; none was given"))
        }
        Some(State::Unusable(why)) => unusable(why, is_given),
        None => silent(directory, is_given),
    }
}

/// The finding on a directory that cannot be mounted on.
fn unusable(why: &str, is_given: bool) -> Finding {
    let (found, hint) = split_hint(why);
    if is_given {
        let advice = hint.unwrap_or("choose another directory");
        return Check(Area::Directory, CHECK).error(found, advice);
    }
    let found = format!("{found}; none was given");
    Check(Area::Directory, CHECK).warning(found, NAME_ANOTHER)
}

/// The finding on a directory that does not answer.
fn silent(directory: &Path, is_given: bool) -> Finding {
    let shown = directory.display();
    let found = format!("{shown} does not answer: a dead file system is on the way to it");
    if is_given {
        let advice = format!("`umount -l {shown}`, or choose another directory");
        return Check(Area::Directory, CHECK).error(found, advice);
    }
    Check(Area::Directory, CHECK).warning(found, NAME_ANOTHER)
}

const NAME_ANOTHER: &str = "name another directory: `mount-s3 doctor BUCKET DIRECTORY`";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;
    use crate::doctor::finding::tests::expect;

    #[test]
    fn states() {
        for (state, is_given, level, text) in [
            (
                Some(State::Usable { is_empty: true }),
                true,
                Level::Ok,
                "empty",
            ),
            (
                Some(State::Usable { is_empty: false }),
                true,
                Level::Warning,
                "hidden",
            ),
            (Some(State::Missing), true, Level::Error, "mkdir -p /mnt/x"),
            (Some(State::Missing), false, Level::Ok, "none was given"),
            (Some(State::Passed), true, Level::Ok, "descriptor"),
            (Some(State::Dead), true, Level::Warning, "replaces it"),
            (
                Some(State::Unusable("x is busy; go away".to_owned())),
                true,
                Level::Error,
                "-> go away",
            ),
            (
                Some(State::Unusable("odd".to_owned())),
                true,
                Level::Error,
                "another directory",
            ),
            (
                Some(State::Unusable("x is busy; go away".to_owned())),
                false,
                Level::Warning,
                "-> name another directory: `mount-s3 doctor BUCKET DIRECTORY`",
            ),
            (None, true, Level::Error, "umount -l"),
            (None, false, Level::Warning, "-> name another directory"),
        ] {
            let row = judge(Path::new("/mnt/x"), state.as_ref(), is_given);
            expect(&[row], "mount point", level, text);
        }
    }

    #[test]
    fn directories() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(look(directory.path()), State::Usable { is_empty: true });
        let file = directory.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(look(directory.path()), State::Usable { is_empty: false });
        assert!(matches!(look(&file), State::Unusable(_)));
        assert_eq!(look(&directory.path().join("absent")), State::Missing);
        assert_eq!(look(Path::new("/dev/fd/3")), State::Passed);
    }
}
