//! Programs that get signals while they wait.

use std::time::Duration;

use mountpoint_client::testing::server::{Fault, Operation, Rule};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{BUCKET, Mounted, put, run, server, wait_until};

/// Timers, profilers, ended children. On a local disk no system call of a program shows their
/// signals.
#[test]
fn calls_of_a_program_with_a_timer_do_not_fail() {
    let server = server();
    for name in ["large", "small"] {
        put(&server, name, "x".repeat(1 << 20));
    }
    put(&server, "directory/file", "file");
    let flags = ["--allow-delete", "--allow-rename", "--read-mode=direct"];
    let mounted = Mounted::new(&server, &flags);
    let slow = Fault::Latency {
        fixed: Duration::from_millis(60),
        jitter: Duration::ZERO,
    };
    for operation in Operation::ALL {
        server.faults().add(Rule::on(*operation, slow.clone()));
    }
    // Through the C library: Python repeats its own calls.
    let script = r#"
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
ticks = 0
def tick(*_):
    global ticks
    ticks += 1
signal.signal(signal.SIGALRM, tick)
os.chdir(sys.argv[1])

def call(name, *arguments):
    "One call of C, and the signals that it got."
    function = getattr(libc, name)
    before = ticks
    ctypes.set_errno(0)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    result = function(*arguments)
    error = ctypes.get_errno()
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert error == 0, f"{name}: {os.strerror(error)}"
    return result, ticks - before

buffer = ctypes.create_string_buffer(1 << 20)
signals = {}
_, signals["access"] = call("access", b"small", os.R_OK)
fd, signals["open"] = call("open", b"large", os.O_RDONLY)
count, signals["read"] = call("pread", fd, buffer, 1 << 20, ctypes.c_long(0))
assert count == 1 << 20 and buffer.raw == b"x" * count
stream, _ = call("opendir", b"directory")
_, signals["readdir"] = call("readdir", ctypes.c_void_p(stream))
new, signals["creat"] = call("creat", b"new", 0o644)
call("write", new, b"new", 3)
_, signals["close"] = call("close", new)
_, signals["rename"] = call("rename", b"new", b"newer")
_, signals["unlink"] = call("unlink", b"newer")
assert all(signals.values()), f"calls that got no signal: {signals}"
"#;
    let path = mounted.path().to_str().unwrap().to_owned();
    let output = run("python3", &["-c", script, &path]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        server.store().keys(BUCKET),
        ["directory/file", "large", "small"]
    );
}

/// No answer comes to the program's read.
///
/// A timer does not end the read; a fatal signal ends the program, even behind the timer's signal.
#[test]
fn a_program_with_a_timer_can_be_ended_while_it_reads() {
    let server = server();
    put(&server, "file", "x".repeat(1 << 20));
    let mounted = Mounted::unhedged(&server, &["--read-mode=direct"]);
    let held = server
        .faults()
        .add(Rule::on(Operation::GetObject, Fault::Hold));
    let script = r#"
import os, signal, sys
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
os.read(os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), 1 << 20)
"#;
    // Python handles Ctrl-C.
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        server.log().clear();
        let path = mounted.join("file");
        let mut reading = std::process::Command::new("python3")
            .args(["-c", script, path.to_str().unwrap()])
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        wait_until("a GET", || {
            server.log().counters(Operation::GetObject).in_flight > 0
        });
        let process = Pid::from_raw(i32::try_from(reading.id()).unwrap());
        wait_until("its timer's signal", || {
            pending_signals(process) & (1 << (libc::SIGALRM - 1)) != 0
        });
        assert!(reading.try_wait().unwrap().is_none(), "{signal}: it ended");
        kill(process, signal).unwrap();
        wait_until("its end", || reading.try_wait().unwrap().is_some());
    }
    server.faults().remove(held);
}

/// A slow close while the program has a timer, and one whose program is killed.
#[test]
fn a_close_is_ended_by_a_signal_only_if_that_ends_the_program() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    let slow = Fault::Latency {
        fixed: Duration::from_millis(300),
        jitter: Duration::ZERO,
    };
    server
        .faults()
        .add(Rule::on(Operation::PutObject, slow).times(1));
    // Through the C library: Python's own calls hide the error.
    let script = r#"
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
ticks = []
signal.signal(signal.SIGALRM, lambda *_: ticks.append(1))
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(fd, b'x')
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
failed = libc.close(fd)
signal.setitimer(signal.ITIMER_REAL, 0)
assert failed == 0, os.strerror(ctypes.get_errno())
assert ticks
"#;
    let path = mounted.join("ticking");
    let output = run("python3", &["-c", script, path.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(server.store().keys(BUCKET), ["ticking"]);

    // The next requests get no answer, and a program that has handled a signal can be killed as
    // well as any other.
    let held = server
        .faults()
        .add(Rule::on(Operation::PutObject, Fault::Hold));
    let script = r#"
import os, signal, sys
signal.signal(signal.SIGALRM, lambda *_: None)
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(fd, b'x')
signal.setitimer(signal.ITIMER_REAL, 0.02 * int(sys.argv[2]), 0.02)
os.close(fd)
"#;
    for (name, signals) in [("untold", "0"), ("told", "1")] {
        server.log().clear();
        let path = mounted.join(name);
        let mut closing = std::process::Command::new("python3")
            .args(["-c", script, path.to_str().unwrap(), signals])
            .spawn()
            .unwrap();
        wait_until("a PUT", || {
            server.log().counters(Operation::PutObject).in_flight > 0
        });
        let process = Pid::from_raw(i32::try_from(closing.id()).unwrap());
        wait_until("its signals", || {
            (pending_signals(process) != 0) == (signals == "1")
        });
        assert!(closing.try_wait().unwrap().is_none(), "{name}: close ended");
        kill(process, Signal::SIGKILL).unwrap();
        wait_until("its end", || closing.try_wait().unwrap().is_some());
    }
    server.faults().remove(held);
}

/// Pending signals of a process that sleeps in the kernel.
fn pending_signals(process: Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    u64::from_str_radix(pending.unwrap().trim(), 16).unwrap()
}
