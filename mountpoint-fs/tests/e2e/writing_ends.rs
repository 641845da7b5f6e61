//! How writing ends when it does not end well: processes that are told to end or are killed, applications that fork.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use mountpoint_client::server::{Fault, Operation, Rule, Server};
use nix::sys::signal::Signal;

use crate::harness::{BUCKET, Mounted, PATIENCE, run, server, shell, wait_until};

const MIB: usize = 1 << 20;

fn is_stored(server: &Server, key: &str) -> bool {
    server.store().object(BUCKET, key).is_some()
}

fn mount(server: &Server, state: &Path) -> Mounted {
    let state = state.to_str().unwrap();
    Mounted::new(server, &["--state-directory", state])
}

/// The mount's process is killed at each stage of an upload. Then: no partial object, no lost finished one, and after the
/// next mount no upload of ours, while those of others stay.
#[test]
fn a_mount_that_is_killed_leaves_nothing_behind() {
    let server = server();
    let state = tempfile::tempdir().unwrap();
    let stuck = |operation| Rule::on(operation, Fault::BlackHole);
    for (key, len, blocked) in [
        ("created", 0, None),
        ("buffered", 100, None),
        ("parts-there", 17 * MIB, None),
        (
            "completing",
            17 * MIB,
            Some(Operation::CompleteMultipartUpload),
        ),
        ("stored", 17 * MIB, None),
        // The last one: the server never lets go of a request that it does not answer.
        ("part-on-its-way", 9 * MIB, Some(Operation::UploadPart)),
    ] {
        let mounted = mount(&server, state.path());
        server.log().clear();
        let rule = blocked.map(|operation| server.faults().add(stuck(operation)));
        let mut file = File::create_new(mounted.join(key)).unwrap();
        for _ in 0..len / MIB {
            file.write_all(&[7; MIB]).unwrap();
        }
        file.write_all(&vec![7; len % MIB]).unwrap();
        let close = match key {
            "stored" | "completing" => Some(std::thread::scope(|scope| {
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
                if len > 8 * MIB {
                    let parts = u64::try_from(len / (8 * MIB)).unwrap();
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
    assert_eq!(std::fs::read_dir(state.path()).unwrap().count(), 0);
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
    // It is stored when the kernel tells of the last close, which nobody waits for.
    shell(mounted.path(), ": > closed");
    wait_until("the request", || {
        server.log().counters(Operation::PutObject).in_flight > 0
    });
    let (status, took) = mounted.signal(Signal::SIGTERM);
    assert!(status.success(), "{status:?}");
    assert!(took < PATIENCE, "{took:?}");
    assert!(is_stored(&server, "closed"));
    assert!(!is_stored(&server, "open"));
    assert!(server.store().uploads(BUCKET).is_empty());
    drop(open);
}

/// A close returns the error, whichever process's it is.
#[test]
fn a_close_returns_the_error_after_a_fork() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    let refused = Fault::Error {
        status: 403,
        code: "AccessDenied",
    };
    server.faults().add(Rule::on(Operation::PutObject, refused));
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
