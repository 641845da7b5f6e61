//! The files of `--log-directory`: one a day, readable by their owner alone.

use std::error::Error as _;
use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::stat::{Mode, umask};
use time::format_description::well_known::Rfc3339;
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::fmt::MakeWriter;

use crate::sync::Mutex;

/// Log files of this mount. Clones write to the same file.
#[derive(Clone, Debug)]
pub(super) struct LogFiles {
    directory: PathBuf,
    /// Begin of the files' names.
    name: String,
    /// A leaf, held while a line is written.
    appender: Arc<Mutex<RollingFileAppender>>,
}

impl LogFiles {
    /// Makes today's file, and a missing directory.
    ///
    /// Sets the process's file mode mask, because the thread that logs first on a later day creates
    /// the file.
    pub(super) fn create(directory: &Path) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
        umask(Mode::S_IRWXG | Mode::S_IRWXO);
        let name = name_of_now()?;
        let appender = appender(directory, &name)?;
        Ok(Self {
            directory: directory.to_owned(),
            name,
            appender: Arc::new(Mutex::new(appender)),
        })
    }

    /// Opens today's file by its name, and makes it if another program has moved it.
    pub(super) fn reopen(&self) -> io::Result<()> {
        let new = appender(&self.directory, &self.name)?;
        let old = std::mem::replace(&mut *self.appender.lock(), new);
        drop(old);
        Ok(())
    }
}

impl Write for LogFiles {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.appender.lock().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.appender.lock().flush()
    }
}

impl MakeWriter<'_> for LogFiles {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Begin of the names of a mount's files: its start and its process.
fn name_of_now() -> io::Result<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the name of a log file tells the time of day"
    )]
    let now = time::OffsetDateTime::from(std::time::SystemTime::now());
    let now = now
        .replace_nanosecond(0)
        .unwrap_or(now)
        .format(&Rfc3339)
        .map_err(io::Error::other)?;
    let process = std::process::id();
    Ok(format!("mountpoint-s3-{}-{process}", now.replace(':', "-")))
}

fn appender(directory: &Path, name: &str) -> io::Result<RollingFileAppender> {
    RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix(name)
        .filename_suffix("log")
        .max_log_files(LOG_FILES_MAX)
        .build(directory)
        .map_err(|error| {
            let reason = error
                .source()
                .and_then(|source| source.downcast_ref::<io::Error>());
            io::Error::other(reason.map_or_else(|| error.to_string(), ToString::to_string))
        })
}

/// Log files, one a day, that a mount keeps. A mount that lives for months must not fill the disk.
const LOG_FILES_MAX: usize = 14;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// The only file of a directory.
    fn file(directory: &Path) -> PathBuf {
        let entries = fs::read_dir(directory).unwrap();
        let paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        let [path] = paths.try_into().unwrap();
        path
    }

    #[test]
    fn log_files_are_private() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("a/b");
        LogFiles::create(&directory).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory), 0o700);
        let file = file(&directory);
        assert_eq!(mode(&file), 0o600);
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("mountpoint-s3-20"), "{name}");
    }

    #[test]
    fn a_file_that_was_moved_is_made_anew() {
        let root = tempfile::tempdir().unwrap();
        let (directory, moved) = (root.path().join("logs"), root.path().join("moved"));
        let mut files = LogFiles::create(&directory).unwrap();
        let mut write = |line: &str| files.write_all(line.as_bytes()).unwrap();
        write("one\n");
        fs::rename(file(&directory), &moved).unwrap();
        write("two\n");
        files.clone().reopen().unwrap();
        files.write_all(b"three\n").unwrap();
        assert_eq!(fs::read_to_string(&moved).unwrap(), "one\ntwo\n");
        assert_eq!(fs::read_to_string(file(&directory)).unwrap(), "three\n");
        // A file that is still there is continued.
        files.reopen().unwrap();
        files.write_all(b"four\n").unwrap();
        assert_eq!(
            fs::read_to_string(file(&directory)).unwrap(),
            "three\nfour\n"
        );
    }
}
