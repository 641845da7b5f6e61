//! Files that are written: content, requests, errors.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::FileExt as _;
use std::process::Command;

use mountpoint_client::testing::server::{
    Fault, Operation, PartSizes, Rule, Server, ServerOptions,
};

use crate::harness::{
    BUCKET, Mounted, create_to_write, put, run, server, shell, store_the_first, wait_until,
};
use crate::servers::Program;

const MIB: usize = 1 << 20;

/// Content that repeats at no part's length.
fn pattern(len: usize) -> Vec<u8> {
    let byte = |at: usize| u8::try_from((at % 251) ^ ((at >> 16) & 0xff)).unwrap();
    (0..len).map(byte).collect()
}

#[track_caller]
fn check_stored(server: &Server, key: &str, content: &[u8]) {
    let object = server.store().object(BUCKET, key);
    let object = object.unwrap_or_else(|| panic!("the store has no {key}"));
    assert!(object.bytes() == content, "{key} has other bytes");
}

fn create(mounted: &Mounted, name: &str) -> File {
    create_to_write(mounted.join(name)).unwrap()
}

/// Counts of PutObject, CreateMultipartUpload, UploadPart, CompleteMultipartUpload and
/// AbortMultipartUpload.
fn uploads(server: &Server) -> [u64; 5] {
    [
        Operation::PutObject,
        Operation::CreateMultipartUpload,
        Operation::UploadPart,
        Operation::CompleteMultipartUpload,
        Operation::AbortMultipartUpload,
    ]
    .map(|operation| server.log().count(operation))
}

#[test]
fn a_small_file_is_one_request_after_its_look_up() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    store_the_first(&server, &mounted);
    // The first file without a lookup is sent once more, to prove that the server honours its
    // condition.
    let (mut files, mut puts) = (0, 0);
    for len in [0, 1, 4096, 100_000, 5 * MIB] {
        let name = format!("file-{len}");
        let content = pattern(len);
        server.log().clear();
        std::fs::write(mounted.join(&name), &content).unwrap();
        assert_eq!(std::fs::read(mounted.join(&name)).unwrap(), content);
        let [put, of_parts @ ..] = uploads(&server);
        (files, puts) = (files + 1, puts + put);
        assert_eq!(of_parts, [0; 4], "{len}");
        check_stored(&server, &name, &content);
    }
    let fresh = mounted.join("fresh");
    std::fs::create_dir(&fresh).unwrap();
    for name in ["a", "b", "c"] {
        server.log().clear();
        std::fs::write(fresh.join(name), pattern(4096)).unwrap();
        let [put, of_parts @ ..] = uploads(&server);
        (files, puts) = (files + 1, puts + put);
        assert_eq!(of_parts, [0; 4]);
        let lists = server.log().count_all() - put;
        assert!(lists <= 1, "{lists} before it is stored");
    }
    server.log().clear();
    shell(
        mounted.path(),
        "echo hello > by-a-shell; test $(cat by-a-shell) = hello",
    );
    let [put, of_parts @ ..] = uploads(&server);
    (files, puts) = (files + 1, puts + put);
    assert_eq!(of_parts, [0; 4]);
    assert!((files..=files + 1).contains(&puts), "{puts} for {files}");
}

#[test]
fn a_large_file_goes_out_in_parts_while_it_is_written() {
    let server = server();
    let mounted = Mounted::new(&server, &["--upload-checksums", "crc64nvme"]);
    store_the_first(&server, &mounted);
    // Writes whose ends do and do not match those of parts, and a file of whole parts.
    for (len, write) in [(27 * MIB + 5, 1_000_003), (16 * MIB, MIB), (20 * MIB, 5000)] {
        let name = format!("file-{len}");
        let content = pattern(len);
        server.log().clear();
        let mut file = create(&mounted, &name);
        for piece in content.chunks(write) {
            file.write_all(piece).unwrap();
        }
        // The part is sent in the background: on a busy machine the server may not have received it
        // yet.
        wait_until("the upload", || {
            server.log().count(Operation::CreateMultipartUpload) == 1
        });
        assert!(
            server.store().object(BUCKET, &name).is_none(),
            "it appears as a whole"
        );
        drop(file);
        check_stored(&server, &name, &content);
        let parts = u64::try_from(len.div_ceil(8 * MIB)).unwrap();
        assert_eq!(uploads(&server), [0, 1, parts, 1, 0], "{len}");
        let object = server.store().object(BUCKET, &name).unwrap();
        assert_eq!(object.checksum().unwrap().0, "CRC64NVME");
    }
    assert!(server.store().uploads(BUCKET).is_empty());
}

#[test]
fn tools_write_what_they_read() {
    let server = server();
    write_with_tools(&Mounted::new(&server, FLAGS));
}

#[test]
fn tools_write_to_minio() {
    write_with_tools(&mounted_on(&Program::minio()));
}

#[test]
fn tools_write_to_versitygw() {
    write_with_tools(&mounted_on(&Program::versitygw()));
}

const FLAGS: &[&str] = &["--allow-overwrite", "--allow-append"];

fn mounted_on(server: &Program) -> Mounted {
    Mounted::on(server, FLAGS)
}

fn write_with_tools(mounted: &Mounted) {
    let local = tempfile::tempdir().unwrap();
    std::fs::write(local.path().join("source"), pattern(12 * MIB)).unwrap();
    let script = format!(
        "cp {local}/source copied
         cat {local}/source > redirected
         dd if={local}/source of=by-dd bs=64k oflag=direct conv=fsync status=none
         (head -c 1000 {local}/source; tail -c +1001 {local}/source) > by-children
         python3 -c \"
with open('{local}/source', 'rb') as source, open('by-python', 'wb') as to:
    while piece := source.read(300001): to.write(piece)
\"
         for file in copied redirected by-dd by-children by-python; do cmp {local}/source $file; done
         echo replaced > copied; test $(cat copied) = replaced
         cp copied appended; echo more >> appended; test $(cat appended | tr -d '\\n') = replacedmore
         head -c 1000 {local}/source >> by-dd
         (cat {local}/source; head -c 1000 {local}/source) | cmp - by-dd
         : > empty; test -e empty; test ! -s empty
         echo one > quick; echo two > quick; test $(cat quick) = two
         exec 3> held; echo a >&3; echo b >&3; exec 3>&-; test $(cat held | tr -d '\\n') = ab",
        local = local.path().display()
    );
    shell(mounted.path(), &script);
}

#[test]
fn what_needs_a_flag_or_cannot_be_is_refused() {
    let server = server();
    put(&server, "there", "old");
    let mounted = Mounted::new(&server, &[]);
    #[track_caller]
    fn check<T: std::fmt::Debug>(what: &str, result: std::io::Result<T>, errno: i32) {
        assert_eq!(result.unwrap_err().raw_os_error(), Some(errno), "{what}");
    }
    let there = mounted.join("there");
    let write = || OpenOptions::new().write(true).clone();
    check("overwrite", File::create(&there), libc::EPERM);
    check(
        "append",
        OpenOptions::new().append(true).open(&there),
        libc::EPERM,
    );
    check("in place", write().open(&there), libc::EPERM);
    let fifo = nix::unistd::mkfifo(&mounted.join("fifo"), nix::sys::stat::Mode::S_IRWXU);
    assert_eq!(fifo, Err(nix::errno::Errno::EPERM));

    let mut file = create(&mounted, "new");
    file.write_all(b"hello").unwrap();
    let other = Command::new("cat").arg(mounted.join("new")).output();
    assert_eq!(other.unwrap().stdout, b"hello");
    assert_eq!(std::fs::metadata(mounted.join("new")).unwrap().len(), 5);
    file.write_all(b" world").unwrap();
    drop(file);
    check_stored(&server, "new", b"hello world");
    assert_eq!(std::fs::read(mounted.join("new")).unwrap(), b"hello world");
    check_stored(&server, "there", b"old");

    let mut file = create(&mounted, "back");
    file.write_all(b"hello").unwrap();
    assert_eq!(file.write_at(b"x", 0).unwrap(), 1);
    assert_eq!(file.write_at(b"x", 5).unwrap(), 1);
    file.sync_all().unwrap();
    check_stored(&server, "back", b"xellox");
}

#[test]
fn fsync_stores_and_the_file_goes_on() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    let content = pattern(21 * MIB);
    let mut file = create(&mounted, "log");
    let mut end = 0;
    // Within one part, into the second one, and further after a completed upload.
    for next in [10, 5000, 3 * MIB, 17 * MIB, 18 * MIB, content.len()] {
        for piece in content[end..next].chunks(MIB) {
            file.write_all(piece).unwrap();
        }
        end = next;
        file.sync_all().unwrap();
        check_stored(&server, "log", &content[..end]);
    }
    drop(file);
    check_stored(&server, "log", &content);
    assert!(server.store().uploads(BUCKET).is_empty());
}

#[test]
fn two_hosts_that_create_one_file_do_not_overwrite_each_other() {
    let server = server();
    let (one, two) = (Mounted::new(&server, &[]), Mounted::new(&server, &[]));
    for len in [10, 9 * MIB] {
        let name = format!("file-{len}");
        let mut first = create(&one, &name);
        let mut second = create(&two, &name);
        first.write_all(&pattern(len)).unwrap();
        second.write_all(&vec![7; len]).unwrap();
        drop(first);
        let error = second.sync_all().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        drop(second);
        check_stored(&server, &name, &pattern(len));
        assert_eq!(std::fs::read(two.join(&name)).unwrap(), pattern(len));
    }
    assert!(server.store().uploads(BUCKET).is_empty());
}

#[test]
fn two_hosts_that_write_one_file_leave_a_whole_one() {
    let server = server();
    let (one, two) = (Mounted::new(&server, FLAGS), Mounted::new(&server, FLAGS));
    for len in [10, 9 * MIB] {
        let name = format!("file-{len}");
        put(&server, &name, pattern(6 * MIB));
        let open = |how: &OpenOptions| [&one, &two].map(|it| how.open(it.join(&name)).unwrap());
        // The file of the last close has replaced the other.
        let [mut first, mut second] = open(OpenOptions::new().write(true).truncate(true));
        first.write_all(&pattern(len)).unwrap();
        second.write_all(&vec![7; len]).unwrap();
        first.sync_all().unwrap();
        check_stored(&server, &name, &pattern(len));
        second.sync_all().unwrap();
        drop((first, second));
        check_stored(&server, &name, &vec![7; len]);
        // Bytes that another writer has appended are not lost.
        let [mut first, mut second] = open(OpenOptions::new().append(true));
        first.write_all(b"first").unwrap();
        second.write_all(b"second").unwrap();
        first.sync_all().unwrap();
        second.sync_all().unwrap_err();
        drop((first, second));
        let expected = [&vec![7; len][..], b"first"].concat();
        check_stored(&server, &name, &expected);
    }
    wait_until("the end of all uploads", || {
        server.store().uploads(BUCKET).is_empty()
    });
}

/// The answer of a conditional request is lost, and the request is sent again.
///
/// The writer does not see a conflict with itself.
#[test]
fn an_answer_that_is_lost_is_no_conflict() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    for operation in [Operation::PutObject, Operation::CompleteMultipartUpload] {
        let lost = Fault::ErrorAfterwards {
            status: 500,
            code: "InternalError",
        };
        let rule = Rule {
            count: Some(1),
            ..Rule::on(operation, lost)
        };
        server.faults().add(rule);
        let key = format!("{operation:?}");
        let content = pattern(match operation {
            Operation::PutObject => 3 * MIB,
            _ => 9 * MIB,
        });
        let mut file = create(&mounted, &key);
        for piece in content.chunks(MIB) {
            file.write_all(piece).unwrap();
        }
        file.sync_all().unwrap();
        check_stored(&server, &key, &content);
    }
}

#[test]
fn five_hundred_files_at_once() {
    let server = server();
    let mounted = Mounted::new(&server, &["--memory-target", "512"]);
    let names: Vec<_> = (0..500).map(|index| format!("file-{index}")).collect();
    let mut files: Vec<_> = names.iter().map(|name| create(&mounted, name)).collect();
    let content = pattern(100_000);
    for piece in content.chunks(30_000) {
        for file in &mut files {
            file.write_all(piece).unwrap();
        }
    }
    drop(files);
    for name in &names {
        check_stored(&server, name, &content);
    }
}

#[test]
fn one_thread_fills_many_large_files_in_turn() {
    let server = server();
    let mounted = Mounted::new(&server, &["--memory-target", "512"]);
    let names: Vec<_> = (0..40).map(|index| format!("file-{index}")).collect();
    let content = pattern(6 * MIB);
    // A part of each would take 360 MiB, and the memory is 256.
    let files = names.iter().map(|name| {
        let mut file = create(&mounted, name);
        file.write_all(&content).unwrap();
        file
    });
    let files: Vec<_> = files.collect();
    drop(files);
    for name in &names {
        check_stored(&server, name, &content);
    }
}

/// A store that takes only parts of equal size, except the last one. A fixed part size makes such
/// parts.
#[test]
fn parts_are_equally_large_where_their_size_is_given() {
    let server = Server::start(ServerOptions {
        part_sizes: PartSizes::Equal,
        ..ServerOptions::default()
    })
    .unwrap();
    server.store().create_bucket(BUCKET);
    // In bytes: 5 MiB.
    let fixed = ["--write-part-size", "5242880"];
    let mounted = Mounted::new(&server, &fixed);
    // Writes whose ends do not match those of parts, and one that exceeds the rest of its part.
    let data = pattern(17 * MIB + 1);
    let mut file = create(&mounted, "file");
    for piece in data.chunks(999_983) {
        file.write_all(piece).unwrap();
    }
    nix::unistd::close(file).unwrap();
    let object = server.store().object(BUCKET, "file").unwrap();
    assert!(object.bytes() == data);
    assert_eq!(object.parts().len(), 4);
    drop(mounted);

    // Behind a copy of another size equal parts are impossible: the file fails, stays unchanged,
    // and the log gives the reason.
    let logs = tempfile::tempdir().unwrap();
    let directory = logs.path().to_str().unwrap();
    let args = ["--allow-append", "--log-directory", directory];
    let mounted = Mounted::new(&server, &[&fixed[..], &args].concat());
    put(&server, "old", data[..6 * MIB].to_vec());
    let mut file = OpenOptions::new()
        .append(true)
        .open(mounted.join("old"))
        .unwrap();
    for piece in data[6 * MIB..].chunks(MIB) {
        file.write_all(piece).unwrap();
    }
    assert!(nix::unistd::close(file).is_err());
    let object = server.store().object(BUCKET, "old").unwrap();
    assert!(object.bytes() == data[..6 * MIB]);
    assert!(server.store().uploads(BUCKET).is_empty());
    let said = shell(logs.path(), "cat *");
    assert!(
        said.contains("InvalidPart") && said.contains("--write-part-size"),
        "{said}"
    );
}

/// Programs that write asynchronously, as databases and fio do.
///
/// The kernel cuts one write into many, and sends them in parallel.
#[test]
fn asynchronous_writes_are_stored_as_they_were_written() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    let script = r#"
import ctypes, mmap, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
SETUP, SUBMIT, GETEVENTS = (206, 209, 208) if os.uname().machine == 'x86_64' else (0, 2, 4)
def call(*arguments):
    result = libc.syscall(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
context = ctypes.c_ulong(0)
call(SETUP, 64, ctypes.byref(context))
def submit(file, buffer, place, length, offset):
    address = ctypes.addressof(ctypes.c_char.from_buffer(buffer)) + place
    block = ctypes.create_string_buffer(struct.pack('<QIIHhIQQqQII', 0, 0, 0, 1, 0, file, address, length, offset, 0, 0, 0), 64)
    blocks = (ctypes.c_void_p * 1)(ctypes.addressof(block))
    assert call(SUBMIT, context, 1, blocks) == 1
    event = ctypes.create_string_buffer(32)
    assert call(GETEVENTS, context, 1, 1, event, None) == 1
    result = struct.unpack('<QQqq', event.raw)[2]
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result
directory = sys.argv[1]
for number in range(6):
    flags = os.O_WRONLY | os.O_CREAT | (os.O_DIRECT if number % 2 else 0)
    file = os.open(f'{directory}/new{number}', flags)
    length = 32 << 20
    buffer = mmap.mmap(-1, length)
    for at in range(0, length, 4096):
        buffer[at:at + 8] = struct.pack('<Q', at + number)
    for half in range(2):
        done = 0
        while done < length // 2:
            done += submit(file, buffer, half * length // 2 + done, length // 2 - done, half * length // 2 + done)
    os.close(file)
"#;
    let directory = mounted.path().to_str().unwrap();
    let output = run("python3", &["-c", script, directory]);
    assert!(output.status.success(), "{output:?}\n{}", mounted.log());
    for number in 0..6_u64 {
        let object = server.store().object(BUCKET, &format!("new{number}"));
        let bytes = object.expect("the object is stored").bytes();
        assert_eq!(bytes.len(), 32 << 20, "new{number}");
        let mut pages = (0_u64..).step_by(4096).zip(bytes.chunks(4096));
        let is_right = |(at, page): (u64, &[u8])| {
            page[..8] == (at + number).to_le_bytes() && page[8..] == [0; 4088]
        };
        assert!(pages.all(is_right), "new{number}");
    }
}

/// Shells ignore the error of a close. A writer without permission gets it from the first write.
#[test]
fn who_may_not_write_is_told_before_the_shell_says_that_all_is_well() {
    let server = server();
    let denied = || Fault::Error {
        status: 403,
        code: "AccessDenied",
    };
    let refused = |operation| Rule::on(operation, denied());
    for operations in [
        &[Operation::PutObject, Operation::UploadPart][..],
        &[
            Operation::PutObject,
            Operation::UploadPart,
            Operation::CreateMultipartUpload,
        ],
    ] {
        let mounted = Mounted::new(&server, &[]);
        let add = |operation: &Operation| server.faults().add(refused(*operation));
        let rules: Vec<_> = operations.iter().map(add).collect();
        for shell in ["sh", "bash"] {
            for (number, script) in [
                "echo hi > \"$0\"",
                "echo some bytes | cat > \"$0\"",
                "printf x > \"$0\"",
                "{ echo one; echo two; } > \"$0\"",
            ]
            .into_iter()
            .enumerate()
            {
                let name = mounted.join(&format!("{shell}{number}"));
                let output = run(shell, &["-c", script, name.to_str().unwrap()]);
                assert!(!output.status.success(), "{shell} {script}: {output:?}");
            }
        }
        let log = mounted.log();
        assert!(log.contains("write failed: permission denied"), "{log}");
        assert!(server.store().keys(BUCKET).is_empty());
        for rule in rules {
            server.faults().remove(rule);
        }
        // As soon as it has the permission, it writes; after the first file, S3 is not asked again.
        server.log().clear();
        for name in ["first", "second"] {
            shell(mounted.path(), &format!("echo hi > {name}"));
        }
        wait_until("the abort", || server.store().uploads(BUCKET).is_empty());
        let [puts, proofs @ ..] = uploads(&server);
        // The mount may test once more whether the server honours conditions.
        assert!((2..=3).contains(&puts), "{puts}");
        assert_eq!(proofs, [1, 1, 0, 1]);
        for name in ["first", "second"] {
            check_stored(&server, name, b"hi\n");
            server.store().delete(BUCKET, name);
        }
    }
}

/// Reads its own file by another descriptor, and by the one that writes it.
const READS_BACK: &str = "
import os
file = os.open('own', os.O_RDWR | os.O_CREAT | os.O_EXCL)
os.write(file, b'header!')
again = os.open('own', os.O_RDONLY)
assert os.fstat(again).st_ino == os.fstat(file).st_ino
assert os.read(again, 100) == b'header!' == os.pread(file, 100, 0)
os.write(file, b' and more')
assert os.read(again, 100) == b' and more' and os.read(again, 100) == b''
os.close(file)
assert os.pread(again, 100, 8) == b'and more'
";

#[test]
fn a_program_reads_the_file_that_it_writes() {
    let server = server();
    put(&server, "there", "old");
    let mounted = Mounted::new(&server, &[]);
    let output = Command::new("python3")
        .args(["-c", READS_BACK])
        .current_dir(mounted.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    check_stored(&server, "own", b"header! and more");
    // It opens its archive as it does any other file of the directory.
    shell(
        mounted.path(),
        "tar cf x.tar . && test \"$(tar tf x.tar | sort | tr '\\n' ' ')\" = './ ./own ./there '",
    );
}
