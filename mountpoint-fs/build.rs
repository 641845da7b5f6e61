//! Puts the commit into `--version`.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=../.git/HEAD");
    let commit = Command::new("git")
        .args(["rev-parse", "--short=9", "HEAD"])
        .output();
    let commit = commit.ok().filter(|output| output.status.success());
    let commit = commit.and_then(|output| String::from_utf8(output.stdout).ok());
    let commit = commit.map_or_else(
        || "unknown commit".to_owned(),
        |text| text.trim().to_owned(),
    );
    println!("cargo:rustc-env=MOUNTPOINT_COMMIT={commit}");
}
