//! Files that are durable on the local disk first, and uploaded later.

use std::io::ErrorKind as DiskErrorKind;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use mountpoint_client::testing::sim::{Fault, FaultRule, Operation, SimOptions, When};
use mountpoint_client::types::Key;
use mountpoint_client::{ErrorKind, SimClient};
use tempfile::TempDir;

use super::{Bench, MIB, StagedBase, mount, name, read, staging_config, wait, write};
use crate::clock::Clock;
use crate::config::{ConflictPolicy, WriteBackConfig};
use crate::file::{PendingUploads, Staging};
use crate::operation::FsError;

/// Longer than any upload of a test takes.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// The staging of a mount on `directory`.
pub(super) fn staging_on(
    directory: &TempDir,
    client: &Arc<SimClient>,
    delay: Duration,
) -> Result<Arc<Staging>, String> {
    let mut config = staging_config(directory, ConflictPolicy::Fail);
    config.write_back = Some(WriteBackConfig {
        delay,
        drain_timeout: LONG,
        is_exclusive: false,
    });
    mount(client, &config, None, Clock::monotonic())
}

impl Bench {
    /// A mount with write-back, which uploads after `delay`.
    pub(super) fn write_back(delay: Duration) -> Self {
        let client = Arc::new(SimClient::new(SimOptions::default()));
        Self::on(TempDir::new().unwrap(), client, delay).unwrap()
    }

    /// A mount with write-back on what `directory` has.
    pub(super) fn on(
        directory: TempDir,
        client: Arc<SimClient>,
        delay: Duration,
    ) -> Result<Self, String> {
        let staging = staging_on(&directory, &client, delay)?;
        Ok(Self {
            client,
            staging,
            events: Arc::default(),
            directory,
        })
    }

    /// The directory as a process finds it that starts after this one was killed now.
    pub(super) fn killed(&self) -> TempDir {
        let copied = TempDir::new().unwrap();
        let folders = ["", "files", "kept", "journal"];
        for folder in folders.map(|it| format!("mount-s3-staging/{it}")) {
            let (from, to) = (
                self.directory.path().join(&folder),
                copied.path().join(&folder),
            );
            std::fs::create_dir_all(&to).unwrap();
            std::fs::set_permissions(&to, std::os::unix::fs::PermissionsExt::from_mode(0o700))
                .unwrap();
            for entry in std::fs::read_dir(from).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_file() {
                    let copied = std::fs::copy(entry.path(), to.join(entry.file_name()));
                    // A data file may go with the release of its record meanwhile.
                    let is_gone = |error: &std::io::Error| error.kind() == DiskErrorKind::NotFound;
                    assert!(copied.is_ok() || copied.is_err_and(|error| is_gone(&error)));
                }
            }
        }
        copied
    }

    /// A mount on what a kill now leaves.
    pub(super) fn restart(&self, delay: Duration) -> Result<Self, String> {
        Self::on(self.killed(), Arc::clone(&self.client), delay)
    }

    /// S3 cannot be reached by any request from now on.
    pub(super) fn go_away(&self) {
        self.fail_all(ErrorKind::Unreachable);
    }

    pub(super) fn fail_all(&self, kind: ErrorKind) {
        self.client.add_fault(FaultRule {
            operation: None,
            when: When::From(1),
            fault: Fault::Fail(kind),
        });
    }

    /// S3 can be reached by no request from now on but those that store small objects.
    fn fail_all_but_puts(&self) {
        for operation in [
            Operation::HeadObject,
            Operation::GetObject,
            Operation::ListObjectsV2,
        ] {
            self.client.add_fault(FaultRule {
                operation: Some(operation),
                when: When::From(1),
                fault: Fault::Fail(ErrorKind::Unreachable),
            });
        }
    }

    /// Waits until nothing is pending.
    #[track_caller]
    pub(super) fn drain(&self) {
        let left = wait(self.staging.drain(LONG));
        assert_eq!(left, PendingUploads::default());
    }
}

pub(super) fn bytes(len: usize, seed: u8) -> Vec<u8> {
    let period: Vec<u8> = (0..251).map(|at: u8| at ^ seed).collect();
    let mut bytes = period.repeat(len.div_ceil(period.len()));
    bytes.truncate(len);
    bytes
}

#[test]
fn a_commit_returns_before_the_upload_and_the_upload_follows() {
    for len in [0, 10, 100_000, 3 * MIB] {
        let bench = Bench::write_back(Duration::ZERO);
        bench.go_away();
        let file = bench.new_file();
        write(&file, 0, &bytes(len, 1)).unwrap();
        assert!(!file.is_committed());
        wait(file.commit()).unwrap();
        assert!(file.is_committed() && file.is_changed(), "{len}");
        let pending = bench.staging.pending();
        assert_eq!((pending.count, pending.bytes), (1, len as u64));
        assert_eq!(pending.files[0].key.as_str(), "key");
        assert_eq!(bench.content("key"), None);
        bench.client.clear_faults();
        bench.drain();
        assert_eq!(bench.content("key").unwrap(), bytes(len, 1), "{len}");
        assert!(!file.is_changed());
        assert_eq!(bench.told(), [format!("stored {len}")]);
    }
}

/// An uploaded file is neither in the journal nor on the disk after the end of the mount.
#[test]
fn nothing_is_left_of_a_file_that_was_uploaded() {
    let bench = Bench::write_back(Duration::ZERO);
    for len in [10, MIB] {
        let file = bench.new_file();
        write(&file, 0, &bytes(len, 1)).unwrap();
        wait(file.release()).unwrap();
        drop(file);
        bench.drain();
        bench.client.remove("key");
    }
    let Bench {
        client,
        staging,
        directory,
        ..
    } = bench;
    drop(staging);
    let again = loop {
        // The last release holds the directory for as long as it takes.
        let copied = TempDir::new().unwrap();
        let path = directory.path().join("mount-s3-staging");
        assert!(path.is_dir() && copied.path().is_dir());
        let config = staging_config(&directory, ConflictPolicy::Fail);
        match mount(&client, &config, None, Clock::monotonic()) {
            Ok(staging) => break staging,
            Err(error) => assert!(
                error.contains("in use") || error.contains("uses"),
                "{error}"
            ),
        }
        std::thread::yield_now();
    };
    assert!(again.recovered().is_empty());
    let files = directory.path().join("mount-s3-staging/files");
    assert_eq!(std::fs::read_dir(files).unwrap().count(), 0);
}

#[test]
fn rewrites_within_the_delay_make_one_upload() {
    let bench = Bench::write_back(LONG);
    let file = bench.new_file();
    for round in 0..5 {
        write(&file, 0, &bytes(1000, round)).unwrap();
        wait(file.commit()).unwrap();
    }
    assert_eq!(bench.staging.pending().count, 1);
    bench.drain();
    assert_eq!(bench.client.log().count(Operation::PutObject), 1);
    assert_eq!(bench.content("key").unwrap(), bytes(1000, 4));
}

#[test]
fn bytes_of_small_files_that_wait_are_what_they_take_of_the_memory() {
    let bench = Bench::write_back(Duration::from_secs(3600));
    bench.go_away();
    for number in 0..100_u64 {
        let file = bench.new_file();
        name(&file, &format!("key{number}"));
        write(&file, 0, &bytes(110, 1)).unwrap();
        wait(file.release()).unwrap();
        let used = bench.staging.context().file_memory.used();
        assert_eq!(used, 110 * (number + 1));
    }
}

/// Versions of a file come in their order, each based on the one before.
#[test]
fn versions_are_uploaded_in_the_order_of_their_commits() {
    let bench = Bench::write_back(Duration::ZERO);
    let file = bench.new_file();
    for round in 0..20 {
        write(&file, u64::from(round) * 100, &bytes(3000, round)).unwrap();
        wait(file.commit()).unwrap();
    }
    let mut expected = Vec::new();
    for round in 0..20_u8 {
        expected.truncate(usize::from(round) * 100);
        expected.extend(bytes(3000, round));
    }
    bench.drain();
    assert_eq!(bench.content("key").unwrap(), expected);
    assert_eq!(bench.names("kept"), [""; 0]);
}

#[test]
fn while_s3_is_away_writing_goes_on_and_everything_arrives_afterwards() {
    let bench = Bench::write_back(Duration::ZERO);
    bench.go_away();
    let mut files = Vec::new();
    for number in 0..100_u8 {
        let file = bench.new_file();
        name(&file, &format!("key{number}"));
        write(&file, 0, &bytes(usize::from(number) * 50, number)).unwrap();
        wait(file.release()).unwrap();
        files.push(file);
    }
    assert_eq!(bench.staging.pending().count, 100);
    drop(files);
    assert_eq!(
        wait(bench.staging.drain(Duration::from_millis(1))).count,
        100
    );
    bench.client.clear_faults();
    bench.drain();
    for number in 0..100_u8 {
        let content = bench.content(&format!("key{number}")).unwrap();
        assert_eq!(content, bytes(usize::from(number) * 50, number));
    }
}

#[test]
fn a_file_that_was_removed_is_never_sent() {
    let bench = Bench::write_back(LONG);
    let file = bench.new_file();
    write(&file, 0, b"bytes").unwrap();
    wait(file.release()).unwrap();
    wait(file.remove()).unwrap();
    let next = bench.restart(Duration::ZERO).unwrap();
    assert!(next.staging.recovered().is_empty());
    next.drain();
    bench.drain();
    assert_eq!(bench.client.log().count(Operation::PutObject), 0);
}

#[test]
fn a_renamed_file_is_uploaded_under_its_new_name_only() {
    let bench = Bench::write_back(LONG);
    let file = bench.new_file();
    write(&file, 0, b"bytes").unwrap();
    wait(file.release()).unwrap();
    name(&file, "new");
    bench.restart(Duration::ZERO).unwrap().drain();
    assert_eq!(bench.client.keys(), ["new"]);
}

/// The commit takes long enough to run beside the rename, with its thousand ranges.
#[test]
fn a_file_that_is_renamed_during_its_commit_is_uploaded_under_its_new_name_only() {
    let bench = Bench::write_back(LONG);
    let file = bench.new_file();
    for number in 0..1_100 {
        write(&file, 2 * number, b"x").unwrap();
    }
    std::thread::scope(|scope| {
        let mut commit = Box::pin(file.commit());
        let begun = (&mut commit).now_or_never();
        scope.spawn(|| name(&file, "new"));
        begun.unwrap_or_else(|| wait(commit)).unwrap();
    });
    bench.restart(Duration::ZERO).unwrap().drain();
    assert_eq!(bench.client.keys(), ["new"]);
}

/// Nobody knows what the disk has after a failed sync: the version is not uploaded, and is kept. So
/// is the one before, whose commit had succeeded: its bytes are those of its record.
#[test]
fn a_failed_sync_ends_the_file() {
    let small = failed_sync(1000);
    let folder = small.directory.path().join("mount-s3-staging/kept");
    let kept = small.names("kept");
    let contents = kept
        .iter()
        .map(|name| std::fs::read(folder.join(name)).unwrap());
    let contents: Vec<_> = contents.collect();
    assert!(contents.contains(&bytes(1000, 1)), "{kept:?}");
    failed_sync(MIB);
}

/// A mount with a committed file of `len` bytes, whose next version could not be synced.
fn failed_sync(len: usize) -> Bench {
    let bench = Bench::write_back(LONG);
    let file = bench.new_file();
    write(&file, 0, &bytes(len, 1)).unwrap();
    wait(file.commit()).unwrap();
    write(&file, 0, &bytes(MIB, 2)).unwrap();
    bench
        .staging
        .context()
        .directory()
        .unwrap()
        .faults
        .fail_sync();
    let failed = wait(file.commit());
    assert!(matches!(failed, Err(FsError::Local(_))), "{failed:?}");
    drop(wait(file.hold_stores()));
    assert!(wait(file.commit()).is_err(), "it is final");
    assert!(write(&file, 0, b"more").is_err());
    assert_eq!(bench.told(), ["failed"]);
    bench.drain();
    assert_eq!(bench.client.keys(), [""; 0]);
    assert_eq!(bench.kept().len(), 2);
    bench
}

#[test]
fn a_write_waits_for_room_that_an_upload_makes() {
    let bench = Bench::write_back(Duration::ZERO);
    let first = bench.new_file();
    write(&first, 0, &bytes(MIB, 1)).unwrap();
    // The upload is tried again half a second later.
    bench
        .client
        .fail_next(Operation::PutObject, 1, ErrorKind::Unreachable);
    wait(first.commit()).unwrap();
    bench.staging.context().file_memory.forbid();
    let second = bench.new_file();
    name(&second, "second");
    let faults = &bench.staging.context().directory().unwrap().faults;
    // Also behind what other files give back.
    faults.set_next(2, DiskErrorKind::StorageFull);
    write(&second, 0, b"bytes").unwrap();
    assert_eq!(read(&second, 0, 9).unwrap(), b"bytes");
    wait(second.commit()).unwrap();
    bench.drain();
    // Nothing is pending that could make room, once all records are released.
    faults.set(Some(DiskErrorKind::StorageFull));
    let full = write(&second, 0, b"more");
    assert!(matches!(full, Err(FsError::NoSpace(_))), "{full:?}");
}

/// A version of many ranges does not go into the journal's record, so that its file in memory goes
/// to the disk.
#[test]
fn a_full_disk_at_a_commit_loses_nothing() {
    let bench = Bench::write_back(Duration::ZERO);
    let file = bench.new_file();
    let mut expected: Vec<u8> = Vec::new();
    for _ in 0..1_100 {
        write(&file, expected.len() as u64 + 1, b"x").unwrap();
        expected.extend(b"\0x");
    }
    let faults = &bench.staging.context().directory().unwrap().faults;
    faults.set(Some(DiskErrorKind::StorageFull));
    let full = wait(file.commit());
    assert!(matches!(full, Err(FsError::NoSpace(_))), "{full:?}");
    faults.set(None);
    wait(file.commit()).unwrap();
    bench.drain();
    assert!(bench.content("key").unwrap() == expected);
}

#[test]
fn a_file_that_is_removed_behind_a_failed_commit_is_never_stored() {
    let bench = Bench::write_back(Duration::ZERO);
    let file = bench.new_file();
    for number in 0..1_100 {
        write(&file, 2 * number, b"x").unwrap();
    }
    let faults = &bench.staging.context().directory().unwrap().faults;
    faults.set(Some(DiskErrorKind::StorageFull));
    let full = wait(file.commit());
    assert!(matches!(full, Err(FsError::NoSpace(_))), "{full:?}");
    file.removed();
    wait(file.remove()).ok();
    faults.set(None);
    wait(file.release()).unwrap();
    bench.drain();
    assert_eq!(bench.content("key"), None);
    assert!(bench.names("kept").is_empty());
}

#[test]
fn an_upload_that_is_refused_again_and_again_ends_as_a_kept_version() {
    let bench = Bench::write_back(Duration::ZERO);
    bench.fail_all(ErrorKind::Denied);
    let file = bench.new_file();
    write(&file, 0, b"bytes").unwrap();
    wait(file.release()).unwrap();
    while !wait(bench.staging.drain(Duration::from_millis(5))).is_empty() {}
    assert_eq!(bench.names("kept").len(), 2);
    assert_eq!(bench.told(), ["failed"]);
    assert!(matches!(file.failure(), Some(FsError::Stale(_))));
}

/// Credentials that have expired, or a gateway's word that there is no bucket, tell nothing of the
/// file: it waits, however long that lasts.
#[test]
fn an_upload_waits_for_credentials_and_for_the_bucket() {
    for kind in [
        ErrorKind::Credentials,
        ErrorKind::NoSuchBucket,
        ErrorKind::WrongRegion(None),
        ErrorKind::Transient,
    ] {
        let bench = Bench::write_back(Duration::ZERO);
        bench.fail_all(kind.clone());
        let file = bench.new_file();
        write(&file, 0, b"bytes").unwrap();
        wait(file.release()).unwrap();
        for _ in 0..20 {
            let left = wait(bench.staging.drain(Duration::from_millis(5)));
            assert_eq!(left.count, 1, "{kind:?}");
        }
        assert_eq!(bench.names("kept"), [""; 0], "{kind:?}");
        bench.client.clear_faults();
        bench.drain();
        assert_eq!(bench.content("key").unwrap(), b"bytes", "{kind:?}");
    }
}

/// A gateway, or a server that repeats a request, says that the condition does not hold, and the
/// bucket shows that it does.
#[test]
fn a_conflict_that_the_bucket_does_not_show_is_none() {
    for is_there in [false, true] {
        let bench = Bench::write_back(Duration::ZERO);
        let file = match is_there {
            false => bench.new_file(),
            true => bench.over(&bench.client.put_object("key", "before")),
        };
        let refused = ErrorKind::PreconditionFailed;
        bench.client.fail_next(Operation::PutObject, 1, refused);
        write(&file, 0, b"our bytes").unwrap();
        wait(file.release()).unwrap();
        bench.drain();
        assert_eq!(bench.content("key").unwrap(), b"our bytes", "{is_there}");
        assert_eq!(bench.names("kept"), [""; 0], "{is_there}");
    }
}

/// Credentials expire behind the refusal: HEAD has no body that would tell, and a listing does.
#[test]
fn a_conflict_that_nobody_could_look_at_is_none() {
    let bench = Bench::write_back(Duration::ZERO);
    let file = bench.new_file();
    for (operation, kind) in [
        (Operation::PutObject, ErrorKind::PreconditionFailed),
        (Operation::HeadObject, ErrorKind::Denied),
        (Operation::ListObjectsV2, ErrorKind::Credentials),
    ] {
        bench.client.fail_next(operation, 1, kind);
    }
    write(&file, 0, b"our bytes").unwrap();
    wait(file.release()).unwrap();
    bench.drain();
    assert_eq!(bench.content("key").unwrap(), b"our bytes");
    assert_eq!(bench.names("kept"), [""; 0]);
}

#[test]
fn without_write_back_a_commit_stores() {
    let bench = Bench::new();
    let file = bench.new_file();
    write(&file, 0, b"bytes").unwrap();
    wait(file.commit()).unwrap();
    assert_eq!(bench.content("key").unwrap(), b"bytes");
    assert!(
        !bench
            .directory
            .path()
            .join("mount-s3-staging/journal")
            .exists()
    );
}

/// The bucket got a version whose answer was lost, and is away afterwards: the next upload knows
/// its own object, and a newer version goes over it.
#[test]
fn an_upload_whose_answer_was_lost_is_no_conflict() {
    for is_rewritten in [false, true] {
        let bench = Bench::write_back(Duration::ZERO);
        let file = bench.new_file();
        write(&file, 0, &bytes(1000, 1)).unwrap();
        bench.client.add_fault(FaultRule {
            operation: Some(Operation::PutObject),
            when: When::Next(1),
            fault: Fault::FailAfterwards(ErrorKind::Unreachable),
        });
        bench.fail_all_but_puts();
        wait(file.commit()).unwrap();
        while bench.staging.pending().files[0].failures == 0 {
            std::thread::yield_now();
        }
        assert!(file.may_have_object());
        assert_eq!(bench.content("key").unwrap(), bytes(1000, 1));
        if is_rewritten {
            write(&file, 500, &bytes(1000, 2)).unwrap();
            wait(file.commit()).unwrap();
        }
        bench.client.clear_faults();
        bench.drain();
        let mut expected = bytes(1000, 1);
        if is_rewritten {
            expected.truncate(500);
            expected.extend(bytes(1000, 2));
        }
        assert_eq!(bench.content("key").unwrap(), expected, "{is_rewritten}");
        assert_eq!(bench.names("kept"), [""; 0], "{is_rewritten}");
    }
}

/// Behind it, a kill brings nothing back: the object may have another name by then.
#[test]
fn a_settled_file_is_in_the_bucket_alone() {
    let bench = Bench::write_back(LONG);
    let file = bench.new_file();
    write(&file, 0, b"bytes").unwrap();
    wait(file.commit()).unwrap();
    assert!(file.is_recorded() && !file.may_have_object());
    wait(file.settle()).unwrap();
    assert!(!file.is_recorded() && file.may_have_object() && !file.is_changed());
    assert_eq!(bench.content("key").unwrap(), b"bytes");
    let next = bench.restart(Duration::ZERO).unwrap();
    assert!(next.staging.recovered().is_empty());
    write(&file, 0, b"more").unwrap();
    wait(file.commit()).unwrap();
    assert_eq!(bench.restart(LONG).unwrap().staging.recovered().len(), 1);
    bench.drain();
    assert_eq!(bench.content("key").unwrap(), b"mores");
}

/// A kill between the record of a rename and that of the removal of what it replaces. Where no
/// rename has replaced it, the older version is kept.
#[test]
fn of_two_versions_of_a_key_the_newer_one_counts() {
    for len in [3, MIB] {
        for is_replaced in [true, false] {
            let bench = Bench::write_back(LONG);
            let (old, new) = (bench.new_file(), bench.new_file());
            name(&new, "other");
            for (file, seed) in [(&old, 1), (&new, 2)] {
                write(file, 0, &bytes(len, seed)).unwrap();
                wait(file.commit()).unwrap();
            }
            let over = is_replaced.then_some(&old);
            let key = Key::parse("key").unwrap();
            wait(new.rename_unstored(key, StagedBase::None, over)).unwrap();
            let next = bench.restart(LONG).unwrap();
            assert_eq!(next.staging.recovered().len(), 1);
            next.drain();
            assert_eq!(bench.client.keys(), ["key"]);
            assert_eq!(bench.content("key").unwrap(), bytes(len, 2));
            let kept = next.names("kept");
            assert_eq!(kept.len(), if is_replaced { 0 } else { 2 }, "{kept:?}");
            if let Some(data) = kept.first() {
                let folder = next.directory.path().join("mount-s3-staging/kept");
                assert_eq!(std::fs::read(folder.join(data)).unwrap(), bytes(len, 1));
            }
        }
    }
}

/// A file that waits for one bucket is never stored in another.
#[test]
fn pending_files_are_for_their_bucket_alone() {
    let bench = Bench::write_back(LONG);
    let file = bench.new_file();
    write(&file, 0, b"bytes").unwrap();
    wait(file.commit()).unwrap();
    let killed = bench.killed();
    let mut config = staging_config(&killed, ConflictPolicy::Fail);
    for (bucket, endpoint) in [("another", ""), ("bucket", "http://elsewhere")] {
        bucket.clone_into(&mut config.bucket);
        endpoint.clone_into(&mut config.endpoint);
        let refused = mount(&bench.client, &config, None, Clock::monotonic());
        let text = refused.map(drop).unwrap_err();
        assert!(text.contains("1 files") && text.contains(bucket), "{text}");
    }
    let next = Bench::on(killed, Arc::clone(&bench.client), LONG).unwrap();
    next.drain();
    assert_eq!(bench.content("key").unwrap(), b"bytes");
}

/// The state of a file that nobody uses is one piece of memory.
#[test]
fn a_small_file_that_waits_takes_little_memory_and_comes_back_as_it_was() {
    let bench = Bench::write_back(Duration::from_secs(3600));
    bench.go_away();
    let file = bench.new_file();
    name(&file, "a/directory/and-a-name.txt");
    write(&file, 0, &bytes(110, 1)).unwrap();
    assert_eq!(file.resting_bytes(), None, "changes that no record has");
    wait(file.release()).unwrap();
    let rests = file.resting_bytes().unwrap();
    assert!(rests <= 110 + 300, "{rests} bytes");

    let state = format!("{file:?}");
    assert_eq!(read(&file, 0, 200).unwrap(), bytes(110, 1));
    assert_eq!(file.resting_bytes(), Some(rests), "behind a read");
    assert_eq!(format!("{file:?}"), state);

    let held = wait(file.hold_stores());
    assert_eq!(file.resting_bytes(), None, "as long as its stores are held");
    drop(held);
    assert_eq!(file.resting_bytes(), Some(rests));
}
