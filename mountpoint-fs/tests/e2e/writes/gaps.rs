//! Sparse files, and lengths that are set before the bytes. Programs here and on the local disk.

use crate::harness::{BUCKET, Mounted, put, server, shell};

/// Programs that each write a file. `$1` is `cp`'s source, of 30 MiB with holes at both ends and in
/// the middle.
const WRITERS: [&str; 12] = [
    "cp $1 f",
    "cp --sparse=always $1 f",
    "tar -C $(dirname $1) -cSf - source | tar -xSf - && mv source f",
    "dd if=$1 of=f bs=1M seek=7 status=none",
    "dd if=$1 of=f bs=64k seek=3 count=1 conv=notrunc status=none",
    "truncate -s 6000001 f",
    "fallocate -l 6000001 f",
    "python3 -c \"f = open('f', 'wb'); f.truncate(20000000); f.write(b'a' * 9000000); f.flush(); f.seek(12345678); f.write(b'b')\"",
    "python3 -c \"import os; f = os.open('f', os.O_RDWR | os.O_CREAT); os.posix_fallocate(f, 0, 10000); os.write(f, b'abc')\"",
    "python3 -c \"import os; f = os.open('f', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 1000); os.ftruncate(f, 10)\"",
    "python3 -c \"import os; f = os.open('f', os.O_WRONLY | os.O_CREAT); os.pwrite(f, b'abc', 4097)\"",
    "(printf abc; dd bs=1 seek=10 count=0 status=none; printf def) > f",
];

#[test]
fn holes_are_filled_as_on_the_local_disk() {
    let (origin, local) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = origin.path().join("source");
    shell(
        origin.path(),
        "truncate -s 30M source
         dd if=/dev/urandom of=source bs=1M seek=2 count=7 conv=notrunc status=none
         dd if=/dev/urandom of=source bs=1000 seek=15000 count=1001 conv=notrunc status=none",
    );
    for writer in WRITERS {
        let server = server();
        // The only existing file is empty, so it may be opened for reading and writing.
        let is_both = writer.contains("O_RDWR");
        let flags = ["--allow-overwrite", "--allow-rename", "--posix-metadata"];
        let mounted = Mounted::new(&server, &flags);
        if is_both {
            put(&server, "f", "");
        }
        for directory in [local.path(), mounted.path()] {
            let source = source.display();
            shell(directory, &format!("set -- {source}; {writer}; test -s f"));
        }
        shell(
            mounted.path(),
            &format!("cmp f {}/f", local.path().display()),
        );
        let keys = server.store().keys(BUCKET);
        assert_eq!(keys, ["f"], "{writer}");
        shell(local.path(), "rm f");
    }
}

#[test]
fn the_length_that_was_set_is_shown_while_the_file_is_written() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    shell(
        mounted.path(),
        "exec 3> f
         python3 -c 'import os; os.ftruncate(3, 70000); os.write(3, b\"abc\"); assert os.fstat(3).st_size == 70000'
         test $(stat -c %s f) = 70000; exec 3>&-; test $(stat -c %s f) = 70000",
    );
    let object = server.store().object(BUCKET, "f").unwrap();
    assert_eq!(&object.bytes()[..4], b"abc\0");
    assert_eq!(object.bytes().len(), 70_000);
    // The log mentions a cost without being asked.
    let is_told = || mounted.log().contains("filled with zeros");
    assert!(!is_told(), "{}", mounted.log());
    shell(mounted.path(), "truncate -s 70M g");
    assert!(is_told(), "{}", mounted.log());
}
