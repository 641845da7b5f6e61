//! The journal as killed processes, full disks and vanished directories leave it.

use std::time::Duration;

use futures::FutureExt as _;
use mountpoint_client::SimClient;
use mountpoint_client::sim::SimOptions;
use mountpoint_client::types::ObjectHeaders;

use super::*;

const NOW: SystemTime = UNIX_EPOCH;

fn renaming(journal: &Journal, from: &str, to: &str) {
    journal.renaming(from, to, NOW, NOW);
}

fn is_renaming(journal: &Journal, from: &str, to: &str) -> bool {
    journal.is_renaming(from, to, Some(NOW), NOW)
}

/// The journal of the next mount.
fn next(client: &SimClient, directory: &Path) -> Journal {
    let next = Journal::new(Some(directory), "b");
    next.recover(client, NOW).now_or_never().unwrap();
    next
}

/// Has the file take no more, as a full disk does.
fn fill(journal: &Journal) {
    let mut state = journal.state.lock();
    let file = OpenOptions::new().read(true).open(&state.path);
    state.file = Some(file.unwrap());
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

/// What a killed process leaves: its files, without its locks.
fn killed(journal: Journal) {
    let mut state = std::mem::take(&mut *journal.state.lock());
    // Not removed, as by a process that ends well.
    state.file = None;
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
    of_killed.begun(&first);
    of_killed.begun(&second);
    client.abort_upload(&first).now_or_never().unwrap().unwrap();
    of_killed.ended(&first);
    living.begun(&third);
    of_other.begun(&other);
    killed(of_killed);
    killed(of_other);
    assert_eq!(recover("b"), 1);
    assert_eq!(open(&client), ["of another client", "other", "third"]);
    assert_eq!(recover("b"), 0);
    assert_eq!(recover("c"), 1);
    // A process that ends well leaves no file.
    living.ended(&third);
    drop(living);
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0);
}

#[test]
fn a_line_that_was_cut_off_does_no_harm_and_an_abort_that_fails_is_tried_again() {
    let client = SimClient::new(SimOptions::default());
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::new(Some(directory.path()), "b");
    journal.begun(&begin(&client, "key"));
    let path = journal.state.lock().path.clone();
    killed(journal);
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(b"{\"begun\":{\"key\":\"half").unwrap();
    drop(file);
    let recover = || {
        let journal = Journal::new(Some(directory.path()), "b");
        journal.recover(&client, NOW).now_or_never().unwrap()
    };
    client.fail_next(
        mountpoint_client::sim::Operation::AbortMultipartUpload,
        1,
        ErrorKind::Transient,
    );
    assert_eq!(recover(), 0);
    assert_eq!((recover(), open(&client).len()), (1, 0));
}

/// The uploads that the next mount aborts.
fn recovered(client: &SimClient, directory: &Path) -> usize {
    let journal = Journal::new(Some(directory), "b");
    let recovered = journal.recover(client, NOW).now_or_never().unwrap();
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
    recovered
}

/// As a disk leaves it that was full for a while, or a loss of power.
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
        journal.begun(&begin(&client, "first"));
        let file = || {
            OpenOptions::new()
                .append(true)
                .open(&journal.state.lock().path)
        };
        file().unwrap().write_all(rubbish).unwrap();
        journal.begun(&begin(&client, "second"));
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
    journal.begun(&first);
    let path = journal.state.lock().path.clone();
    // As a full disk does: part of a line, and then nothing.
    let mut torn = OpenOptions::new().append(true).open(&path).unwrap();
    torn.write_all(b"{\"begun\":{\"ke").unwrap();
    fill(&journal);
    journal.begun(&second);
    assert!(journal.state.lock().has_missed);
    journal.ended(&first);
    assert!(!journal.state.lock().has_missed);
    journal.begun(&third);
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
    journal.begun(&first);
    journal.begun(&second);
    std::fs::remove_dir_all(&directory).unwrap();
    journal.ended(&first);
    journal.begun(&third);
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
    first.renamed("a/", "b/");
    // Neither that process nor the next one comes to the end of it.
    killed(first);
    for _ in 0..2 {
        let next = next(&client, directory.path());
        assert!(is_renaming(&next, "c/", "d/") && !is_renaming(&next, "a/", "b/"));
        killed(next);
    }
    let last = next(&client, directory.path());
    last.renamed("c/", "d/");
    drop(last);
    assert!(files_in(directory.path()).is_empty());
    // Without a directory it is known as long as the process lives.
    let journal = Journal::new(None, "b");
    renaming(&journal, "c/", "d/");
    assert!(is_renaming(&journal, "c/", "d/"));
}

#[test]
fn a_rename_is_begun_only_for_what_was_there_when_it_began() {
    let second = Duration::from_secs(1);
    type Between = fn(&Journal);
    let cases: [(&str, bool, Between); 13] = [
        ("nothing", true, |_| {}),
        ("another rename", true, |it| {
            assert!(!is_renaming(it, "x/", "y/"));
        }),
        ("mkdir in it", true, |it| it.forget_renames_of("p/c/x/")),
        ("mkdir of a similar name", true, |it| {
            it.forget_renames_of("p/c-/");
        }),
        ("mkdir or rmdir of the old one", false, |it| {
            it.forget_renames_of("p/c/");
        }),
        ("mkdir or rmdir of the new one", false, |it| {
            it.forget_renames_of("p/d/");
        }),
        ("mkdir or rmdir above", false, |it| {
            it.forget_renames_of("p/");
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
            it.forget_renames_from_above("p/c/x");
        }),
        ("nothing is left", false, |it| {
            assert!(!it.is_renaming("p/c/", "p/d/", None, NOW));
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
    let times = [
        ("as it was", NOW, NOW + RENAME_REMEMBERED, true),
        ("a newer object", NOW + second, NOW, false),
        ("too late", NOW, NOW + RENAME_REMEMBERED + second, false),
        ("a clock that was set back", NOW, NOW - second, false),
    ];
    for (case, newest, now, is_begun) in times {
        let client = SimClient::new(SimOptions::default());
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::new(Some(directory.path()), "b");
        let begun = NOW + 2 * second;
        journal.renaming("c/", "d/", NOW, begun);
        killed(journal);
        let (next, now) = (Journal::new(Some(directory.path()), "b"), now + 2 * second);
        next.recover(&client, now).now_or_never().unwrap();
        for _ in 0..2 {
            let found = next.is_renaming("c/", "d/", Some(newest), now);
            assert_eq!(found, is_begun, "{case}");
        }
    }
}

/// The disk is full when a rename ends, and the process is killed some time afterwards.
#[test]
fn a_rename_whose_end_could_not_be_written_is_not_begun() {
    let client = SimClient::new(SimOptions::default());
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::new(Some(directory.path()), "b");
    renaming(&journal, "c/", "d/");
    fill(&journal);
    journal.renamed("c/", "d/");
    assert!(journal.state.lock().has_missed);
    journal.begun(&begin(&client, "key"));
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
    journal.begun(&begin(&client, "key"));
    renaming(&journal, "c/", "d/");
    killed(journal);
    let abort = mountpoint_client::sim::Operation::AbortMultipartUpload;
    client.fail_next(abort, 1, ErrorKind::Denied);
    let second = next(&client, directory.path());
    assert!(is_renaming(&second, "c/", "d/"));
    second.renamed("c/", "d/");
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
    // There is room for it again.
    journal.renamed("1/", "to-1/");
    killed(journal);
    let next = next(&client, directory.path());
    assert!(!is_renaming(&next, "0/", "to-0/") && is_renaming(&next, "2/", "to-2/"));
}

/// Nobody knows in which bucket they are.
#[test]
fn uploads_in_a_file_that_names_no_bucket_are_left_alone() {
    let client = SimClient::new(SimOptions::default());
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::new(Some(directory.path()), "b");
    journal.begun(&begin(&client, "key"));
    renaming(&journal, "c/", "d/");
    let path = journal.state.lock().path.clone();
    killed(journal);
    let text = std::fs::read_to_string(&path).unwrap();
    let (bucket, rest) = text.split_once('\n').unwrap();
    assert_eq!(bucket, "{\"bucket\":\"b\"}");
    std::fs::write(&path, rest).unwrap();
    let next = next(&client, directory.path());
    assert!(!is_renaming(&next, "c/", "d/"));
    assert_eq!(open(&client), ["key"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), rest);
}

/// One whose process ended before it had written its first line.
#[test]
fn a_file_without_a_word_is_removed() {
    let client = SimClient::new(SimOptions::default());
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("uploads-1-0.journal"), b"").unwrap();
    assert_eq!(recovered(&client, directory.path()), 0);
}

/// Not even with a rename that stopped, or an upload that could not be aborted.
#[test]
fn the_file_does_not_grow_for_ever() {
    for stays in [false, true] {
        let client = SimClient::new(SimOptions::default());
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::new(Some(directory.path()), "b");
        if stays {
            renaming(&journal, "c/", "d/");
            journal.begun(&begin(&client, "stays"));
        }
        let upload = Upload {
            key: Key::parse(&"k".repeat(1000)).unwrap(),
            upload_id: "id".to_owned(),
        };
        for _ in 0..200 {
            journal.begun(&upload);
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

/// One that is long because much is open is not written anew with each line.
#[test]
fn what_is_open_is_not_written_again_and_again() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::new(Some(directory.path()), "b");
    let (mut files, mut last) = (0, 0);
    for number in 0..500 {
        journal.begun(&Upload {
            key: Key::parse(&"k".repeat(1000)).unwrap(),
            upload_id: number.to_string(),
        });
        let path = journal.state.lock().path.clone();
        let inode = std::fs::metadata(path).unwrap().ino();
        files += usize::from(std::mem::replace(&mut last, inode) != inode);
    }
    assert!((2..=5).contains(&files), "{files}");
}

/// A state directory that cannot be made stops nothing, and is told everything when it can.
#[test]
fn a_directory_that_cannot_be_made_is_tried_again() {
    let client = SimClient::new(SimOptions::default());
    let parent = tempfile::tempdir().unwrap();
    let in_the_way = parent.path().join("file");
    std::fs::write(&in_the_way, b"").unwrap();
    let directory = in_the_way.join("state");
    let journal = Journal::new(Some(&directory), "b");
    let [first, second, third] = ["first", "second", "third"].map(|key| begin(&client, key));
    journal.begun(&first);
    journal.begun(&second);
    journal.ended(&first);
    assert!(journal.state.lock().has_missed);
    std::fs::remove_file(&in_the_way).unwrap();
    journal.begun(&third);
    killed(journal);
    assert_eq!(recovered(&client, &directory), 2);
    assert_eq!(open(&client), ["first"]);
}
