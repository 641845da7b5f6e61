//! A mount after one that was killed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use mountpoint_client::testing::sim::{Content, SimObject};
use mountpoint_client::types::{ObjectHeaders, WriteToken};

use super::write_back::{LONG, bytes, staging_on};
use super::{Bench, MIB, name, read, wait, write};
use crate::clock::Clock;
use crate::file::StagedFile;
use crate::file::control::{ControlRequest, ask};
use crate::file::journal::{Journal, JournalLimits, RecordKey};
use crate::file::kept::KeptVersions;
use crate::file::pending::PendingVersions;
use crate::local_disk::test_disk::real_folder;
use crate::operation::FsError;

/// Commits `len` bytes over an object of `base` bytes, at `offset`, and is killed.
#[track_caller]
fn check(base: Option<usize>, offset: usize, len: usize) {
    let context = format!("{base:?} {offset} {len}");
    let bench = Bench::write_back(LONG);
    let mut expected = bytes(base.unwrap_or_default(), 9);
    let file = match base {
        None => bench.new_file(),
        Some(_) => bench.over(&bench.client.put_object("key", expected.clone())),
    };
    let written = bytes(len, 1);
    write(&file, offset as u64, &written).unwrap();
    wait(file.release()).unwrap();
    expected.resize(expected.len().max(offset + len), 0);
    expected[offset..offset + len].copy_from_slice(&written);
    let next = bench.restart(Duration::ZERO).unwrap();
    let recovered = next.staging.recovered();
    let [found] = &recovered[..] else {
        panic!("{context}: {recovered:?}")
    };
    assert_eq!(
        (found.key.as_str(), found.file.size()),
        ("key", expected.len() as u64),
        "{context}"
    );
    assert_eq!(
        found.base.as_ref().map(|it| it.size),
        base.map(|it| it as u64),
        "{context}"
    );
    let end = offset.saturating_sub(5);
    assert_eq!(
        read(&found.file, end as u64, 9).unwrap(),
        expected[end..(end + 9).min(expected.len())]
    );
    next.drain();
    assert!(next.content("key").unwrap() == expected, "{context}");
    assert!(next.staging.recovered().is_empty());
}

#[test]
fn what_was_committed_is_uploaded_by_the_next_mount() {
    for len in [10, 100_000, 200_000, 7 * MIB] {
        check(None, 0, len);
        check(None, 1000, len);
        check(Some(300_000), 100, len);
    }
}

/// The process was killed when the bucket had the version, and the journal did not say so.
#[test]
fn an_upload_of_a_killed_process_is_no_conflict() {
    for len in [0, 10, MIB] {
        let bench = Bench::write_back(LONG);
        let file = bench.new_file();
        write(&file, 0, &bytes(len, 1)).unwrap();
        wait(file.commit()).unwrap();
        let killed = bench.killed();
        bench.drain();
        let next = Bench::on(killed, Arc::clone(&bench.client), LONG).unwrap();
        let recovered = next.staging.recovered();
        next.drain();
        assert!(!recovered[0].file.is_changed());
        assert_eq!(next.content("key").unwrap(), bytes(len, 1));
        assert_eq!(next.names("kept"), [""; 0]);
    }
}

/// An application changes the file before the next mount looks: its upload is recognised too.
#[test]
fn changes_behind_an_upload_of_a_killed_process_are_no_conflict() {
    for len in [10, MIB] {
        let bench = Bench::write_back(LONG);
        let file = bench.new_file();
        write(&file, 0, &bytes(len, 1)).unwrap();
        wait(file.commit()).unwrap();
        let killed = bench.killed();
        bench.drain();
        let next = Bench::on(killed, Arc::clone(&bench.client), LONG).unwrap();
        let recovered = next.staging.recovered();
        write(&recovered[0].file, 3, b"changed").unwrap();
        wait(recovered[0].file.commit()).unwrap();
        let mut expected = bytes(len, 1);
        expected.resize(len.max(10), 0);
        expected[3..10].copy_from_slice(b"changed");
        // Killed once more, and once more.
        let again = next.restart(LONG).unwrap();
        let last = again.restart(LONG).unwrap();
        last.drain();
        assert!(last.content("key").unwrap() == expected);
        assert_eq!(last.names("kept"), [""; 0]);
    }
}

#[test]
fn a_conflict_after_a_kill_keeps_the_local_version() {
    for len in [10, MIB] {
        let bench = Bench::write_back(LONG);
        let object = bench.client.put_object("key", bytes(len, 9));
        let file = bench.over(&object);
        write(&file, 0, &bytes(len, 1)).unwrap();
        wait(file.release()).unwrap();
        bench.client.put_object("key", bytes(len, 5));
        let next = bench.restart(LONG).unwrap();
        next.drain();
        assert_eq!(next.content("key").unwrap(), bytes(len, 5));
        assert_eq!(next.names("kept").len(), 2);
        assert!(next.restart(LONG).unwrap().staging.pending().count <= 1);
    }
}

/// Another host's object has the same size, and the same bytes where this file was changed.
#[test]
fn equal_changes_of_another_host_are_a_conflict() {
    let bench = Bench::write_back(LONG);
    let file = bench.over(&bench.client.put_object("key", bytes(1000, 9)));
    write(&file, 100, b"changed").unwrap();
    wait(file.release()).unwrap();
    let mut theirs = bytes(1000, 5);
    theirs[100..107].copy_from_slice(b"changed");
    bench.client.put_object("key", theirs.clone());
    let next = bench.restart(LONG).unwrap();
    next.drain();
    assert_eq!(next.content("key").unwrap(), theirs);
    assert_eq!(next.names("kept").len(), 2);
}

/// Programs that write an object anew may keep its metadata, and with them the token.
#[test]
fn a_version_of_another_client_that_kept_the_metadata_is_a_conflict() {
    let bench = Bench::write_back(LONG);
    let file = bench.new_file();
    write(&file, 0, b"first").unwrap();
    wait(file.commit()).unwrap();
    wait(file.settle()).unwrap();
    let there = bench.client.object("key").unwrap();
    assert!(there.headers.token.is_some());
    bench.client.insert(SimObject {
        headers: there.headers,
        ..SimObject::new(there.key, Content::bytes("theirs"))
    });
    write(&file, 0, b"mine").unwrap();
    wait(file.commit()).unwrap();
    bench.drain();
    assert_eq!(bench.content("key").unwrap(), b"theirs");
    assert_eq!(bench.names("kept").len(), 2);
}

impl Bench {
    /// A killed mount whose journal has `recorded`, behind which the bucket has `stored`: a full
    /// disk had kept that version out of the journal.
    fn stored_behind_the_record(&self, recorded: &[u8], stored: &'static str) -> Self {
        let file = self.new_file();
        write(&file, 0, b"first").unwrap();
        wait(file.commit()).unwrap();
        wait(file.settle()).unwrap();
        write(&file, 0, recorded).unwrap();
        wait(file.commit()).unwrap();
        let there = self.client.object("key").unwrap();
        let token = there.headers.token.clone().unwrap();
        let (series, _) = token.as_str().split_once('.').unwrap();
        let later = WriteToken::parse(&format!("{series}.9")).unwrap();
        let next = Self::on(self.killed(), Arc::clone(&self.client), LONG).unwrap();
        self.client.insert(SimObject {
            headers: ObjectHeaders {
                token: Some(later),
                ..there.headers
            },
            ..SimObject::new(there.key, Content::bytes(stored))
        });
        next
    }
}

#[test]
fn a_record_gives_way_to_a_later_version_that_has_none() {
    let bench = Bench::write_back(LONG);
    let next = bench.stored_behind_the_record(b"recorded", "stored");
    next.drain();
    assert_eq!(next.content("key").unwrap(), b"stored");
    assert_eq!(next.names("kept"), [""; 0]);
    // The release of the record may come too late for a kill.
    let last = next.restart(LONG).unwrap();
    last.drain();
    assert_eq!(last.content("key").unwrap(), b"stored");
}

#[test]
fn a_change_of_a_record_is_laid_over_no_later_version() {
    let bench = Bench::write_back(LONG);
    let next = bench.stored_behind_the_record(b"recorded", "stored");
    let recovered = next.staging.recovered();
    // As many changes as the killed process had made.
    for _ in 0..12 {
        write(&recovered[0].file, 0, b"R").unwrap();
    }
    wait(recovered[0].file.commit()).unwrap();
    next.drain();
    assert_eq!(next.content("key").unwrap(), b"stored");
    assert_eq!(next.kept().len(), 1);
}

/// Writes a record into the journal of a directory, as another program would.
fn put_record(directory: &Path, key: u64, payload: &[u8]) {
    let disk = real_folder(&directory.join("mount-s3-staging/journal"));
    let limits = JournalLimits::default();
    let (journal, _) = Journal::open(Arc::new(disk), limits, Clock::monotonic()).unwrap();
    let commit = block_on(journal.append(RecordKey(key), &[payload])).unwrap();
    block_on(commit).unwrap();
}

/// The files below `folder` but the lock, which names the process that looked.
fn files_below(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.append(&mut files_below(&path));
        } else if path.file_name().unwrap() != "lock" {
            let content = std::fs::read(&path).unwrap();
            files.insert(path, content);
        }
    }
    files
}

/// Also where older records come before, whose files were removed or have bytes in the journal.
#[test]
fn a_newer_format_refuses_the_directory_and_changes_nothing_there() {
    let bench = Bench::write_back(LONG);
    let file = bench.new_file();
    write(&file, 0, b"bytes").unwrap();
    wait(file.release()).unwrap();
    let killed = bench.killed();
    let removed = [1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];
    put_record(killed.path(), 7, &removed);
    put_record(killed.path(), 8, &[9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    let folder = killed.path().join("mount-s3-staging/files");
    std::fs::write(folder.join("0000000000000000.1"), "of an older version").unwrap();
    std::fs::write(folder.join("0000000000000009.1"), "without a record").unwrap();
    let before = files_below(killed.path());
    let refused = staging_on(&killed, &bench.client, LONG);
    let text = refused.map(drop).unwrap_err();
    assert!(
        text.contains("format 9") && text.contains("--staging"),
        "{text}"
    );
    assert!(files_below(killed.path()) == before);
}

/// A damaged version stays, is named, and is not uploaded; other files are.
#[test]
fn nothing_is_uploaded_from_damage() {
    let bench = Bench::write_back(LONG);
    let file = bench.new_file();
    write(&file, 0, &bytes(MIB, 1)).unwrap();
    wait(file.release()).unwrap();
    let other = bench.new_file();
    name(&other, "other");
    write(&other, 0, b"bytes").unwrap();
    wait(other.release()).unwrap();
    let killed = bench.killed();
    put_record(
        killed.path(),
        1 << 40,
        &[1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0],
    );
    let files = killed.path().join("mount-s3-staging/files");
    let data = files.join("0000000000000000.1");
    std::fs::File::options()
        .write(true)
        .open(&data)
        .unwrap()
        .set_len(1000)
        .unwrap();
    let shown = PendingVersions::look(killed.path()).unwrap().unwrap().all();
    let damaged = shown.iter().filter(|entry| entry.damage.is_some());
    assert_eq!((shown.len(), damaged.count()), (3, 2));
    let next = Bench::on(killed, Arc::clone(&bench.client), LONG).unwrap();
    let damaged = next.staging.damaged();
    assert_eq!(damaged.len(), 2, "{damaged:?}");
    assert!(
        damaged.iter().any(|text| text.contains("key")),
        "{damaged:?}"
    );
    let versions = KeptVersions::open(next.directory.path()).unwrap().unwrap();
    let report = ask(versions.folder(), ControlRequest::Pending)
        .unwrap()
        .unwrap();
    assert_eq!((report.damaged, report.damaged_files.len()), (2, 2));
    next.drain();
    assert_eq!(bench.client.keys(), ["other"]);
    assert!(
        next.names("files")
            .contains(&"0000000000000000.1".to_owned())
    );
    // Names of new files are above all that stays.
    let file = next.new_file();
    write(&file, 0, b"bytes").unwrap();
    wait(file.commit()).unwrap();
    assert_eq!(next.restart(LONG).unwrap().staging.damaged().len(), 2);
}

/// Changes one byte of a data file, the first one or the second one, of the only file in a
/// directory.
fn flip(directory: &Path, number: u8, offset: u64) {
    use std::os::unix::fs::FileExt as _;
    let path = format!("mount-s3-staging/files/0000000000000000.{number}");
    let path = directory.join(path);
    let file = std::fs::File::options().read(true).write(true).open(path);
    let file = file.unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 16], offset).unwrap();
}

/// Has a committed file of 3 MiB and 5 bytes, which `change` may change before the last close, and
/// flips a bit of it.
#[track_caller]
fn check_flipped(at: u64, change: impl FnOnce(&StagedFile)) {
    let bench = Bench::write_back(LONG);
    let file = bench.new_file();
    write(&file, 0, &bytes(3 * MIB + 5, 1)).unwrap();
    change(&file);
    wait(file.release()).unwrap();
    let killed = bench.killed();
    flip(killed.path(), 1, at);
    let next = Bench::on(killed, Arc::clone(&bench.client), LONG).unwrap();
    let recovered = next.staging.recovered();
    let error = read(&recovered[0].file, at, 1).unwrap_err();
    assert!(error.to_string().contains("changed"), "{error}");
    assert!(
        read(
            &recovered[0].file,
            (at + 2 * MIB as u64) % (3 * MIB as u64),
            1
        )
        .is_ok()
    );
    next.drain();
    assert_eq!(bench.client.keys(), [""; 0], "{at}");
    let versions = KeptVersions::open(next.directory.path()).unwrap().unwrap();
    let ids = versions.ids().unwrap();
    let kept = versions.find(&ids[0]).unwrap().unwrap();
    let reason = kept.description.reason;
    assert!(reason.contains("the disk has changed"), "{reason}");
    assert_eq!(kept.description.size, 3 * MIB as u64 + 5);
}

#[test]
fn a_flipped_bit_is_kept_and_not_uploaded() {
    for at in [0, 1_500_000, 3 * MIB as u64 + 4] {
        check_flipped(at, |_| {});
        check_flipped(at, |file| {
            for at in [2 * MIB as u64, 7, 3 * MIB as u64] {
                write(file, at, b"later").unwrap();
            }
        });
        check_flipped(at, |file| {
            wait(file.commit()).unwrap();
            write(file, 1_400_000, b"behind a commit").unwrap();
            wait(file.commit()).unwrap();
            write(file, 9, b"again").unwrap();
        });
    }
}

/// A recovered file that is written again has its sums, whoever wrote which of its bytes.
#[test]
fn a_flipped_bit_is_found_behind_changes_of_the_next_mount() {
    let bench = Bench::write_back(LONG);
    let file = bench.new_file();
    write(&file, 0, &bytes(3 * MIB, 1)).unwrap();
    wait(file.release()).unwrap();
    let next = bench.restart(LONG).unwrap();
    let recovered = next.staging.recovered();
    write(&recovered[0].file, 2 * MIB as u64 + 9, b"later").unwrap();
    wait(recovered[0].file.release()).unwrap();
    for (number, at) in [(1, 100), (2, 2 * MIB as u64 + 10)] {
        let killed = next.killed();
        flip(killed.path(), number, at);
        let last = Bench::on(killed, Arc::clone(&bench.client), LONG).unwrap();
        last.drain();
        assert_eq!(last.kept().len(), 1, "{at}");
        assert_eq!(bench.client.keys(), [""; 0], "{at}");
    }
    // A write into a damaged block would hide the damage.
    let killed = next.killed();
    flip(killed.path(), 1, 100);
    let last = Bench::on(killed, Arc::clone(&bench.client), LONG).unwrap();
    let file = last.staging.recovered().remove(0).file;
    assert!(write_pages(&file, 0).is_err());
}

/// Writes more ranges of a file than are kept apart from a commit.
fn write_pages(file: &StagedFile, byte: u8) -> Result<(), FsError> {
    (0..100).try_for_each(|page| write(file, 500 + page * 8192, &[byte; 100]))
}

/// Written in place, some of them may be there, and the rest is that of the commit.
#[test]
fn bytes_written_over_a_commit_are_no_damage() {
    let bench = Bench::write_back(LONG);
    let file = bench.new_file();
    write(&file, 0, &bytes(2 * MIB, 1)).unwrap();
    wait(file.commit()).unwrap();
    write_pages(&file, 255).unwrap();
    let next = bench.restart(LONG).unwrap();
    next.drain();
    let found = next.content("key").unwrap();
    assert_eq!(found.len(), 2 * MIB);
    let pairs = || found.iter().zip(bytes(2 * MIB, 1));
    assert!(pairs().all(|(found, committed)| [255, committed].contains(found)));
    let over = pairs().filter(|(found, committed)| *found != committed);
    assert!((1..100 * 100).contains(&over.count()));
}

#[test]
fn bytes_written_behind_a_commit_are_not_in_it() {
    let len = 2 * MIB;
    for (at, text) in [
        (100, "over"),
        (len, "behind"),
        (len - 2, "both"),
        (4 * len, "far"),
    ] {
        let bench = Bench::write_back(LONG);
        let file = bench.new_file();
        write(&file, 0, &bytes(len, 1)).unwrap();
        wait(file.commit()).unwrap();
        write(&file, at as u64, text.as_bytes()).unwrap();
        let next = bench.restart(LONG).unwrap();
        next.drain();
        assert!(next.content("key").unwrap() == bytes(len, 1), "{at}");
    }
}

/// Records of 0.2.0 have no sums, and segments of it no length.
#[test]
fn a_record_of_an_older_version_is_uploaded() {
    let bench = Bench::write_back(LONG);
    let killed = bench.killed();
    let text = concat!(
        r#"{"key":"old","base":null,"is_unasked":false,"size":300000,"base_len":0,"mtime":[1,0],"#,
        r#""headers":{},"ranges":[[0,300000,1,false]],"is_inline":false}"#
    );
    let len = u32::try_from(text.len()).unwrap().to_le_bytes();
    let payload = [&[1, 0, 0, 0, 1, 0, 0, 0][..], &len, text.as_bytes()].concat();
    put_record(killed.path(), 7, &payload);
    let files = killed.path().join("mount-s3-staging/files");
    std::fs::write(files.join("0000000000000007.1"), bytes(300_000, 3)).unwrap();
    let next = Bench::on(killed, Arc::clone(&bench.client), LONG).unwrap();
    next.drain();
    assert!(next.content("old").unwrap() == bytes(300_000, 3));
}

/// Of a data file without a record, a whole journal tells that its close had not returned. If the
/// journal was removed, nobody knows.
#[test]
fn data_files_without_a_record_are_kept_if_the_journal_was_removed() {
    let bench = Bench::write_back(LONG);
    for (key, len, closes) in [("closed", MIB, true), ("open", MIB + 1, false)] {
        let file = bench.new_file();
        name(&file, key);
        write(&file, 0, &bytes(len, 1)).unwrap();
        match closes {
            true => wait(file.release()).unwrap(),
            // As a process that is killed before the close.
            false => std::mem::forget(file),
        }
    }
    let next = bench.restart(LONG).unwrap();
    drop(next.staging.recovered());
    next.drain();
    wait(next.staging.end_journal());
    assert_eq!(next.names("kept"), [""; 0]);
    assert_eq!(next.names("files"), [""; 0]);
    for has_write_back in [true, false] {
        let killed = bench.killed();
        let journal = killed.path().join("mount-s3-staging/journal");
        std::fs::remove_dir_all(journal).unwrap();
        if !has_write_back {
            let config = super::staging_config(&killed, crate::config::ConflictPolicy::Fail);
            drop(super::mount(&bench.client, &config, None, Clock::monotonic()).unwrap());
        }
        check_kept(&Bench::on(killed, Arc::clone(&bench.client), LONG).unwrap());
    }
}

/// Two data files are kept, as they are.
#[track_caller]
fn check_kept(next: &Bench) {
    assert_eq!(next.names("files"), [""; 0]);
    let versions = KeptVersions::open(next.directory.path()).unwrap().unwrap();
    let mut sizes = Vec::new();
    for id in versions.ids().unwrap() {
        let version = versions.find(&id).unwrap().unwrap().description;
        assert!(version.reason.contains("removed"), "{}", version.reason);
        let size = usize::try_from(version.size).unwrap();
        let file = next.directory.path().join("mount-s3-staging/kept");
        let file = std::fs::read(file.join(format!("{id}.1"))).unwrap();
        assert!(file == bytes(size, 1));
        sizes.push(size);
    }
    sizes.sort_unstable();
    assert_eq!(sizes, [MIB, MIB + 1]);
}

/// A mount without write-back uploads what one with it has left.
#[test]
fn a_mount_without_write_back_goes_on_with_what_is_pending() {
    let bench = Bench::write_back(LONG);
    let file = bench.new_file();
    write(&file, 0, b"bytes").unwrap();
    wait(file.release()).unwrap();
    let killed = bench.killed();
    let config = super::staging_config(&killed, crate::config::ConflictPolicy::Fail);
    let staging = super::mount(&bench.client, &config, None, Clock::monotonic()).unwrap();
    assert!(wait(staging.drain(LONG)).is_empty());
    assert_eq!(bench.content("key").unwrap(), b"bytes");
}

/// A file with more ranges than a record takes has its description beside the journal.
#[test]
fn a_file_with_many_ranges_is_recovered() {
    let bench = Bench::write_back(LONG);
    let file = bench.new_file();
    let size = 60_000 * 20;
    wait(file.set_len(size as u64)).unwrap();
    let mut expected = vec![0; size];
    for at in (0..size).step_by(20) {
        expected[at] = 7;
        write(&file, at as u64, &[7]).unwrap();
    }
    for round in 1..4 {
        expected[0] = round;
        write(&file, 0, &[round]).unwrap();
        wait(file.commit()).unwrap();
    }
    assert!(bench.names("files").iter().any(|name| name.contains(".r")));
    let next = bench.restart(LONG).unwrap();
    next.drain();
    assert!(next.content("key").unwrap() == expected);
}

/// The bucket has what a killed process uploaded, and the bytes of the base are gone with that: a
/// read finds them in the upload.
#[test]
fn reads_know_the_upload_that_a_killed_process_did_not_note() {
    let bench = Bench::write_back(LONG);
    let file = bench.over(&bench.client.put_object("key", bytes(300_000, 9)));
    write(&file, 100, b"changed").unwrap();
    wait(file.commit()).unwrap();
    let killed = bench.killed();
    bench.drain();
    let next = Bench::on(killed, Arc::clone(&bench.client), LONG).unwrap();
    let recovered = next.staging.recovered();
    let mut expected = bytes(300_000, 9);
    expected[100..107].copy_from_slice(b"changed");
    assert!(read(&recovered[0].file, 0, 300_000).unwrap() == expected);
    next.drain();
    assert!(next.content("key").unwrap() == expected);
    assert_eq!(next.names("kept"), [""; 0]);
}
