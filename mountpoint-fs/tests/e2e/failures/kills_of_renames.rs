//! The mount's process is killed while it renames a directory of many files.
//!
//! Then every object is whole and has its old name, its new one or both; an equal rename by the
//! next mount finishes the work; and no other object is touched.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server, ServerOptions};
use nix::sys::signal::Signal;

use crate::harness::{self, Mounted, PATIENCE, below, mount_s3, run};

const GENERAL: &str = harness::BUCKET;
const DIRECTORY: &str = "renamed--usw2-az1--x-s3";

/// Enough for two pages of a listing and two batches of deletions.
const MANY: usize = 1100;
const FEW: usize = 60;

/// The state of the rename at the kill.
struct Kill {
    bucket: &'static str,
    files: usize,
    /// The unanswered request, and the number of answered ones of its kind.
    stuck: (Operation, u64),
    /// Whether the server has done that request before the kill.
    is_done: bool,
}

const KILLS: [Kill; 10] = [
    copying(0, false),
    copying(1, true),
    copying(30, false),
    copying(59, true),
    deleting(0, false),
    deleting(0, true),
    deleting(1, false),
    deleting(1, true),
    renaming(1, false),
    renaming(30, true),
];

const fn copying(before: u64, is_done: bool) -> Kill {
    Kill {
        bucket: GENERAL,
        files: FEW,
        stuck: (Operation::CopyObject, before),
        is_done,
    }
}

const fn deleting(before: u64, is_done: bool) -> Kill {
    Kill {
        bucket: GENERAL,
        files: MANY,
        stuck: (Operation::DeleteObjects, before),
        is_done,
    }
}

const fn renaming(before: u64, is_done: bool) -> Kill {
    Kill {
        bucket: DIRECTORY,
        files: FEW,
        stuck: (Operation::RenameObject, before),
        is_done,
    }
}

fn mount(server: &Server, bucket: &str, state: &Path) -> Mounted {
    let mut command = mount_s3();
    command.args([bucket, "--endpoint-url", &server.url()]);
    command.args(["--allow-rename", "--allow-overwrite"]);
    command.args(["--state-directory", state.to_str().unwrap()]);
    Mounted::start(command)
}

/// The name of a file below its directory, and its content.
fn file(number: usize) -> (String, Vec<u8>) {
    let name = match number % 3 {
        0 => format!("file-{number:04}"),
        1 => format!("s/file-{number:04}"),
        _ => format!("s/t{}/file-{number:04}", number % 5),
    };
    (name, format!("content of {number}").into_bytes())
}

#[test]
fn a_kill_while_a_directory_is_renamed_loses_nothing_and_the_next_rename_finishes_it() {
    let server = Server::start(ServerOptions::default()).unwrap();
    let state = tempfile::tempdir().unwrap();
    for bucket in [GENERAL, DIRECTORY] {
        server.store().create_bucket(bucket);
        server.store().put(bucket, "other/file", "other");
        server.store().put(bucket, "full/there", "there");
    }
    for (number, kill) in KILLS.iter().enumerate() {
        let bucket = kill.bucket;
        let case = format!("{:?} {}", kill.stuck, kill.is_done);
        let (old, new) = (format!("old-{number}"), format!("new-{number}"));
        let (old_prefix, new_prefix) = (format!("{old}/"), format!("{new}/"));
        let all: BTreeMap<_, _> = (0..kill.files).map(file).collect();
        for (name, content) in &all {
            let key = format!("{old_prefix}{name}");
            server.store().put(bucket, &key, content.clone());
        }
        let mounted = mount(&server, bucket, state.path());
        kill_during(&server, mounted, (&old, &new), kill, &case);
        let (left, moved) = (
            below(&server, bucket, &old_prefix),
            below(&server, bucket, &new_prefix),
        );
        for (name, content) in &all {
            let is_whole = |found: Option<&Vec<u8>>| found.is_none_or(|found| found == content);
            let (left, moved) = (left.get(name), moved.get(name));
            assert!(left.is_some() || moved.is_some(), "{case}: {name} is lost");
            assert!(is_whole(left) && is_whole(moved), "{case}: {name}");
        }
        assert!(
            !left.is_empty() || kill.is_done,
            "{case}: it was killed before its end"
        );
        // Both names of a copied object are visible, and an equal rename resumes.
        let mounted = mount(&server, bucket, state.path());
        if !left.is_empty() {
            let (old, new) = (mounted.join(&old), mounted.join(&new));
            // The mount may not have read the old journal yet.
            let is_looking = |error: &io::Error| error.kind() == io::ErrorKind::DirectoryNotEmpty;
            let mut renamed = std::fs::rename(&old, &new);
            let start = Instant::now();
            while renamed.as_ref().is_err_and(is_looking) && start.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(20));
                renamed = std::fs::rename(&old, &new);
            }
            renamed.unwrap_or_else(|error| panic!("{case}: {error}"));
        }
        assert!(below(&server, bucket, &old_prefix).is_empty(), "{case}");
        assert!(below(&server, bucket, &new_prefix) == all, "{case}");
        // A different rename is not taken for the interrupted one.
        let refused = std::fs::rename(mounted.join("other"), mounted.join("full")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::DirectoryNotEmpty);
        assert_eq!(below(&server, bucket, "other/").len(), 1);
        assert!(server.store().uploads(bucket).is_empty());
        for name in all.keys() {
            server
                .store()
                .delete(bucket, &format!("{new_prefix}{name}"));
        }
    }
}

/// Renames `old` to `new`, and kills the process when the request hangs.
fn kill_during(
    server: &Server,
    mounted: Mounted,
    (old, new): (&str, &str),
    kill: &Kill,
    case: &str,
) {
    let (operation, before) = kill.stuck;
    let rule = |fault, skip, count| {
        server.faults().add(Rule {
            skip,
            count,
            ..Rule::on(operation, fault)
        })
    };
    let lost = kill
        .is_done
        .then(|| rule(Fault::DropConnectionAfterwards, before, Some(1)));
    let stuck = rule(Fault::BlackHole, before + u64::from(kill.is_done), None);
    let directory = mounted.path().to_owned();
    std::thread::scope(|scope| {
        let (from, to) = (directory.join(old), directory.join(new));
        let renaming = scope.spawn(move || std::fs::rename(from, to));
        let start = Instant::now();
        while server.faults().fired(stuck) == Some(0) && !renaming.is_finished() {
            assert!(start.elapsed() < PATIENCE, "{case} comes to no end");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(!renaming.is_finished(), "{case}: nothing was to be killed");
        mounted.signal(Signal::SIGKILL);
        renaming.join().unwrap().unwrap_err();
    });
    run("umount", &["-l", directory.to_str().unwrap()]);
    for rule in lost.into_iter().chain([stuck]) {
        server.faults().remove(rule);
    }
}
