//! The program of a run: a build meanwhile does not exchange it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::with_keys;

/// A link to the program, beside the files that cargo builds.
pub(super) struct Program {
    #[expect(dead_code, reason = "dropped")]
    directory: TempDir,
    path: PathBuf,
}

impl Program {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = directory.path().join("mount-s3");
        std::fs::hard_link(env!("CARGO_BIN_EXE_mount-s3"), &path).unwrap();
        Self { directory, path }
    }

    pub(super) fn command(&self) -> Command {
        with_keys(&self.path)
    }

    /// The numbers of the mount at a directory, if it answers.
    pub(super) fn stats(&self, directory: &Path) -> Option<Value> {
        let mut command = self.command();
        command
            .arg("stats")
            .arg(directory)
            .args(["--once", "--json"]);
        let output = command.output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
        answer["mounts"].as_array()?.first().cloned()
    }
}
