//! Puts the commit into `--version`.

use std::path::Path;
use std::process::Command;

fn main() {
    // Grows with each commit and each checkout, where HEAD itself stays the name of a branch.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists());
    println!(
        "cargo:rerun-if-changed={}",
        log.as_deref().unwrap_or("build.rs")
    );
    let commit = git(&["rev-parse", "--short=9", "HEAD"]);
    let commit = commit.as_deref().unwrap_or("unknown commit");
    println!("cargo:rustc-env=MOUNTPOINT_COMMIT={commit}");
}

/// What git says, if there is a git and a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
