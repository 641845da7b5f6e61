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
fn written_bytes_change_in_all_modes() {
    check_all(
        "write again what was written",
        "fd = new(); os.write(fd, b'abc'); say('write', os.pwrite, fd, b'X', 0); say('close', os.close, fd)",
        ("write 1, close 0", "new", Some("Xbc")),
    );
    check_all(
        "make the file shorter",
        "fd = new(); os.write(fd, b'abc'); say('truncate', os.ftruncate, fd, 1); say('close', os.close, fd)",
        ("truncate 0, close 0", "new", Some("a")),
    );
    check_all(
        "map the file for writing, in a child",
        "fd = new(); os.write(fd, b'abc')\n\
         child = os.fork()\n\
         if child == 0:\n    with mmap.mmap(fd, 3) as it: it[0:1] = b'X'\n    os._exit(0)\n\
         say('child', lambda: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])); say('close', os.close, fd)",
        ("child 0, close 0", "new", Some("Xbc")),
    );
    check_all(
        "make the file longer and shorter by its path",
        "say('longer', os.truncate, 'old', 12); say('shorter', os.truncate, 'old', 11)",
        ("longer 0, shorter 0", "old", Some("0123456789\0")),
    );
    check_all(
        "take zeros within the file",
        "fd = new(); os.write(fd, b'abcd')\n\
         import ctypes; libc = ctypes.CDLL(None)\n\
         say('fallocate', lambda: libc.fallocate(fd, 3, ctypes.c_long(1), ctypes.c_long(2))); say('close', os.close, fd)",
        ("fallocate 0, close 0", "new", Some("a\0\0d")),
    );
}

#[test]
fn a_file_that_is_only_written_is_written_in_any_order() {
    check_all(
        "write again what was written",
        "fd = only(); os.write(fd, b'abc'); say('write', os.pwrite, fd, b'X', 0); say('close', os.close, fd)",
        ("write 1, close 0", "new", Some("Xbc")),
    );
    check_all(
        "make the file shorter",
        "fd = only(); os.write(fd, b'abc'); say('truncate', os.ftruncate, fd, 1); say('close', os.close, fd)",
        ("truncate 0, close 0", "new", Some("a")),
    );
    check_all(
        "another process reads",
        "fd = only(); os.write(fd, b'abc'); say('other', other, \"print(open('new').read())\"); say('close', os.close, fd)",
        ("other abc, close 0", "new", Some("abc")),
    );
    check_all(
        "another process writes",
        "fd = only(); os.write(fd, b'abc'); say('other', other, \"print(open('new', 'r+').write('X'))\"); \
         say('close', os.close, fd)",
        ("other 1, close 0", "new", Some("Xbc")),
    );
    check_all(
        "another process renames",
        "fd = only(); os.write(fd, b'abc'); say('other', other, \"os.rename('new', 'other')\"); say('close', os.close, fd)",
        ("other , close 0", "other", Some("abc")),
    );
    check_all(
        "unlink",
        "fd = only(); os.write(fd, b'abc'); say('unlink', os.unlink, 'new'); say('close', os.close, fd)",
        ("unlink 0, close 0", "new", None),
    );
    check_all(
        "write below the end of a replaced file",
        "fd = os.open('old', os.O_WRONLY | os.O_TRUNC); os.write(fd, b'abc'); say('write', os.pwrite, fd, b'X', 0); \
         say('close', os.close, fd)",
        ("write 1, close 0", "old", Some("Xbc")),
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
fn other_processes_read_and_write_what_is_written() {
    check_all(
        "another process reads",
        "fd = new(); os.write(fd, b'abc'); say('other', other, \"print(open('new').read())\"); say('close', os.close, fd)",
        ("other abc, close 0", "new", Some("abc")),
    );
    check_all(
        "another process writes",
        "fd = new(); os.write(fd, b'abc'); say('other', other, \"print(open('new', 'r+').write('X'))\"); \
         say('close', os.close, fd)",
        ("other 1, close 0", "new", Some("Xbc")),
    );
}

#[test]
fn names_of_written_files_change_in_all_modes() {
    check_all(
        "rename",
        "fd = new(); os.write(fd, b'abc'); say('rename', os.rename, 'new', 'other'); say('close', os.close, fd)",
        ("rename 0, close 0", "other", Some("abc")),
    );
    check_all(
        "rename by another process, and a write behind it",
        "fd = new(); os.write(fd, b'abc'); say('other', other, \"os.rename('new', 'other')\"); say('write', os.write, fd, b'd'); \
         say('close', os.close, fd)",
        ("other , write 1, close 0", "other", Some("abcd")),
    );
    check_all(
        "unlink",
        "fd = new(); os.write(fd, b'abc'); say('unlink', os.unlink, 'new'); say('close', os.close, fd)",
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
fn an_existing_file_is_changed_in_place_in_all_modes() {
    for flags in ["os.O_RDWR", "os.O_WRONLY"] {
        check_all(
            "write in the middle",
            &format!(
                "fd = os.open('old', {flags}); say('write', os.pwrite, fd, b'X', 3); say('close', os.close, fd)"
            ),
            ("write 1, close 0", "old", Some("012X456789")),
        );
    }
    check_all(
        "a change of a mapping",
        "fd = os.open('old', os.O_RDWR)\n\
         with mmap.mmap(fd, 10) as it: it[3:5] = b'XY'; say('msync', it.flush)\n\
         say('close', os.close, fd)",
        ("msync 0, close 0", "old", Some("012XY56789")),
    );
    check_all(
        "cut and written again",
        "fd = os.open('old', os.O_RDWR); say('truncate', os.ftruncate, fd, 4); say('write', os.pwrite, fd, b'X', 6); \
         say('read', os.pread, fd, 4, 0); say('close', os.close, fd)",
        (
            "truncate 0, write 1, read 0123, close 0",
            "old",
            Some("0123\0\0X"),
        ),
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
    check_all(
        "O_SYNC",
        "fd = new(os.O_SYNC); say('write', os.write, fd, b'abc'); say('write', os.pwrite, fd, b'X', 1); sys.stdout.flush(); os._exit(0)",
        ("write 3, write 1", "new", Some("aXc")),
    );
    check_all(
        "O_SYNC of a file that is only written",
        "say('open', lambda: os.close(only(os.O_SYNC)))",
        ("open 0", "new", Some("")),
    );
}
