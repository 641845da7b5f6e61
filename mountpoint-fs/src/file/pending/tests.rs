//! Who looks at a directory, and the mount that starts in it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::{Pending, PendingVersions, find_pending};
use crate::file::control::{ControlRequest, ControlServer, DamagedFiles, PendingRow};
use crate::file::directory::{Holder, StagingDirectory};
use crate::file::kept::KeptVersions;

fn holder() -> Holder {
    Holder {
        pid: 1,
        bucket: "bucket".to_owned(),
        mount_point: "/mnt".to_owned(),
    }
}

/// The directory of a mount that starts: it answers nothing yet.
fn starting(place: &Path) -> StagingDirectory {
    let directory = StagingDirectory::open(place, &holder(), &|_| false).unwrap();
    directory.journal(true).unwrap();
    directory
}

#[test]
fn readers_in_a_loop_keep_no_mount_from_starting() {
    let place = tempfile::tempdir().unwrap();
    drop(starting(place.path()));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let versions = KeptVersions::open(place.path()).unwrap().unwrap();
                    versions.state().unwrap();
                    PendingVersions::look(place.path()).unwrap().unwrap().all();
                }
            });
        }
        for _ in 0..50 {
            drop(starting(place.path()));
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn who_changes_a_directory_names_itself_to_a_mount() {
    let place = tempfile::tempdir().unwrap();
    drop(starting(place.path()));
    let changing = PendingVersions::take(place.path()).unwrap().unwrap();
    let refused = StagingDirectory::open(place.path(), &holder(), &|_| false);
    let text = refused.unwrap_err().to_string();
    let process = format!("process {}, a `mount-s3 staged`", std::process::id());
    assert!(text.contains(&process), "{text}");
    // A mount names itself again.
    drop(changing);
    let _mount = starting(place.path());
    let text = PendingVersions::take(place.path()).unwrap_err();
    assert!(text.contains("bucket on /mnt"), "{text}");
}

#[test]
fn what_is_pending_is_told_when_a_mount_that_starts_knows_it() {
    let place = tempfile::tempdir().unwrap();
    let directory = starting(place.path());
    let versions = KeptVersions::open(place.path()).unwrap().unwrap();
    let (mut waits, mut server) = (0, None);
    let found = find_pending(&versions, ControlRequest::Pending, &mut |found| {
        assert_eq!(*found, holder());
        waits += 1;
        if waits == 3 {
            let mut damaged = DamagedFiles::default();
            damaged.add(PendingRow {
                id: "pending-7".to_owned(),
                key: "key".to_owned(),
                size: 9,
                time: String::new(),
                tries: 0,
                error: None,
            });
            server = Some(ControlServer::start(directory.folder(), None, damaged).unwrap());
        }
        Ok(())
    });
    let Ok(Pending::OfMount(report)) = found else {
        panic!("{found:?}")
    };
    assert_eq!((report.count, report.damaged), (0, 1));
    assert_eq!(report.damaged_files[0].id, "pending-7");
}

#[test]
fn the_journal_tells_what_is_pending_when_a_mount_has_ended() {
    let place = tempfile::tempdir().unwrap();
    let mut directory = Some(starting(place.path()));
    let versions = KeptVersions::open(place.path()).unwrap().unwrap();
    let found = find_pending(&versions, ControlRequest::Flush, &mut |_| {
        assert!(directory.take().is_some());
        Ok(())
    });
    let Ok(Pending::OfNobody(found)) = found else {
        panic!("{found:?}")
    };
    assert_eq!(found.counts(), (0, 0));
    let kept_in_use = Some(starting(place.path()));
    let given_up = find_pending(&versions, ControlRequest::Flush, &mut |_| {
        Err("it takes too long".to_owned())
    });
    assert_eq!(given_up.unwrap_err(), "it takes too long");
    drop(kept_in_use);
}
