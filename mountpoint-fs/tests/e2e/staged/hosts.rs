//! Two hosts that change one file: two mounts of a bucket, each with its own directory.

use std::io;
use std::process::Command;

use mountpoint_client::testing::server::Server;

use crate::harness::{BUCKET, mount_s3, put, read, server};

use super::write_back::command;
use super::{Staged, stored};

/// Changes a file in two mounts and closes the first one first; exits with the error of the second
/// close. A process of its own: a child that another test's thread makes has all descriptors of
/// this one for a moment, and closes them.
const CHANGES: &str = "
import os, sys
one, two = (os.open(path, os.O_RDWR) for path in sys.argv[1:])
os.pwrite(one, b'first', 0)
os.pwrite(two, b'the second', 0)
os.close(one)
try:
    os.close(two)
except OSError as error:
    sys.exit(error.errno)
";

/// The outcome of a conflict.
struct Conflict {
    server: Server,
    second: Staged,
    closed: io::Result<()>,
}

impl Conflict {
    fn keys(&self) -> Vec<String> {
        self.server.store().keys(BUCKET)
    }

    fn object(&self) -> Vec<u8> {
        stored(&self.server, "f")
    }
}

/// Both change the file; the first close wins.
fn conflict(policy: Option<&str>) -> Conflict {
    let server = server();
    put(&server, "f", "0123456789");
    let flags = policy.map(|policy| ["--on-conflict", policy]);
    let first = Staged::new(&server, &[]);
    let second = Staged::new(&server, flags.as_ref().map_or(&[], |flags| &flags[..]));
    let paths = [&first, &second].map(|staged| staged.mounted.join("f"));
    let changed = Command::new("python3")
        .args(["-c", CHANGES])
        .args(paths)
        .status();
    let closed = match changed.unwrap().code() {
        Some(0) => Ok(()),
        Some(errno) if errno > 1 => Err(io::Error::from_raw_os_error(errno)),
        failed => panic!("an exception: {failed:?}"),
    };
    Conflict {
        server,
        second,
        closed,
    }
}

#[test]
fn the_later_close_fails_and_its_version_is_kept() {
    let conflict = conflict(None);
    let (keys, object, second) = (conflict.keys(), conflict.object(), &conflict.second);
    let error = conflict.closed.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ESTALE));
    assert_eq!(keys, ["f"]);
    assert_eq!(object, b"first56789");
    assert_eq!(read(&second.mounted.join("f")), b"first56789");
    let directory = second.staging.path().display().to_string();
    let program = env!("CARGO_BIN_EXE_mount-s3");
    let listed = second.run(&format!("{program} staged list {directory}"));
    assert!(listed.contains('f') && listed.contains("10"), "{listed}");
    assert!(second.mounted.log().contains("staged list"));
}

#[test]
fn both_versions_stay_if_that_is_wanted() {
    let conflict = conflict(Some("keep-both"));
    let (keys, object, second) = (conflict.keys(), conflict.object(), &conflict.second);
    conflict.closed.unwrap();
    assert_eq!(object, b"first56789");
    let beside = keys.iter().find(|key| key.starts_with("f.conflict-"));
    let beside = beside.unwrap_or_else(|| panic!("{keys:?}"));
    assert_eq!(keys.len(), 2);
    assert_eq!(read(&second.mounted.join(beside)), b"the second");
    assert_eq!(read(&second.mounted.join("f")), b"first56789");
}

#[test]
fn the_later_close_wins_if_that_is_wanted() {
    let conflict = conflict(Some("overwrite"));
    let (keys, object) = (conflict.keys(), conflict.object());
    conflict.closed.unwrap();
    assert_eq!((keys.len(), object), (1, b"the second".to_vec()));
}

#[test]
fn one_host_sees_what_the_other_has_closed() {
    let server = server();
    let (one, two) = (Staged::new(&server, &[]), Staged::new(&server, &[]));
    for round in 0..5 {
        one.run(&format!(
            "echo one {round} >> log; printf {round} | dd of=log bs=1 conv=notrunc status=none"
        ));
        two.run(&format!(
            "echo two {round} >> log; head -c 1 log | grep -qx {round}"
        ));
    }
    assert_eq!(one.run("wc -l < log"), "10\n");
}

/// Two programs of two hosts, each with its mount, make the same names at the same time, in each
/// way that asks for a name to be new; prints the call and the number of those that have made it.
const CLAIMS: &str = "
import ctypes, os, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
def create(path, mine):
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    os.write(file, b'1\\n')
    os.close(file)
def move(path, mine):
    if libc.renameat2(-100, mine.encode(), -100, path.encode(), 1):
        raise OSError(ctypes.get_errno(), 'renameat2')
calls = {
    'create': create,
    'mkdir': lambda path, mine: os.mkdir(path),
    'symlink': lambda path, mine: os.symlink('to', path),
    'mknod': lambda path, mine: os.mknod(path),
    'link': lambda path, mine: os.link(mine, path),
    'rename': move,
}
for call, make in calls.items():
    for number in range(10):
        name, made, start = f'{call}-{number}', [], threading.Barrier(2)
        def claim(mount, host):
            mine = f'{mount}/{host}-{name}'
            with open(mine, 'w') as file:
                file.write('1\\n')
            start.wait()
            try:
                make(f'{mount}/{name}', mine)
                made.append(host)
            except FileExistsError:
                pass
        threads = [threading.Thread(target=claim, args=it) for it in zip(sys.argv[1:], 'ab')]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(call, len(made))
";

#[test]
fn of_two_hosts_that_make_a_name_exclusively_one_has_it() {
    let server = server();
    let flags = ["--write-back", "--write-back-exclusive", "--posix-metadata"];
    let hosts = [&flags, &flags].map(|flags| Staged::new(&server, flags));
    let made = Command::new("python3")
        .args(["-c", CLAIMS])
        .args(hosts.each_ref().map(|host| host.mounted.path()))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&made.stderr);
    let made = String::from_utf8(made.stdout).unwrap();
    assert_eq!(made.lines().count(), 60, "{made}{told}");
    let one_each = made.lines().all(|line| line.ends_with(" 1"));
    assert!(one_each, "{made}{told}");
    for host in &hosts {
        let flushed = command(host, "flush --json");
        assert!(flushed.contains("\"left\":0"), "{flushed}");
        assert_eq!(command(host, "list"), "");
    }
    for number in 0..10 {
        assert_eq!(stored(&server, &format!("create-{number}")), b"1\n");
    }
}

/// Changes the file `f`, which another host replaces before its close.
const CHANGED_BY_BOTH: &str = "import os, sys; f = os.open(\"f\", os.O_RDWR); os.pwrite(f, b\"ab\", 4); \
                               open(sys.argv[1], \"w\").write(\"9876543210\"); os.close(f)";

/// Bytes that nobody has fetched are gone with the version that another client replaced: the
/// changes are kept, and the rest is named and never made up.
#[test]
fn changes_whose_base_is_gone_are_kept_and_say_what_is_missing() {
    for policy in ["fail", "keep-both", "overwrite"] {
        let server = server();
        put(&server, "f", "0123456789");
        let (one, two) = (
            Staged::new(&server, &[]),
            Staged::new(&server, &["--on-conflict", policy]),
        );
        // A process of its own: a child of this one would close a copy of the descriptor, which
        // stores the changes.
        let changed = two.run(&format!(
            "! python3 -c '{CHANGED_BY_BOTH}' {} 2>&1",
            one.mounted.join("f").display()
        ));
        assert!(changed.contains("Errno 116"), "{policy}: {changed}");
        assert_eq!(server.store().keys(BUCKET), ["f"], "{policy}");
        assert_eq!(stored(&server, "f"), b"9876543210", "{policy}");
        let staged = |task: &str, rest: &[&str]| {
            let directory = two.staging.path().to_str().unwrap();
            let mut command = mount_s3();
            command.args(["staged", task, directory]).args(rest);
            let output = command.output().unwrap();
            let told = [output.stdout, output.stderr].concat();
            (output.status.success(), String::from_utf8(told).unwrap())
        };
        let (_, listed) = staged("list", &[]);
        assert!(listed.contains("8 bytes are missing here"), "{listed}");
        let says_why = listed.contains("8 bytes of the file were neither changed nor read");
        assert_eq!(says_why, policy != "fail", "{listed}");
        let (_, json) = staged("list", &["--json"]);
        assert!(json.contains("\"missing\":8"), "{json}");
        let id = listed.split_whitespace().next().unwrap();
        let target = two.local.path().join("exported");
        let path = target.to_str().unwrap();
        let (is_done, told) = staged("export", &[id, path, "--force-path-style"]);
        assert!(!is_done && told.contains("--local-only"), "{told}");
        assert!(!target.exists());
        let (is_done, told) = staged("export", &[id, path, "--local-only"]);
        assert!(
            is_done && told.contains("8 bytes of them are zeros"),
            "{told}"
        );
        assert_eq!(read(&target), b"\0\0\0\0ab\0\0\0\0");
        // The version that was opened comes back: its bytes are.
        put(&server, "f", "0123456789");
        std::fs::remove_file(&target).unwrap();
        let (is_done, told) = staged("export", &[id, path, "--force-path-style"]);
        assert!(is_done, "{told}");
        assert_eq!(read(&target), b"0123ab6789");
    }
}
