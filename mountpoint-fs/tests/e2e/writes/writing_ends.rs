//! Abnormal ends of writing: processes that are signalled or killed, applications that fork.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server};
use nix::sys::signal::Signal;

use crate::harness::{
    BUCKET, Mounted, PATIENCE, create_to_write, put, run, server, shell, store_the_first,
    wait_until, write_and_close,
};

const MIB: usize = 1 << 20;

fn is_stored(server: &Server, key: &str) -> bool {
    server.store().object(BUCKET, key).is_some()
}

fn mount(server: &Server, state: &Path) -> Mounted {
    let state = state.to_str().unwrap();
    Mounted::new(server, &["--state-directory", state])
}

/// The mount's process is killed at each stage of an upload.
///
/// Then there is no partial object, no completed one is lost, and the next mount aborts our uploads
/// and no others.
#[test]
fn a_mount_that_is_killed_leaves_nothing_behind() {
    let server = server();
    let state = tempfile::tempdir().unwrap();
    let stuck = |operation| Rule::on(operation, Fault::BlackHole);
    let complete = Operation::CompleteMultipartUpload;
    for (key, len, blocked) in [
        ("created", 0, None),
        ("buffered", 100, None),
        ("putting", 100, Some(Operation::PutObject)),
        ("parts-there", 17 * MIB, None),
        ("completing", 17 * MIB, Some(complete)),
        ("stored", 17 * MIB, None),
        // The last one: the server never completes a request that it does not answer.
        ("part-on-its-way", 17 * MIB, Some(Operation::UploadPart)),
    ] {
        let mounted = mount(&server, state.path());
        store_the_first(&server, &mounted);
        let rule = blocked.map(|operation| server.faults().add(stuck(operation)));
        let mut file = create_to_write(mounted.join(key)).unwrap();
        for _ in 0..len / MIB {
            file.write_all(&[7; MIB]).unwrap();
        }
        file.write_all(&vec![7; len % MIB]).unwrap();
        let close = match key {
            "stored" | "completing" | "putting" => Some(std::thread::scope(|scope| {
                let closing = scope.spawn(move || file.sync_all().is_ok());
                if let Some(blocked) = blocked {
                    wait_until("the request", || {
                        server.log().counters(blocked).in_flight > 0
                    });
                    nix::sys::signal::kill(mounted.pid(), Signal::SIGKILL).unwrap();
                }
                closing.join().unwrap()
            })),
            _ => {
                if len > 16 * MIB {
                    // The newest bytes are sent by the close.
                    let parts = u64::try_from(len / (8 * MIB) - 1).unwrap();
                    wait_until("the parts", || {
                        let sent = server.log().counters(Operation::UploadPart);
                        match blocked {
                            Some(_) => sent.in_flight >= parts,
                            None => sent.requests >= parts && sent.in_flight == 0,
                        }
                    });
                }
                None
            }
        };
        assert_eq!(close.unwrap_or(false), key == "stored");
        let directory = mounted.path().to_owned();
        mounted.signal(Signal::SIGKILL);
        run("umount", &["-l", directory.to_str().unwrap()]);
        if let Some(rule) = rule {
            server.faults().remove(rule);
        }
        assert_eq!(is_stored(&server, key), key == "stored", "{key}");
        let left = server.store().uploads(BUCKET);
        assert_eq!(
            left.is_empty(),
            len < 8 * MIB || key == "stored",
            "{key}: {left:?}"
        );
        let mounted = mount(&server, state.path());
        wait_until("the abort of what was left", || {
            server.store().uploads(BUCKET).is_empty()
        });
        assert_eq!(mounted.join(key).exists(), key == "stored", "{key}");
        drop(mounted);
    }
    assert_eq!(state_files(state.path()), [""; 0]);
}

/// Names in a state directory, without the sockets: a later mount removes those of killed ones.
fn state_files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| !name.starts_with("mount-s3.stats."))
        .collect()
}

#[test]
fn sigterm_stores_what_was_closed_and_gives_up_what_was_not() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    let mut open = File::create_new(mounted.join("open")).unwrap();
    for _ in 0..9 {
        open.write_all(&[7; MIB]).unwrap();
    }
    let slow = Fault::Latency {
        fixed: std::time::Duration::from_secs(1),
        jitter: std::time::Duration::ZERO,
    };
    server.faults().add(Rule::on(Operation::PutObject, slow));
    let path = mounted.join("closed");
    let closing = std::thread::spawn(move || std::fs::write(path, b""));
    wait_until("the request", || {
        server.log().counters(Operation::PutObject).in_flight > 0
    });
    let (status, took) = mounted.signal(Signal::SIGTERM);
    closing.join().unwrap().unwrap();
    assert!(status.success(), "{status:?}");
    assert!(took < PATIENCE, "{took:?}");
    assert!(is_stored(&server, "closed"));
    assert!(!is_stored(&server, "open"));
    assert!(server.store().uploads(BUCKET).is_empty());
    drop(open);
}

/// Kubernetes kills a process 30 s after SIGTERM.
#[test]
fn sigterm_ends_a_mount_in_time_whose_upload_is_never_answered() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    std::fs::write(mounted.join("before"), b"").unwrap();
    server
        .faults()
        .add(Rule::on(Operation::PutObject, Fault::BlackHole));
    let path = mounted.join("closed");
    let closing =
        std::thread::spawn(move || write_and_close(File::create_new(path).unwrap(), b"bytes"));
    wait_until("the request", || {
        server.log().counters(Operation::PutObject).in_flight > 0
    });
    let (status, took) = mounted.signal(Signal::SIGTERM);
    assert!(closing.join().unwrap().is_err(), "nothing was stored");
    assert!(status.success(), "{status:?}");
    assert!(took < std::time::Duration::from_secs(25), "{took:?}");
    assert!(!is_stored(&server, "closed"));
}

/// S3 denies every PutObject from now on.
fn refuse_puts(server: &Server) {
    let refused = Fault::Error {
        status: 403,
        code: "AccessDenied",
    };
    server.faults().add(Rule::on(Operation::PutObject, refused));
}

/// A close returns the error, in whichever process.
#[test]
fn a_close_returns_the_error_after_a_fork() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    refuse_puts(&server);
    let script = r#"
import os, sys
def attempt(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.write(fd, b'x')
    go = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(go[0], 1)
        try:
            os.close(fd)
            os._exit(0)
        except OSError as error:
            os._exit(1)
    os.write(go[1], b'.')
    child = os.waitpid(pid, 0)[1]
    assert child == 0, 'the parent has it open: it is not stored yet'
    failed = False
    try:
        os.close(fd)
    except OSError:
        failed = True
    assert failed, 'the close of ' + path
attempt(sys.argv[1] + '/child-first')
fd = os.open(sys.argv[1] + '/duplicated', os.O_WRONLY | os.O_CREAT)
other = os.dup(fd)
os.write(other, b'x')
for each in (fd, other):
    try:
        os.close(each)
    except OSError:
        continue
    raise SystemExit('a close succeeded')
"#;
    let output = run("python3", &["-c", script, mounted.path().to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert!(server.store().keys(BUCKET).is_empty());
}

/// The opener closes an existing file before any change. Its child changes it, and gets the
/// outcome.
#[test]
fn a_child_that_changes_a_file_first_stores_it_and_is_told() {
    let server = server();
    for key in ["old0", "old1"] {
        put(&server, key, "old");
    }
    let mounted = Mounted::new(&server, &["--allow-overwrite"]);
    let script = r#"
import os, sys
path, is_stored = sys.argv[1], sys.argv[2] == 'stored'
for number, flags in enumerate((os.O_WRONLY, os.O_RDWR)):
    fd = os.open(f'{path}{number}', flags)
    go = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go[1])
        os.read(go[0], 1)
        os.ftruncate(fd, 0)
        os.write(fd, b'new')
        try:
            os.close(fd)
            os._exit(0)
        except OSError as error:
            os._exit(1)
    os.close(fd)
    os.write(go[1], b'.')
    status = os.waitpid(pid, 0)[1]
    assert (status == 0) == is_stored, (flags, status)
"#;
    let path = mounted.join("old");
    for outcome in ["stored", "refused"] {
        if outcome == "refused" {
            refuse_puts(&server);
        }
        server.log().clear();
        let output = run("python3", &["-c", script, path.to_str().unwrap(), outcome]);
        assert!(output.status.success(), "{output:?}");
        // Both are stored when the children have ended. The first is a trial of the server.
        let trials = u64::from(outcome == "stored");
        let puts = server.log().count(Operation::PutObject);
        assert_eq!(puts, 2 + trials, "{outcome}");
    }
    for key in ["old0", "old1"] {
        let object = server.store().object(BUCKET, key).unwrap();
        assert_eq!(object.bytes(), "new");
    }
}

/// The last visible close stores an empty file. The close of a descriptor that a shell moves does
/// not.
#[test]
fn an_empty_file_is_stored_by_its_close() {
    let server = server();
    put(&server, "old", "old");
    // The flags make S3 report each name, so that no file is sent twice to test the server.
    let flags = ["--allow-overwrite", "--negative-metadata-ttl", "minimal"];
    let mounted = Mounted::new(&server, &flags);
    let popen = r#"python3 -c "
import subprocess
with open('by-a-child', 'x') as file:
    child = subprocess.Popen(['sh', '-c', 'read go; echo hello'], stdin=subprocess.PIPE, stdout=file)
child.communicate(b'go')
assert child.returncode == 0
""#;
    for (script, key, content, puts) in [
        ("touch touched", "touched", "", 1),
        (": > by-bash", "by-bash", "", 1),
        ("sh -c ': > by-sh'", "by-sh", "", 1),
        ("/bin/true > by-true", "by-true", "", 1),
        ("python3 -c \"open('py', 'x').close()\"", "py", "", 1),
        ("dd if=/dev/null of=by-dd status=none", "by-dd", "", 1),
        ("cp /dev/null by-cp", "by-cp", "", 1),
        ("exec 3> held; exec 3>&-", "held", "", 1),
        (": > old", "old", "", 1),
        ("echo hello > echoed", "echoed", "hello\n", 1),
        ("{ /bin/true; echo hello; } > late", "late", "hello\n", 1),
        (
            "(/bin/true; /bin/echo hello) > by-children",
            "by-children",
            "hello\n",
            1,
        ),
        // The opener has closed it before the child writes; one is a trial of the server.
        (popen, "by-a-child", "hello\n", 3),
    ] {
        server.log().clear();
        shell(mounted.path(), script);
        // Stored at the end of the program, before any access to the file.
        assert_eq!(server.log().count(Operation::PutObject), puts, "{script}");
        let object = server.store().object(BUCKET, key).expect(script);
        assert_eq!(object.bytes(), content, "{script}");
    }
}

#[test]
fn the_close_of_an_empty_file_returns_the_error() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    refuse_puts(&server);
    for script in [
        "touch new",
        "python3 -c \"open('new', 'x').close()\"",
        "dd if=/dev/null of=new status=none",
        "cp /dev/null new",
    ] {
        shell(
            mounted.path(),
            &format!("if {script} 2>&1; then exit 1; fi"),
        );
        wait_until("the end of its name", || !mounted.join("new").exists());
    }
}

/// A reader that opens an unwritten file does not make its writer fail.
#[test]
fn a_reader_beside_a_shell_does_not_hinder_it() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    shell(
        mounted.path(),
        "{ head -c 1 log > /dev/null; echo one; /bin/echo two; } > log
         test \"$(cat log)\" = $'one\\ntwo'",
    );
    // The opener has closed the file, and a child writes it: the reader has the empty file.
    let script = r#"
import errno, os, subprocess, sys, time
path = sys.argv[1]
with open(path, 'x') as file:
    child = subprocess.Popen(['sh', '-c', 'read go; echo one; read go; echo two'], stdin=subprocess.PIPE, stdout=file)
reader = open(path, 'rb', buffering=0)
assert reader.read() == b''
child.stdin.write(b'go\n')
child.stdin.flush()
deadline = time.time() + 30
while os.stat(path).st_size == 0:
    assert time.time() < deadline
try:
    assert reader.read() in (b'', b'one\n'), 'other bytes'
except OSError as error:
    assert error.errno == errno.ESTALE, error
child.communicate(b'go\n')
assert child.returncode == 0
assert open(path, 'rb').read() == b'one\ntwo\n'
try:
    assert reader.read() in (b'', b'two\n', b'one\ntwo\n'), 'other bytes'
except OSError as error:
    assert error.errno == errno.ESTALE, error
"#;
    let path = mounted.join("by-a-child");
    let output = run("python3", &["-c", script, path.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let stored = server.store().object(BUCKET, "by-a-child").unwrap();
    assert_eq!(stored.bytes(), "one\ntwo\n");
}

/// The mount is killed while S3 copies the beginning of a file.
///
/// The old object stays, and the next mount aborts the upload.
#[test]
fn a_mount_that_is_killed_while_it_appends_leaves_the_old_object() {
    let server = server();
    put(&server, "log", vec![1; 6 * MIB]);
    let state = tempfile::tempdir().unwrap();
    let args = |state: &Path| {
        [
            "--allow-append",
            "--state-directory",
            state.to_str().unwrap(),
        ]
        .map(str::to_owned)
    };
    for blocked in [Operation::UploadPartCopy, Operation::UploadPart] {
        let args = args(state.path());
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let mounted = Mounted::new(&server, &args);
        store_the_first(&server, &mounted);
        let rule = server.faults().add(Rule::on(blocked, Fault::BlackHole));
        let mut file = File::options()
            .append(true)
            .open(mounted.join("log"))
            .unwrap();
        std::thread::scope(|scope| {
            // The write waits if it is the mount's first one that needs a copy of the existing
            // bytes.
            let closing = scope.spawn(move || {
                let written = file.write_all(b"more");
                written.and_then(|()| file.sync_all()).is_ok()
            });
            wait_until("the request", || {
                server.log().counters(blocked).in_flight > 0
            });
            nix::sys::signal::kill(mounted.pid(), Signal::SIGKILL).unwrap();
            assert!(!closing.join().unwrap());
        });
        let directory = mounted.path().to_owned();
        mounted.signal(Signal::SIGKILL);
        run("umount", &["-l", directory.to_str().unwrap()]);
        server.faults().remove(rule);
        assert_eq!(server.store().uploads(BUCKET).len(), 1, "{blocked:?}");
        let mounted = Mounted::new(&server, &args);
        wait_until("the abort of what was left", || {
            server.store().uploads(BUCKET).is_empty()
        });
        let log = std::fs::read(mounted.join("log")).unwrap();
        assert!(log == vec![1; 6 * MIB], "{blocked:?}");
    }
}

/// A mount in its own PID namespace cannot tell outside processes apart.
#[test]
fn processes_that_the_mount_cannot_see_share_a_file() {
    let server = server();
    let apart = ["unshare", "--pid", "--fork", "--kill-child"];
    let mounted = Mounted::behind(&server, &apart, |command| {
        command.arg("--allow-overwrite");
    });
    // Any fork of this process would duplicate an open file and close the duplicate, which stores
    // the file.
    let script = "import os, sys
def open_to_replace():
    return os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
first, second = open_to_replace(), open_to_replace()
os.write(first, b'of the ')
os.write(second, b'OF')
os.close(second)
os.write(first, b'first')
os.close(first)";
    let path = mounted.join("file");
    let output = run("python3", &["-c", script, path.to_str().unwrap()]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let stored = server.store().object(BUCKET, "file").unwrap();
    assert_eq!(stored.bytes(), "OF the first");
    // The file is closed: another process may replace it now.
    std::fs::write(&path, "of the second").unwrap();
    let stored = server.store().object(BUCKET, "file").unwrap();
    assert_eq!(stored.bytes(), "of the second");
    // `unshare` ends with it, and not by SIGTERM.
    assert!(mounted.unmount().success());
}

/// A reader that opens or follows a log does not make its writer fail. It may open the log between
/// two closes of a duplicate.
#[test]
fn a_reader_never_makes_a_writer_fail() {
    let server = server();
    let mounted = Mounted::new(&server, &["--allow-overwrite"]);
    // Each `echo` closes a duplicate, which stores the file.
    shell(
        mounted.path(),
        "exec 3> log
         echo one >&3; exec 4< log; echo two >&3; test \"$(cat log)\" = $'one\\ntwo'
         tail -n +1 -f log > /tmp/tail.$$ & tail=$!
         # A file that has bytes to be stored cannot be opened: it is opened before the next ones.
         until grep -q two /tmp/tail.$$; do kill -0 $tail; sleep 0.1; done
         for number in $(seq 5); do echo $number >&3; cat log > /dev/null; done
         exec 3>&-
         test \"$(cat <&4)\" = $'one\\ntwo\\n1\\n2\\n3\\n4\\n5'
         until grep -q 5 /tmp/tail.$$; do kill -0 $tail; sleep 0.1; done
         kill $tail; cmp log /tmp/tail.$$; rm /tmp/tail.$$",
    );
    let stored = server.store().object(BUCKET, "log").unwrap();
    assert_eq!(stored.bytes(), "one\ntwo\n1\n2\n3\n4\n5\n");
}
