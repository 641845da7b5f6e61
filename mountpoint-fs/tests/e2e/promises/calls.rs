//! Calls of one process on one file.

use super::{Mode, Promised};

/// What the calls print, and the bytes of an object afterwards.
type Outcome<'a> = (&'a str, &'a str, Option<&'a str>);

/// Runs `script` in each mode. The outcomes are those without `--staging`, with it, and with
/// `--write-back`.
#[track_caller]
fn check(row: &str, script: &str, outcomes: [Outcome<'_>; 3]) {
    for (mode, (printed, key, bytes)) in Mode::ALL.into_iter().zip(outcomes) {
        let mount = Promised::new(mode);
        let output = mount.process(script).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let said = said.trim_end().replace('\n', ", ");
        assert!(output.status.success(), "{mode:?}: {row}: {said}");
        assert_eq!(said, printed, "{mode:?}: {row}");
        mount.check(row, key, bytes);
    }
}

/// As [`check`], where the modes promise the same.
#[track_caller]
fn check_all(row: &str, script: &str, outcome: Outcome<'_>) {
    check(row, script, [outcome; 3]);
}

/// As [`check`], where bytes that were sent, or will be, cannot change without `--staging`.
#[track_caller]
fn check_staged(row: &str, script: &str, streaming: Outcome<'_>, staged: Outcome<'_>) {
    check(row, script, [streaming, staged, staged]);
}

#[test]
fn writes_at_the_end_and_behind_it_work_in_all_modes() {
    check_all(
        "write in order",
        "fd = new(); say('write', os.write, fd, b'abc'); say('close', os.close, fd)",
        ("write 3, close 0", "new", Some("abc")),
    );
    check_all(
        "write behind the end",
        "fd = new(); os.write(fd, b'abc'); say('write', os.pwrite, fd, b'X', 5); say('close', os.close, fd)",
        ("write 1, close 0", "new", Some("abc\0\0X")),
    );
    check_all(
        "make the file longer",
        "fd = new(); os.write(fd, b'abc'); say('truncate', os.ftruncate, fd, 5); say('close', os.close, fd)",
        ("truncate 0, close 0", "new", Some("abc\0\0")),
    );
}

#[test]
fn written_bytes_change_only_where_the_disk_has_them() {
    check_staged(
        "write again what was written",
        "fd = new(); os.write(fd, b'abc'); say('write', os.pwrite, fd, b'X', 0); say('close', os.close, fd)",
        ("write EINVAL, close EINVAL", "new", None),
        ("write 1, close 0", "new", Some("Xbc")),
    );
    check_staged(
        "make the file shorter",
        "fd = new(); os.write(fd, b'abc'); say('truncate', os.ftruncate, fd, 1); say('close', os.close, fd)",
        ("truncate EPERM, close 0", "new", Some("abc")),
        ("truncate 0, close 0", "new", Some("a")),
    );
    check_staged(
        "map the file for writing, in a child",
        "fd = new(); os.write(fd, b'abc')\n\
         child = os.fork()\n\
         if child == 0:\n    with mmap.mmap(fd, 3) as it: it[0:1] = b'X'\n    os._exit(0)\n\
         say('child', lambda: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])); say('close', os.close, fd)",
        ("child -7, close 0", "new", Some("abc")),
        ("child 0, close 0", "new", Some("Xbc")),
    );
}

#[test]
fn a_process_reads_what_it_writes_in_all_modes() {
    check_all(
        "read through the descriptor",
        "fd = new(); os.write(fd, b'abc'); say('read', os.pread, fd, 2, 1); say('close', os.close, fd)",
        ("read bc, close 0", "new", Some("abc")),
    );
    check_all(
        "read through a second descriptor",
        "fd = new(); os.write(fd, b'abc'); say('read', open('new').read); say('close', os.close, fd)",
        ("read abc, close 0", "new", Some("abc")),
    );
}

#[test]
fn other_processes_wait_for_the_close_without_staging() {
    check_staged(
        "another process reads",
        "fd = new(); os.write(fd, b'abc'); say('other', other, \"print(open('new').read())\"); say('close', os.close, fd)",
        ("other PermissionError, close 0", "new", Some("abc")),
        ("other abc, close 0", "new", Some("abc")),
    );
    check_staged(
        "another process writes",
        "fd = new(); os.write(fd, b'abc'); say('other', other, \"print(open('new', 'r+').write('X'))\"); \
         say('close', os.close, fd)",
        ("other PermissionError, close 0", "new", Some("abc")),
        ("other 1, close 0", "new", Some("Xbc")),
    );
}

#[test]
fn names_of_written_files_change_with_staging() {
    check_all(
        "rename",
        "fd = new(); os.write(fd, b'abc'); say('rename', os.rename, 'new', 'other'); say('close', os.close, fd)",
        ("rename 0, close 0", "other", Some("abc")),
    );
    check_staged(
        "unlink",
        "fd = new(); os.write(fd, b'abc'); say('unlink', os.unlink, 'new'); say('close', os.close, fd)",
        ("unlink EPERM, close 0", "new", Some("abc")),
        ("unlink 0, close 0", "new", None),
    );
    check_all(
        "rename behind the close",
        "fd = new(); os.write(fd, b'abc'); os.close(fd); say('rename', os.rename, 'new', 'other')",
        ("rename 0", "other", Some("abc")),
    );
    check_all(
        "unlink behind the close",
        "fd = new(); os.write(fd, b'abc'); os.close(fd); say('unlink', os.unlink, 'new')",
        ("unlink 0", "new", None),
    );
}

#[test]
fn each_close_and_sync_keeps_what_was_written_before() {
    check_all(
        "the close of a duplicate, and a write behind it",
        "fd = new(); os.write(fd, b'abc'); say('close', os.close, os.dup(fd)); say('write', os.write, fd, b'd'); \
         say('close', os.close, fd)",
        ("close 0, write 1, close 0", "new", Some("abcd")),
    );
    check_all(
        "fsync, and a write behind it",
        "fd = new(); os.write(fd, b'abc'); say('fsync', os.fsync, fd); say('write', os.write, fd, b'd'); \
         say('close', os.close, fd)",
        ("fsync 0, write 1, close 0", "new", Some("abcd")),
    );
    check_all(
        "the end of a child that has inherited the file",
        "fd = new(); os.write(fd, b'abc')\n\
         child = os.fork()\n\
         if child == 0: os._exit(0)\n\
         say('child', lambda: os.waitpid(child, 0)[1]); say('write', os.write, fd, b'd'); say('close', os.close, fd)",
        ("child 0, write 1, close 0", "new", Some("abcd")),
    );
    check_all(
        "the end of a process that does not close",
        "fd = new(); say('write', os.write, fd, b'abc'); sys.stdout.flush(); os._exit(0)",
        ("write 3", "new", Some("abc")),
    );
}

#[test]
fn an_existing_file_is_changed_in_place_with_staging() {
    check_staged(
        "write in the middle",
        "fd = os.open('old', os.O_RDWR); say('write', os.pwrite, fd, b'X', 3); say('close', os.close, fd)",
        ("write EINVAL, close EINVAL", "old", Some("0123456789")),
        ("write 1, close 0", "old", Some("012X456789")),
    );
    check_all(
        "append",
        "fd = os.open('old', os.O_WRONLY | os.O_APPEND); say('write', os.write, fd, b'X'); say('close', os.close, fd)",
        ("write 1, close 0", "old", Some("0123456789X")),
    );
    check_all(
        "replace",
        "fd = os.open('old', os.O_WRONLY | os.O_TRUNC); say('write', os.write, fd, b'X'); say('close', os.close, fd)",
        ("write 1, close 0", "old", Some("X")),
    );
    check_all(
        "close without a change",
        "fd = os.open('old', os.O_RDWR); say('read', os.read, fd, 3); say('close', os.close, fd)",
        ("read 012, close 0", "old", Some("0123456789")),
    );
    check_staged(
        "O_SYNC",
        "say('open', lambda: os.close(new(os.O_SYNC)))",
        ("open EINVAL", "new", None),
        ("open 0", "new", Some("")),
    );
}
