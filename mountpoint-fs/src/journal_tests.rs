//! The journal as killed processes, full disks and vanished directories leave it.

use futures::FutureExt as _;
use mountpoint_client::SimClient;
use mountpoint_client::sim::SimOptions;
use mountpoint_client::types::ObjectHeaders;

use super::*;

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
    let recover = |bucket| journal(bucket).recover(&client).now_or_never().unwrap();
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
        journal.recover(&client).now_or_never().unwrap()
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
    let recovered = journal.recover(client).now_or_never().unwrap();
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
    let fails = |fails: bool| {
        let file = OpenOptions::new().read(true).append(!fails).open(&path);
        journal.state.lock().file = Some(file.unwrap());
    };
    let mut torn = OpenOptions::new().append(true).open(&path).unwrap();
    torn.write_all(b"{\"begun\":{\"ke").unwrap();
    fails(true);
    journal.begun(&second);
    journal.ended(&first);
    assert!(journal.state.lock().has_missed);
    fails(false);
    journal.begun(&third);
    assert!(!journal.state.lock().has_missed);
    killed(journal);
    assert_eq!(recovered(&client, directory.path()), 3);
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
    let journal = || Journal::new(Some(directory.path()), "b");
    let first = journal();
    for (from, to) in [("a/", "b/"), ("c/", "d/"), ("c/", "d/")] {
        first.renaming(from, to);
    }
    assert!(first.is_renaming("c/", "d/") && !first.is_renaming("c/", "b/"));
    first.renamed("a/", "b/");
    // Neither that process nor the next one comes to the end of it.
    killed(first);
    for _ in 0..2 {
        let next = journal();
        assert_eq!(next.recover(&client).now_or_never().unwrap(), 0);
        assert!(next.is_renaming("c/", "d/") && !next.is_renaming("a/", "b/"));
        killed(next);
    }
    let last = journal();
    last.recover(&client).now_or_never().unwrap();
    last.renamed("c/", "d/");
    drop(last);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    // Without a directory it is known as long as the process lives.
    let journal = Journal::new(None, "b");
    for number in 0..=RENAMES_REMEMBERED_MAX {
        journal.renaming(&format!("{number}/"), "to/");
    }
    assert!(journal.is_renaming("1/", "to/") && !journal.is_renaming("0/", "to/"));
}

/// One whose process ended before it had written its first line.
#[test]
fn a_file_without_a_word_is_removed() {
    let client = SimClient::new(SimOptions::default());
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("uploads-1-0.journal"), b"").unwrap();
    assert_eq!(recovered(&client, directory.path()), 0);
}

#[test]
fn the_file_does_not_grow_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::new(Some(directory.path()), "b");
    let upload = Upload {
        key: Key::parse(&"k".repeat(1000)).unwrap(),
        upload_id: "id".to_owned(),
    };
    for _ in 0..200 {
        journal.begun(&upload);
        journal.ended(&upload);
        let len = std::fs::metadata(&journal.state.lock().path).unwrap().len();
        assert!(len <= JOURNAL_LEN_MAX + 4096, "{len}");
    }
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
