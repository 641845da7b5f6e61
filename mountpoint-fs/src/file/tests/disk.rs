//! The local disk fails or is full, and the directory is another's.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;

use super::{Bench, MIB, name, read, staging_config, wait, write};
use crate::config::ConflictPolicy;
use crate::file::directory::{Holder, StagingDirectory};
use crate::operation::FsError;

#[test]
fn a_disk_that_is_full_or_fails_is_told_and_nothing_is_lost() {
    let bench = Bench::new();
    bench.staging.context().file_memory.forbid();
    let file = bench.new_file();
    write(&file, 0, b"before").unwrap();
    let faults = &bench.staging.context().directory().unwrap().faults;
    faults.set(Some(ErrorKind::StorageFull));
    let full = write(&file, 0, b"more");
    assert!(matches!(full, Err(FsError::NoSpace(_))), "{full:?}");
    faults.set(Some(ErrorKind::Other));
    let failed = write(&file, 0, b"more");
    assert!(matches!(failed, Err(FsError::Local(_))), "{failed:?}");
    assert!(matches!(read(&file, 0, 6), Err(FsError::Local(_))));
    assert!(matches!(wait(file.store()), Err(FsError::Local(_))));
    faults.set(None);
    assert_eq!(read(&file, 0, 9).unwrap(), b"before");
    wait(file.store()).unwrap();
    assert_eq!(bench.content("key").unwrap(), b"before");
}

/// A small file is in memory; it goes to the disk when it grows, and when there is no memory.
#[test]
fn small_files_are_not_made_on_the_disk() {
    let bench = Bench::new();
    let small = bench.new_file();
    write(&small, 100, b"bytes").unwrap();
    assert_eq!(read(&small, 99, 9).unwrap(), b"\0bytes");
    assert_eq!(bench.names("files"), [""; 0]);
    write(&small, 200_000, b"more").unwrap();
    assert_eq!(bench.names("files").len(), 1);
    let mut expected = vec![0; 200_004];
    expected[100..105].copy_from_slice(b"bytes");
    expected[200_000..].copy_from_slice(b"more");
    assert!(read(&small, 0, MIB).unwrap() == expected);
    wait(small.store()).unwrap();
    assert!(bench.content("key").unwrap() == expected);
    let memory = &bench.staging.context().file_memory;
    assert_eq!(memory.used(), 0);
    memory.forbid();
    let other = bench.new_file();
    write(&other, 0, b"bytes").unwrap();
    assert_eq!(bench.names("files").len(), 2);
}

/// A file in memory that cannot go to the disk stays as it is.
#[test]
fn a_full_disk_leaves_what_is_in_memory() {
    let bench = Bench::new();
    let file = bench.new_file();
    write(&file, 0, b"bytes").unwrap();
    let faults = &bench.staging.context().directory().unwrap().faults;
    faults.set(Some(ErrorKind::StorageFull));
    let full = write(&file, 0, &[7; 200_000]);
    assert!(matches!(full, Err(FsError::NoSpace(_))), "{full:?}");
    assert_eq!(read(&file, 0, 9).unwrap(), b"bytes");
    write(&file, 5, b" of it").unwrap();
    wait(file.store()).unwrap();
    assert_eq!(bench.content("key").unwrap(), b"bytes of it");
}

/// Bytes that the bucket has as well are given up first.
#[test]
fn a_full_disk_gives_up_what_the_bucket_has() {
    let bench = Bench::new();
    let file = bench.new_file();
    write(&file, 0, &[7; MIB]).unwrap();
    wait(file.store()).unwrap();
    bench
        .staging
        .context()
        .directory()
        .unwrap()
        .faults
        .set_next(1, ErrorKind::StorageFull);
    write(&file, MIB as u64, b"more").unwrap();
    drop(bench.client.take_log());
    assert_eq!(read(&file, 0, MIB).unwrap(), [7; MIB]);
    assert_eq!(bench.client.take_log().get_bytes(), MIB as u64);
    wait(file.store()).unwrap();
    assert_eq!(bench.content("key").unwrap().len(), MIB + 4);
}

/// Bytes of other files as well, and those that were cut off.
#[test]
fn a_full_disk_gives_up_what_nobody_needs_of_other_files() {
    let bench = Bench::new();
    let [stored, cut, changed, removed] = ["stored", "cut", "changed", "removed"].map(|key| {
        let file = bench.new_file();
        name(&file, key);
        write(&file, 0, &[7; MIB]).unwrap();
        wait(file.store()).unwrap();
        file
    });
    wait(cut.set_len(0)).unwrap();
    wait(cut.set_len(MIB as u64)).unwrap();
    write(&changed, 0, &[8; MIB]).unwrap();
    removed.removed();
    let before = bench.blocks();
    let file = bench.new_file();
    let faults = &bench.staging.context().directory().unwrap().faults;
    faults.set_next(1, ErrorKind::StorageFull);
    write(&file, 0, &[9; MIB]).unwrap();
    let given_back = (before + MIB as u64) - bench.blocks();
    assert!(given_back > 3 * MIB as u64 / 2, "{given_back}");
    drop(bench.client.take_log());
    assert_eq!(read(&removed, 0, MIB).unwrap(), [7; MIB]);
    assert_eq!(read(&changed, 0, MIB).unwrap(), [8; MIB]);
    assert_eq!(read(&cut, 0, MIB).unwrap(), [0; MIB]);
    assert_eq!(bench.client.take_log().get_bytes(), 0);
    assert_eq!(read(&stored, 0, MIB).unwrap(), [7; MIB]);
    assert_eq!(bench.client.take_log().get_bytes(), MIB as u64);
}

/// An open file that is removed keeps its bytes, for which other files make room.
#[test]
fn a_file_outlives_its_object_on_a_full_disk() {
    let bench = Bench::new();
    let [file, other] = ["file", "other"].map(|key| {
        let file = bench.new_file();
        name(&file, key);
        write(&file, 0, &[7; 2 * MIB]).unwrap();
        wait(file.store()).unwrap();
        file
    });
    let faults = &bench.staging.context().directory().unwrap().faults;
    // Behind what the file itself gives back, too.
    let fill = |file| {
        faults.set_next(2, ErrorKind::StorageFull);
        write(file, 0, b"x").unwrap();
    };
    fill(&other);
    drop(bench.client.take_log());
    assert_eq!(read(&file, 0, MIB).unwrap(), [7; MIB]);
    assert_ne!(bench.client.take_log().get_bytes(), 0);
    // The first half is local once more, and the bucket has it.
    write(&file, 0, &[7; MIB]).unwrap();
    wait(file.store()).unwrap();
    faults.set_next(1, ErrorKind::StorageFull);
    wait(file.fetch_base(u64::MAX)).unwrap();
    fill(&other);
    drop(bench.client.take_log());
    assert_eq!(read(&file, 0, 2 * MIB).unwrap(), [7; 2 * MIB]);
    assert_eq!(bench.client.take_log().get_bytes(), 0);
}

impl Bench {
    /// Bytes that the data files occupy.
    fn blocks(&self) -> u64 {
        let files = self.directory.path().join("mount-s3-staging/files");
        let files = fs::read_dir(files).unwrap();
        files
            .map(|it| it.unwrap().metadata().unwrap().blocks() * 512)
            .sum()
    }
}

fn holder() -> Holder {
    Holder {
        pid: 7,
        bucket: "bucket".to_owned(),
        mount_point: "/mnt/data".to_owned(),
    }
}

fn open(directory: &Path) -> Result<StagingDirectory, String> {
    let opened = StagingDirectory::open(directory, &holder(), &|_| false);
    opened.map_err(|error| error.to_string())
}

/// The refusal of a directory has each of these texts.
#[track_caller]
fn check_refused(directory: &Path, texts: &[&str]) {
    let error = open(directory).map(drop).unwrap_err();
    for text in texts {
        assert!(error.contains(text), "{error:?} lacks {text:?}");
    }
}

#[test]
fn one_process_has_the_directory() {
    let outer = tempfile::tempdir().unwrap();
    let first = open(outer.path()).unwrap();
    check_refused(
        outer.path(),
        &["in use", "process 7", "bucket", "/mnt/data", "--staging"],
    );
    drop(first);
    open(outer.path()).unwrap();
}

#[test]
fn a_directory_whose_lock_was_removed_has_one_process_all_the_same() {
    let outer = tempfile::tempdir().unwrap();
    let first = open(outer.path()).unwrap();
    fs::remove_file(outer.path().join("mount-s3-staging/lock")).unwrap();
    check_refused(outer.path(), &["in use", "files"]);
    drop(first);
    open(outer.path()).unwrap();
}

/// Its thread may write until it has ended, behind the last owner of the directory.
#[test]
fn a_journal_has_one_process_as_long_as_it_is_open() {
    let outer = tempfile::tempdir().unwrap();
    let journal = open(outer.path()).unwrap().journal(true).unwrap();
    let next = open(outer.path()).unwrap();
    let refused = next.journal(true).unwrap_err().to_string();
    assert!(refused.contains("in use"), "{refused}");
    drop(journal);
    next.journal(true).unwrap();
}

#[test]
fn a_directory_that_others_reach_is_refused() {
    let outer = tempfile::tempdir().unwrap();
    let ours = outer.path().join("mount-s3-staging");
    drop(open(outer.path()).unwrap());
    assert_eq!(
        fs::metadata(&ours).unwrap().permissions().mode() & 0o7777,
        0o700
    );
    fs::set_permissions(&ours, Permissions::from_mode(0o770)).unwrap();
    check_refused(outer.path(), &["chmod go-w"]);
    fs::set_permissions(&ours, Permissions::from_mode(0o700)).unwrap();
    let user = nix::unistd::geteuid().as_raw();
    chown(&ours, Some(user + 1000), None).unwrap();
    check_refused(outer.path(), &["belongs to user"]);
    chown(&ours, Some(user), None).unwrap();
    let link = outer.path().join("link");
    symlink(outer.path(), &link).unwrap();
    check_refused(&link, &["symbolic link"]);
    let inside = StagingDirectory::open(outer.path(), &holder(), &|_| true);
    assert!(
        inside
            .unwrap_err()
            .to_string()
            .contains("on the mount itself")
    );
}

#[test]
fn a_format_that_is_not_known_is_refused() {
    let outer = tempfile::tempdir().unwrap();
    drop(open(outer.path()).unwrap());
    let format = outer.path().join("mount-s3-staging/format");
    assert_eq!(fs::read(&format).unwrap(), b"mount-s3 staging 1\n");
    fs::write(&format, "mount-s3 staging 2\n").unwrap();
    check_refused(outer.path(), &["mount-s3 staging 2", "mount-s3 staging 1"]);
}

#[test]
fn what_a_killed_mount_has_left_is_removed_and_what_is_kept_stays() {
    let outer = tempfile::tempdir().unwrap();
    drop(open(outer.path()).unwrap());
    let ours = outer.path().join("mount-s3-staging");
    for name in [
        "files/0000000000000000.1",
        "files/0000000000000000.2",
        "kept/a.json",
    ] {
        fs::write(ours.join(name), "bytes").unwrap();
    }
    let opened = open(outer.path()).unwrap();
    let leftovers = opened.leftovers(&|_| false).unwrap();
    opened.remove_leftovers(&leftovers).unwrap();
    assert_eq!(fs::read_dir(ours.join("files")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(ours.join("kept")).unwrap().count(), 1);
}

#[test]
fn two_mounts_do_not_share_a_directory() {
    let bench = Bench::new();
    let config = staging_config(&bench.directory, ConflictPolicy::Fail);
    let holder = holder();
    let second = StagingDirectory::open(&config.directory, &holder, &|_| false);
    let text = second.unwrap_err().to_string();
    assert!(text.contains("/mnt"), "{text}");
}
