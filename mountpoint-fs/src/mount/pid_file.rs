//! A file that holds the process number while the mount lives.

use std::io;
use std::path::{Path, PathBuf};

/// Removes the file when it is dropped, unless another process has written itself into it.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
    content: String,
    /// Whether it is a file of its own. A pipe, a device or a link is written to, and neither read nor removed.
    is_own: bool,
}

impl PidFile {
    /// Writes it, over one that a process left that is gone. Whoever reads it sees the old or the new number, whole.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let content = format!("{}\n", std::process::id());
        let is_own = path
            .symlink_metadata()
            .map_or(true, |found| found.is_file());
        if is_own {
            let mut new = path.clone().into_os_string();
            new.push(format!(".{}", std::process::id()));
            std::fs::write(&new, &content)?;
            if let Err(error) = std::fs::rename(&new, &path) {
                std::fs::remove_file(&new)?;
                return Err(error);
            }
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
