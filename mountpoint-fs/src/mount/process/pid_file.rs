//! A file that holds the process id while the mount lives.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Removes the file on drop, unless it holds another process's id by then.
#[derive(Debug)]
pub(in crate::mount) struct PidFile {
    path: PathBuf,
    content: String,
    /// Whether the path is a regular file. A pipe, a device or a link is written to, and neither
    /// read nor removed.
    is_own: bool,
}

impl PidFile {
    /// Writes the file, replacing that of an ended process. Readers see the old or the new id,
    /// complete.
    pub(in crate::mount) fn create(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let content = format!("{}\n", std::process::id());
        let is_own = path
            .symlink_metadata()
            .map_or(true, |found| found.is_file());
        if is_own {
            let mut new = path.clone().into_os_string();
            new.push(format!(".{}", std::process::id()));
            replace(&path, Path::new(&new), &content)?;
        } else {
            std::fs::write(&path, &content)?;
        }
        Ok(Self {
            path,
            content,
            is_own,
        })
    }
}

/// Writes `new`, which must not exist, and renames it to `path`.
///
/// After an error no file is left, and the first error is returned.
fn replace(path: &Path, new: &Path, content: &str) -> io::Result<()> {
    let created = File::options().write(true).create_new(true).open(new);
    let mut file = created.map_err(|error| {
        let shown = new.display();
        io::Error::new(error.kind(), format!("{shown}: {error}"))
    })?;
    let replaced = file
        .write_all(content.as_bytes())
        .and_then(|()| std::fs::rename(new, path));
    if replaced.is_err() {
        // Best effort: the user must see the error of the write.
        std::fs::remove_file(new).ok();
    }
    replaced
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let is_ours = self.is_own
            && std::fs::read_to_string(&self.path).is_ok_and(|found| found == self.content);
        if is_ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(
                "could not remove the PID file {}: {error}",
                self.path.display()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lives_as_long_as_the_mount() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pid");
        std::fs::write(&path, "1\n").unwrap();
        let file = PidFile::create(&path).unwrap();
        let content = format!("{}\n", std::process::id());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        assert_eq!(directory.path().read_dir().unwrap().count(), 1);
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn another_process_keeps_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pid");
        let file = PidFile::create(&path).unwrap();
        std::fs::write(&path, "1\n").unwrap();
        drop(file);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n");
    }

    #[test]
    fn what_lies_in_the_way_is_not_written_to() {
        let directory = tempfile::tempdir().unwrap();
        let (path, victim) = (
            directory.path().join("pid"),
            directory.path().join("victim"),
        );
        std::fs::write(&victim, "x").unwrap();
        let new = directory.path().join(format!("pid.{}", std::process::id()));
        std::os::unix::fs::symlink(&victim, &new).unwrap();
        let error = PidFile::create(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(error.to_string().contains(new.to_str().unwrap()), "{error}");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "x");
        assert!(new.is_symlink() && !path.exists());
    }

    #[test]
    fn a_failed_replacement_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (path, new) = (directory.path().join("pid"), directory.path().join("new"));
        std::fs::create_dir(&path).unwrap();
        let error = replace(&path, &new, "1\n").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        assert!(!new.exists());
    }

    #[test]
    fn failures_leave_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("missing/pid");
        assert!(PidFile::create(&path).is_err());
        assert!(PidFile::create(directory.path()).is_err());
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        drop(PidFile::create(&link).unwrap());
        std::fs::remove_file(&link).unwrap();
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    }
}
