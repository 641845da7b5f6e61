//! The journal after killed processes, full disks and vanished directories.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use futures::FutureExt as _;
use mountpoint_client::SimClient;
use mountpoint_client::testing::sim::SimOptions;
use mountpoint_client::types::{Key, ObjectHeaders};

use super::file::{JOURNAL_LEN_MAX, JournalReport};
use super::line::RENAME_REMEMBERED;
use super::line::{Header, VERSION};
use super::origin::Origin;
use super::state::JOURNAL_QUEUE_MAX;
use super::state::RENAMES_REMEMBERED_MAX;
use super::*;
use crate::clock::wait_until;

const NOW: SystemTime = UNIX_EPOCH;

/// Without a thread no call waits.
#[track_caller]
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("the future is ready at once")
}

fn token() -> WriteToken {
    WriteToken::parse("token").unwrap()
}

fn renaming(journal: &Journal, from: &str, to: &str) {
    now(journal.renaming((from, to), &token(), (NOW, NOW)));
}

fn is_renaming(journal: &Journal, from: &str, to: &str) -> bool {
    let found = now(journal.is_renaming(from, to, Some(NOW), NOW));
    assert!(found.is_none() || found == Some(token()));
    found.is_some()
}

fn begun(journal: &Journal, upload: &Upload) {
    now(journal.begun(upload));
}

fn path_of(journal: &Journal) -> PathBuf {
    journal.0.file.lock().path.clone()
}

fn has_missed(journal: &Journal) -> bool {
    journal.0.file.lock().has_missed
}

/// The journal of the next mount.
fn next(client: &SimClient, directory: &Path) -> Journal {
    let next = Journal::new(Some(directory), "b");
    next.recover(client, NOW).now_or_never().unwrap();
    next
}

/// Makes the file reject writes, as a full disk does.
fn fill(journal: &Journal) {
    let mut file = journal.0.file.lock();
    let read_only = OpenOptions::new().read(true).open(&file.path);
    file.file = Some(read_only.unwrap());
}

fn files_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn begin(client: &SimClient, key: &str) -> Upload {
    let key = Key::parse(key).unwrap();
    let begun = client.create_upload(&key, ObjectHeaders::default(), None);
    begun.now_or_never().unwrap().unwrap()
}

fn open(client: &SimClient) -> Vec<String> {
    let uploads = client.list_uploads("").now_or_never().unwrap().unwrap();
    uploads
        .into_iter()
        .map(|upload| upload.key.as_str().to_owned())
        .collect()
}

/// Leaves the state of a killed process: its files without their locks.
fn killed(journal: Journal) {
    // The file is not removed, unlike by a process that ends normally.
    journal.0.file.lock().file = None;
    drop(journal);
}

#[test]
fn what_a_killed_process_left_is_aborted_and_nothing_else() {
    let client = SimClient::new(SimOptions::default());
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("not/there/yet");
    let journal = |bucket| Journal::new(Some(&state), bucket);
    let recover = |bucket| {
        journal(bucket)
            .recover(&client, NOW)
            .now_or_never()
            .unwrap()
    };
    assert_eq!(recover("b"), 0);
    let [first, second, third, other] =
        ["first", "second", "third", "other"].map(|key| begin(&client, key));
    let (of_killed, of_other, living) = (journal("b"), journal("c"), journal("b"));
    begin(&client, "of another client");
    begun(&of_killed, &first);
    begun(&of_killed, &second);
    client.abort_upload(&first).now_or_never().unwrap().unwrap();
    of_killed.ended(&first);
    begun(&living, &third);
    begun(&of_other, &other);
    killed(of_killed);
    killed(of_other);
    assert_eq!(recover("b"), 1);
    assert_eq!(open(&client), ["of another client", "other", "third"]);
    assert_eq!(recover("b"), 0);
    assert_eq!(recover("c"), 1);
    // A process that ends normally leaves no file.
    living.ended(&third);
    drop(living);
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0);
}

#[test]
fn a_line_that_was_cut_off_does_no_harm_and_an_abort_that_fails_is_tried_again() {
    let client = SimClient::new(SimOptions::default());
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::new(Some(directory.path()), "b");
    begun(&journal, &begin(&client, "key"));
    let path = path_of(&journal);
    killed(journal);
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(b"{\"begun\":{\"key\":\"half").unwrap();
    drop(file);
    let recover = || {
        let journal = Journal::new(Some(directory.path()), "b");
        journal.recover(&client, NOW).now_or_never().unwrap()
    };
    client.fail_next(
        mountpoint_client::testing::sim::Operation::AbortMultipartUpload,
        1,
        ErrorKind::Transient,
    );
    assert_eq!(recover(), 0);
    assert_eq!((recover(), open(&client).len()), (1, 0));
}

/// The number of uploads that the next mount aborts.
fn recovered(client: &SimClient, directory: &Path) -> usize {
    let journal = Journal::new(Some(directory), "b");
    let recovered = journal.recover(client, NOW).now_or_never().unwrap();
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
    recovered
}

/// A file after a full disk or a power failure.
#[test]
fn what_makes_no_sense_hides_nothing() {
    for rubbish in [
        &b"{\"begun\":{\"key\":\"half\n"[..],
        b"{\"begun\":{\"key\":\"\xc3\n",
        b"\0\0\0\0\n",
        b"\n\n",
        b"{\"unheard of\":1}\n",
    ] {
        let client = SimClient::new(SimOptions::default());
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::new(Some(directory.path()), "b");
        begun(&journal, &begin(&client, "first"));
        let file = || OpenOptions::new().append(true).open(path_of(&journal));
        file().unwrap().write_all(rubbish).unwrap();
        begun(&journal, &begin(&client, "second"));
        killed(journal);
        assert_eq!(recovered(&client, directory.path()), 2, "{rubbish:?}");
    }
}

#[test]
fn what_could_not_be_written_is_told_again() {
    let client = SimClient::new(SimOptions::default());
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::new(Some(directory.path()), "b");
    let [first, second, third] = ["first", "second", "third"].map(|key| begin(&client, key));
    begun(&journal, &first);
    let path = path_of(&journal);
    // A full disk leaves part of a line at the end of the file.
    let mut torn = OpenOptions::new().append(true).open(&path).unwrap();
    torn.write_all(b"{\"begun\":{\"ke").unwrap();
    fill(&journal);
    begun(&journal, &second);
    assert!(has_missed(&journal));
    journal.ended(&first);
    assert!(!has_missed(&journal));
    begun(&journal, &third);
    killed(journal);
    assert_eq!(recovered(&client, directory.path()), 2);
    assert_eq!(open(&client), ["first"]);
}

#[test]
fn a_directory_that_vanishes_is_made_again_with_what_is_open() {
    let client = SimClient::new(SimOptions::default());
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("state");
    let journal = Journal::new(Some(&directory), "b");
    let [first, second, third] = ["first", "second", "third"].map(|key| begin(&client, key));
    begun(&journal, &first);
    begun(&journal, &second);
    std::fs::remove_dir_all(&directory).unwrap();
    journal.ended(&first);
    begun(&journal, &third);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
    killed(journal);
    assert_eq!(recovered(&client, &directory), 2);
    assert_eq!(open(&client), ["first"]);
}

#[test]
fn renames_that_came_to_no_end_are_known_to_the_next_mount_until_they_do() {
    let client = SimClient::new(SimOptions::default());
    let directory = tempfile::tempdir().unwrap();
    let first = Journal::new(Some(directory.path()), "b");
    for (from, to) in [("a/", "b/"), ("c/", "d/"), ("c/", "d/")] {
        renaming(&first, from, to);
    }
    assert!(is_renaming(&first, "c/", "d/"));
    now(first.renamed("a/", "b/"));
    // Neither that process nor the next one completes the rename.
    killed(first);
    for _ in 0..2 {
        let next = next(&client, directory.path());
        assert!(is_renaming(&next, "c/", "d/") && !is_renaming(&next, "a/", "b/"));
        killed(next);
    }
    let last = next(&client, directory.path());
    now(last.renamed("c/", "d/"));
    drop(last);
    assert!(files_in(directory.path()).is_empty());
    // Without a directory the rename is known as long as the process lives.
    let journal = Journal::new(None, "b");
    renaming(&journal, "c/", "d/");
    assert!(is_renaming(&journal, "c/", "d/"));
}

#[test]
fn a_rename_is_begun_only_for_what_was_there_when_it_began() {
    type Between = fn(&Journal);
    let cases: [(&str, bool, Between); 13] = [
        ("nothing", true, |_| {}),
        ("another rename", true, |it| {
            assert!(!is_renaming(it, "x/", "y/"));
        }),
        (
            "mkdir in it",
            true,
            |it| now(it.forget_renames_of("p/c/x/")),
        ),
        ("mkdir of a similar name", true, |it| {
            now(it.forget_renames_of("p/c-/"));
        }),
        ("mkdir or rmdir of the old one", false, |it| {
            now(it.forget_renames_of("p/c/"));
        }),
        ("mkdir or rmdir of the new one", false, |it| {
            now(it.forget_renames_of("p/d/"));
        }),
        ("mkdir or rmdir above", false, |it| {
            now(it.forget_renames_of("p/"));
        }),
        ("mv p/c z", false, |it| {
            assert!(!is_renaming(it, "p/c/", "z/"));
        }),
        ("mv z p/d", false, |it| {
            assert!(!is_renaming(it, "z/", "p/d/"));
        }),
        ("mv p z", false, |it| assert!(!is_renaming(it, "p/", "z/"))),
        ("mv z p/c", false, |it| {
            assert!(!is_renaming(it, "z/", "p/c/z/"));
        }),
        ("mv file p/c", false, |it| {
            now(it.forget_renames_from_above("p/c/x"));
        }),
        ("nothing is left", false, |it| {
            assert!(now(it.is_renaming("p/c/", "p/d/", None, NOW)).is_none());
        }),
    ];
    for (case, is_begun, between) in cases {
        let client = SimClient::new(SimOptions::default());
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::new(Some(directory.path()), "b");
        renaming(&journal, "p/c/", "p/d/");
        between(&journal);
        assert_eq!(is_renaming(&journal, "p/c/", "p/d/"), is_begun, "{case}");
        killed(journal);
        let next = next(&client, directory.path());
        assert_eq!(is_renaming(&next, "p/c/", "p/d/"), is_begun, "{case}");
    }
}

#[test]
fn a_rename_is_begun_for_a_while_and_for_what_is_as_old() {
    let second = Duration::from_secs(1);
    let times = [
        ("as it was", NOW, NOW + RENAME_REMEMBERED, true),
        ("a newer object", NOW + second, NOW, false),
        ("too late", NOW, NOW + RENAME_REMEMBERED + second, false),
        ("a clock that was set back", NOW, NOW - second, false),
    ];
    for (case, newest, at, is_begun) in times {
        let client = SimClient::new(SimOptions::default());
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::new(Some(directory.path()), "b");
        let begun = NOW + 2 * second;
        now(journal.renaming(("c/", "d/"), &token(), (NOW, begun)));
        killed(journal);
        let (next, at) = (Journal::new(Some(directory.path()), "b"), at + 2 * second);
        next.recover(&client, at).now_or_never().unwrap();
        for _ in 0..2 {
            let found = next.is_renaming("c/", "d/", Some(newest), at);
            let found = now(found);
            assert_eq!(found.is_some(), is_begun, "{case}");
        }
    }
}

/// The disk is full when a rename ends; the process is killed later.
#[test]
fn a_rename_whose_end_could_not_be_written_is_not_begun() {
    let client = SimClient::new(SimOptions::default());
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::new(Some(directory.path()), "b");
    renaming(&journal, "c/", "d/");
    fill(&journal);
    now(journal.renamed("c/", "d/"));
    assert!(has_missed(&journal));
    begun(&journal, &begin(&client, "key"));
    assert_eq!(files_in(directory.path()).len(), 1);
    killed(journal);
    let next = next(&client, directory.path());
    assert!(!is_renaming(&next, "c/", "d/"));
    assert!(open(&client).is_empty());
}

/// An upload that cannot be aborted keeps no rename that has ended.
#[test]
fn a_rename_is_taken_over_once() {
    let client = SimClient::new(SimOptions::default());
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::new(Some(directory.path()), "b");
    begun(&journal, &begin(&client, "key"));
    renaming(&journal, "c/", "d/");
    killed(journal);
    let abort = mountpoint_client::testing::sim::Operation::AbortMultipartUpload;
    client.fail_next(abort, 1, ErrorKind::Denied);
    let second = next(&client, directory.path());
    assert!(is_renaming(&second, "c/", "d/"));
    now(second.renamed("c/", "d/"));
    killed(second);
    let third = next(&client, directory.path());
    assert!(!is_renaming(&third, "c/", "d/"));
    assert!(open(&client).is_empty());
}

#[test]
fn the_oldest_renames_are_forgotten_in_the_file_too() {
    let client = SimClient::new(SimOptions::default());
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::new(Some(directory.path()), "b");
    for number in 0..=RENAMES_REMEMBERED_MAX {
        renaming(&journal, &format!("{number}/"), &format!("to-{number}/"));
    }
    // The disk has room for the line again.
    now(journal.renamed("1/", "to-1/"));
    killed(journal);
    let next = next(&client, directory.path());
    assert!(!is_renaming(&next, "0/", "to-0/") && is_renaming(&next, "2/", "to-2/"));
}

/// The bucket of such uploads is unknown.
#[test]
fn uploads_in_a_file_that_names_no_bucket_are_left_alone() {
    let client = SimClient::new(SimOptions::default());
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::new(Some(directory.path()), "b");
    begun(&journal, &begin(&client, "key"));
    renaming(&journal, "c/", "d/");
    let path = path_of(&journal);
    killed(journal);
    let text = std::fs::read_to_string(&path).unwrap();
    let (bucket, rest) = text.split_once('\n').unwrap();
    assert!(bucket.starts_with("{\"journal\":{"), "{bucket}");
    std::fs::write(&path, rest).unwrap();
    let next = next(&client, directory.path());
    assert!(!is_renaming(&next, "c/", "d/"));
    assert_eq!(open(&client), ["key"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), rest);
}

/// The journal of a process that ended before it wrote its first line.
#[test]
fn a_file_without_a_word_is_removed() {
    let client = SimClient::new(SimOptions::default());
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("uploads-1-0.journal"), b"").unwrap();
    assert_eq!(recovered(&client, directory.path()), 0);
}

/// Neither a stopped rename nor an upload that cannot be aborted makes it grow.
#[test]
fn the_file_does_not_grow_for_ever() {
    for stays in [false, true] {
        let client = SimClient::new(SimOptions::default());
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::new(Some(directory.path()), "b");
        if stays {
            renaming(&journal, "c/", "d/");
            begun(&journal, &begin(&client, "stays"));
        }
        let upload = Upload {
            key: Key::parse(&"k".repeat(1000)).unwrap(),
            upload_id: "id".to_owned(),
        };
        for _ in 0..200 {
            begun(&journal, &upload);
            journal.ended(&upload);
            let files = files_in(directory.path());
            assert!(files.len() <= 1);
            for path in files {
                let len = std::fs::metadata(path).unwrap().len();
                assert!(len <= JOURNAL_LEN_MAX + 4096, "{len}");
            }
        }
        killed(journal);
        let next = next(&client, directory.path());
        assert_eq!(is_renaming(&next, "c/", "d/"), stays);
        assert!(open(&client).is_empty());
    }
}

/// A file of many open entries is not rewritten with each line.
#[test]
fn what_is_open_is_not_written_again_and_again() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::new(Some(directory.path()), "b");
    let (mut files, mut last) = (0, 0);
    for number in 0..500 {
        begun(
            &journal,
            &Upload {
                key: Key::parse(&"k".repeat(1000)).unwrap(),
                upload_id: number.to_string(),
            },
        );
        let path = path_of(&journal);
        let inode = std::fs::metadata(path).unwrap().ino();
        files += usize::from(std::mem::replace(&mut last, inode) != inode);
    }
    assert!((2..=5).contains(&files), "{files}");
}

/// A state directory that cannot be made stops no upload. Once it can be made, the file gets all
/// open entries.
#[test]
fn a_directory_that_cannot_be_made_is_tried_again() {
    let client = SimClient::new(SimOptions::default());
    let parent = tempfile::tempdir().unwrap();
    let in_the_way = parent.path().join("file");
    std::fs::write(&in_the_way, b"").unwrap();
    let directory = in_the_way.join("state");
    let journal = Journal::new(Some(&directory), "b");
    let [first, second, third] = ["first", "second", "third"].map(|key| begin(&client, key));
    begun(&journal, &first);
    begun(&journal, &second);
    journal.ended(&first);
    assert!(has_missed(&journal));
    std::fs::remove_file(&in_the_way).unwrap();
    begun(&journal, &third);
    killed(journal);
    assert_eq!(recovered(&client, &directory), 2);
    assert_eq!(open(&client), ["first"]);
}

fn origin(host: &str, machine: &str, boot: &str) -> Origin {
    Origin {
        host: host.to_owned(),
        machine: Some(machine.to_owned()),
        boot: Some(boot.to_owned()),
    }
}

/// The journal of a mount on a host, in a private or shared directory.
fn on_host(directory: &Path, here: Origin, is_local: bool) -> Journal {
    Journal::at(Some(JournalDirectory {
        directory: directory.to_owned(),
        bucket: "b".to_owned(),
        here,
        is_local: if is_local { |_| true } else { |_| false },
    }))
}

/// Locks are local: the other host's lock is free here although its mount lives.
#[test]
fn the_journal_of_another_host_is_left_alone() {
    let here = || origin("a", "m", "1");
    for (case, theirs, is_local, is_taken) in [
        ("this boot", here(), false, true),
        ("this boot", here(), true, true),
        ("an earlier boot", origin("a", "m", "0"), false, true),
        ("a container made anew", origin("b", "m", "1"), false, true),
        ("another host", origin("b", "n", "2"), false, false),
        ("another host", origin("b", "n", "2"), true, false),
        ("of the same image", origin("b", "m", "2"), false, false),
    ] {
        let client = SimClient::new(SimOptions::default());
        let directory = tempfile::tempdir().unwrap();
        let journal = on_host(directory.path(), theirs, is_local);
        begun(&journal, &begin(&client, "key"));
        renaming(&journal, "c/", "d/");
        let (path, before) = (path_of(&journal), std::fs::read(path_of(&journal)).unwrap());
        killed(journal);
        let next = on_host(directory.path(), here(), is_local);
        let aborted = now(next.recover(&client, NOW));
        assert_eq!(aborted, usize::from(is_taken), "{case}, local: {is_local}");
        assert_eq!(is_renaming(&next, "c/", "d/"), is_taken, "{case}");
        assert_eq!(path.exists(), !is_taken, "{case}");
        if !is_taken {
            assert_eq!(std::fs::read(&path).unwrap(), before, "{case}");
        }
    }
}

/// A host keeps separate locks for each mount of a shared file system.
#[test]
fn the_lock_of_another_mount_of_a_shared_file_system_says_nothing() {
    for (is_local, is_taken) in [(true, true), (false, false)] {
        let client = SimClient::new(SimOptions::default());
        let directory = tempfile::tempdir().unwrap();
        let here = origin("a", "m", "1");
        let journal = on_host(directory.path(), here.clone(), is_local);
        begun(&journal, &begin(&client, "key"));
        let path = path_of(&journal);
        killed(journal);
        let text = std::fs::read_to_string(&path).unwrap();
        let device = format!("\"device\":{}", std::fs::metadata(&path).unwrap().dev());
        assert!(text.contains(&device), "{text}");
        std::fs::write(&path, text.replace(&device, "\"device\":0")).unwrap();
        let next = on_host(directory.path(), here, is_local);
        assert_eq!(now(next.recover(&client, NOW)), usize::from(is_taken));
    }
}

/// Files of the earlier format name no host. Files of a later format cannot be understood.
#[test]
fn journals_of_other_formats() {
    let here = origin("a", "m", "1");
    let header = |version| {
        let header = Header {
            version,
            bucket: "b".to_owned(),
            origin: here.clone(),
            device: 0,
        };
        let mut line = Vec::new();
        Line::Journal(header).append_to(&mut line).unwrap();
        String::from_utf8(line).unwrap()
    };
    let before = || "{\"bucket\":\"b\"}\n".to_owned();
    for (case, first, is_local, is_taken) in [
        ("before, local", before(), true, true),
        ("before, shared", before(), false, false),
        ("this one", header(VERSION), true, true),
        ("a later one", header(VERSION + 1), true, false),
    ] {
        let client = SimClient::new(SimOptions::default());
        let directory = tempfile::tempdir().unwrap();
        let mut text = first.into_bytes();
        Line::begun(&begin(&client, "key"))
            .append_to(&mut text)
            .unwrap();
        let path = directory.path().join("uploads-1-0.journal");
        std::fs::write(&path, &text).unwrap();
        let next = on_host(directory.path(), here.clone(), is_local);
        let aborted = now(next.recover(&client, NOW));
        assert_eq!(aborted, usize::from(is_taken), "{case}");
        assert_eq!(path.exists(), !is_taken, "{case}");
    }
}

/// NFS grants an exclusive lock only on a file that is open for writing.
#[test]
fn the_lock_of_a_journal_is_taken_with_leave_to_write() {
    let client = SimClient::new(SimOptions::default());
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::new(Some(directory.path()), "b");
    begun(&journal, &begin(&client, "key"));
    let path = path_of(&journal);
    killed(journal);
    let place = JournalDirectory::new(directory.path(), "b");
    let Ok(JournalReport::Leftovers(left)) = JournalReport::at(&path, &place) else {
        panic!("the process of the journal has ended");
    };
    let flags = nix::fcntl::fcntl(&left.file, nix::fcntl::FcntlArg::F_GETFL).unwrap();
    assert_eq!(flags & libc::O_ACCMODE, libc::O_RDWR);
}

#[test]
fn what_somebody_put_in_place_of_a_journal_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let place = JournalDirectory::new(directory.path(), "b");
    let path = directory.path().join("uploads-x.journal");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let report = JournalReport::at(&path, &place);
    assert!(matches!(report, Ok(JournalReport::Nothing)));
}

/// Replaces the journal's file by a pipe that blocks until its reader reads.
fn make_slow(journal: &Journal, directory: &Path) -> File {
    let path = directory.join("slow");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let open = |flags| {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(flags);
        options.open(&path).unwrap()
    };
    let mut full = open(libc::O_NONBLOCK);
    while full.write(&[b'\n'; 4096]).is_ok() {}
    let mut file = journal.0.file.lock();
    (file.file, file.path) = (Some(open(0)), path);
    full
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    futures::executor::block_on(future)
}

/// A disk that hangs delays only the callers that need it. Their wait is bounded.
#[test]
fn a_slow_disk_stops_nothing_else() {
    let client = SimClient::new(SimOptions::default());
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::new(Some(directory.path()), "b");
    journal.start(|_| false).unwrap();
    let [first, second, third] = ["first", "second", "third"].map(|key| begin(&client, key));
    wait(journal.begun(&first));
    let first_path = path_of(&journal);
    let mut disk = make_slow(&journal, directory.path());
    let mut waits = Box::pin(journal.begun(&second));
    assert!((&mut waits).now_or_never().is_none());
    wait_until("the journal's thread", || journal.0.state.lock().is_taken());
    // These calls return while the thread writes.
    journal.ended(&first);
    assert!(now(journal.is_renaming("c/", "d/", Some(NOW), NOW)).is_none());
    let written = journal.0.state.lock().waiting().unwrap();
    // A line was written meanwhile: the callers go on waiting.
    journal.0.give_up(written + 1);
    assert!((&mut waits).now_or_never().is_none());
    journal.0.give_up(written);
    now(waits);
    // No caller waits behind a stuck write.
    now(journal.begun(&third));
    let mut lines = vec![0; 1 << 20];
    wait_until("the journal's thread", || {
        drop(disk.read(&mut lines));
        let state = journal.0.state.lock();
        !state.has_work() && !state.is_stuck
    });
    std::fs::remove_file(first_path).unwrap();
    // The file has no name by now: the next file gets all open entries.
    std::fs::remove_file(directory.path().join("slow")).unwrap();
    let fourth = begin(&client, "fourth");
    wait(journal.begun(&fourth));
    killed(journal);
    assert_eq!(recovered(&client, directory.path()), 3);
    assert_eq!(open(&client), ["first"]);
}

/// The queue for a slow disk is bounded.
#[test]
fn what_waits_for_a_slow_disk_is_bounded() {
    let client = SimClient::new(SimOptions::default());
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::new(Some(directory.path()), "b");
    journal.start(|_| false).unwrap();
    let stays = begin(&client, "stays");
    wait(journal.begun(&stays));
    let first_path = path_of(&journal);
    let mut disk = make_slow(&journal, directory.path());
    let upload = Upload {
        key: Key::parse(&"k".repeat(1000)).unwrap(),
        upload_id: "id".to_owned(),
    };
    for number in 0..1000 {
        assert!(journal.begun(&upload).now_or_never().is_none());
        if number == 0 {
            wait_until("the journal's thread", || journal.0.state.lock().is_taken());
        }
        journal.ended(&upload);
        let len = journal.0.state.lock().waiting_len();
        assert!(len <= JOURNAL_QUEUE_MAX, "{len}");
    }
    let mut lines = vec![0; 1 << 20];
    wait_until("the journal's thread", || {
        drop(disk.read(&mut lines));
        !journal.0.state.lock().has_work()
    });
    std::fs::remove_file(first_path).unwrap();
    killed(journal);
    assert_eq!(recovered(&client, directory.path()), 1);
}

/// The directory stays untouched while it is a part of the mount.
#[test]
fn a_directory_that_must_not_be_used_is_not_touched() {
    let client = SimClient::new(SimOptions::default());
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("state");
    let journal = Journal::new(Some(&directory), "b");
    let is_inside = Arc::new(AtomicBool::new(true));
    let is_unusable = Arc::clone(&is_inside);
    journal
        .start(move |_| is_unusable.load(Ordering::Acquire))
        .unwrap();
    assert_eq!(wait(journal.recover(&client, NOW)), 0);
    wait(journal.begun(&begin(&client, "first")));
    assert!(!directory.exists());
    is_inside.store(false, Ordering::Release);
    wait(journal.begun(&begin(&client, "second")));
    killed(journal);
    assert_eq!(recovered(&client, &directory), 2);
}
