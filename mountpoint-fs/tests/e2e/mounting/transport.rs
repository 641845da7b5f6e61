//! The other transports: this suite's tests over io_uring and `fuser`, their properties, and
//! fall-backs.
//!
//! The kernel offers rings while the module parameter `enable_uring` is on, to the whole machine.
//! Tests that change it take turns and restore it. Where the kernel does not know the parameter,
//! only the fall-backs can be tested; they are tested everywhere.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;

use crate::harness::{
    BUCKET, FALL_BACK, HANG, Mounted, TRANSPORT, is_mounted, put, read, server, wait_until,
};

/// The module parameter, held by this test alone and restored at its end.
struct Offer {
    parameter: Flock<File>,
    before: String,
}

impl Offer {
    /// Sets the parameter. `None` where the kernel does not know it.
    fn set(value: &str) -> Option<Self> {
        const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";
        let file = match File::options().read(true).write(true).open(PARAMETER) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // Shown even if the test passes.
                let mut stderr = std::io::stderr();
                writeln!(
                    stderr,
                    "no FUSE over io_uring in this kernel: fall-backs are tested"
                )
                .ok();
                return None;
            }
            Err(error) => panic!("{PARAMETER}: {error}; the tests run as root"),
        };
        let parameter = Flock::lock(file, FlockArg::LockExclusive)
            .unwrap_or_else(|(_, error)| panic!("{PARAMETER}: {error}"));
        let before = std::fs::read_to_string(PARAMETER).unwrap();
        (&*parameter).write_all(value.as_bytes()).unwrap();
        Some(Self { parameter, before })
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        (&*self.parameter)
            .write_all(self.before.as_bytes())
            .unwrap();
    }
}

/// A mount that is to use a transport.
fn mounted(server: &Server, transport: &str) -> Mounted {
    Mounted::with(server, &["--debug"], |command| {
        command.env(TRANSPORT, transport);
    })
}

/// The number of ring threads of a mount.
fn ring_threads(mounted: &Mounted) -> usize {
    threads(mounted, "fuse-ring-")
}

/// The number of threads of a mount whose names begin so.
fn threads(mounted: &Mounted, names: &str) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", mounted.pid())).unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
    };
    tasks
        .map(name)
        .filter(|name| name.starts_with(names))
        .count()
}

/// The tests that exercise a transport most, in a process whose mounts all have rings.
#[test]
fn other_tests_pass_over_io_uring() {
    const TESTS: [&str; 19] = [
        "reading::",
        "read_mode::",
        "metadata::",
        "many_writers::threads",
        "memory::many_streams",
        "memory::memory_of_one_size",
        "faults::",
        "lifecycle::",
        "passed_device::",
        "requests::parallel_reads",
        "sharing::",
        "tools::tools_on_the_embedded_server",
        "writing::tools_write_what_they_read",
        "writing_ends::",
        "writing_headers::",
        "appending::",
        "changing::",
        "programs::cp_and_tar",
        "programs::python_writes",
    ];
    // These try answers of S3 hundreds of times, independently of the transport.
    const SKIPPED: [&str; 4] = [
        "--skip",
        "every_fault_at_every_request",
        "--skip",
        "silence_at_any_request",
    ];
    let Some(_offer) = Offer::set("Y") else {
        return;
    };
    check_other_tests("io-uring", &TESTS, &SKIPPED);
}

/// The tests of reading, names and writing, in a process whose mounts are all served by the library
/// `fuser`.
///
/// `MOUNTPOINT_TEST_FUSER=all` runs all tests that can pass over it.
#[test]
fn other_tests_pass_over_fuser() {
    const TESTS: [&str; 5] = [
        "reading::",
        "directories::",
        "metadata::",
        "changing::",
        "writing::",
    ];
    let is_whole = std::env::var("MOUNTPOINT_TEST_FUSER").as_deref() == Ok("all");
    let tests: &[&str] = if is_whole { &[] } else { &TESTS };
    let skipped = NOT_OVER_FUSER.iter().flat_map(|(test, _)| ["--skip", test]);
    let skipped: Vec<_> = skipped.chain(["--skip", "transport::"]).collect();
    check_other_tests("fuser", tests, &skipped);
}

/// Tests that cannot pass over the library `fuser`, and the reason.
///
/// `doc/internals/fuse-transports.md` lists what the library cannot do.
const NOT_OVER_FUSER: [(&str, &str); 13] = [
    (
        "failures::signals::a_program_with_a_timer_can_be_ended_while_it_reads",
        NO_INTERRUPTS,
    ),
    (
        "failures::signals::a_close_is_ended_by_a_signal_only_if_that_ends_the_program",
        NO_INTERRUPTS,
    ),
    (
        "names::changing::attributes_and_links_are_kept_in_metadata",
        NO_UNKNOWN_KIND,
    ),
    (
        "names::changing::hard_links_pipes_and_sockets_are_made",
        NO_UNKNOWN_KIND,
    ),
    (
        "names::changing::set_id_bits_go_with_a_write_and_stay_where_it_is_refused",
        NO_UNKNOWN_KIND,
    ),
    (
        "writes::creating::touch_of_a_name_that_is_believed_absent_succeeds",
        NO_UNKNOWN_KIND,
    ),
    (
        "writes::gaps::holes_are_filled_as_on_the_local_disk",
        NO_UNKNOWN_KIND,
    ),
    (
        "process::logs::no_level_shows_contents_or_secrets",
        NO_UNKNOWN_KIND,
    ),
    (
        "names::metadata::a_listing_and_stat_tell_one_number",
        NO_UNKNOWN_KIND,
    ),
    (
        "mounting::passed_device::nothing_is_changed_with_read_only",
        NO_UNKNOWN_KIND,
    ),
    (
        "names::refusals::each_refusal_says_what_would_allow_it",
        NO_UNKNOWN_KIND,
    ),
    (
        "names::refusals::everyday_changes_leave_no_warning",
        NO_UNKNOWN_KIND,
    ),
    ("applications::programs::", NO_UNKNOWN_KIND),
];

const NO_INTERRUPTS: &str = "the library answers FUSE_INTERRUPT with ENOSYS";
const NO_UNKNOWN_KIND: &str =
    "the mount has --posix-metadata, and the library no directory entry of unknown kind";

#[test]
fn what_fuser_cannot_do_is_explained() {
    for (test, reason) in NOT_OVER_FUSER {
        let (module, name) = test.rsplit_once("::").unwrap();
        let module = module.replace("::", "/");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/e2e/{module}.rs"));
        let source = std::fs::read_to_string(path).unwrap();
        let is_there = name.is_empty() || source.contains(&format!("fn {name}("));
        assert!(is_there, "there is no {test}");
        assert!(!reason.is_empty(), "{test}");
    }
}

/// Runs tests of this program in a process whose mounts all use a transport.
fn check_other_tests(transport: &str, tests: &[&str], skipped: &[&str]) {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program)
        .args(tests)
        .args(skipped)
        .env(TRANSPORT, transport)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "over {transport}, {}:\n{}",
        output.status,
        what_failed(&stdout)
    );
    // The filter matched tests, and no mount fell back.
    assert!(!stdout.contains("ok. 0 passed"), "{stdout}");
    let fell_back = stderr.contains(FALL_BACK);
    assert!(!fell_back, "{stderr}");
}

/// The names and messages of failed tests, without stacks and without passed tests.
///
/// A person reads them at the end of a long run.
fn what_failed(stdout: &str) -> String {
    let said = stdout.split("\nfailures:\n").nth(1).unwrap_or(stdout);
    let is_said = |line: &&str| {
        let text = line.trim_start();
        let is_frame = text.starts_with("at ")
            || text
                .split_once(": ")
                .is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        !text.is_empty()
            && !is_frame
            && !text.starts_with("stack backtrace")
            && !text.starts_with("note: ")
    };
    let cut = |line: &str| line.chars().take(LINE_MAX).collect::<String>();
    let lines: Vec<_> = said.lines().filter(is_said).map(cut).collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].join("\n")
}

/// Lines of a nested failure: the assertion, and the log of its mount.
const LINES_MAX: usize = 60;
const LINE_MAX: usize = 400;

#[test]
fn failures_are_told_in_few_lines() {
    let frames = "  12: std::rt::lang_start\n             at /rustc/library/std/src/rt.rs:206:5\n";
    let stdout = format!(
        "running 2 tests\ntest a::b ... ok\ntest c::d ... FAILED\n\nfailures:\n\n---- c::d stdout ----\n\n\
         thread 'c::d' (1) panicked at tests/c.rs:1:2:\n{}\nstack backtrace:\n{}note: Some details are omitted\n\n\n\
         failures:\n    c::d\n\ntest result: FAILED. 1 passed; 1 failed\n",
        "x".repeat(1000),
        frames.repeat(200),
    );
    let told = what_failed(&stdout);
    let expected = format!(
        "---- c::d stdout ----\nthread 'c::d' (1) panicked at tests/c.rs:1:2:\n{}",
        "x".repeat(LINE_MAX)
    );
    assert_eq!(told, expected);
    // Without a known form, the end of the output.
    assert_eq!(what_failed("one\n\ntwo\n"), "one\ntwo");
}

#[test]
fn rings_are_used_if_asked_for_and_offered() {
    let server = server();
    put(&server, "file", "hello");
    let offered = Offer::set("Y");
    for (transport, has_rings) in [("io-uring", true), ("dev-fuse", false)] {
        let mounted = mounted(&server, transport);
        assert_eq!(read(&mounted.join("file")), b"hello");
        let expected = has_rings && offered.is_some();
        assert_eq!(ring_threads(&mounted) > 0, expected, "{transport}");
        assert_eq!(mounted.unmount().code(), Some(0));
    }
}

/// The mount with entries of unknown kind is served by our own session.
#[test]
fn the_library_serves_what_it_can() {
    let server = server();
    put(&server, "file", "hello");
    for (args, is_served) in [(&["--debug"][..], true), (&["--posix-metadata"], false)] {
        let mounted = Mounted::with(&server, args, |command| {
            command.env(TRANSPORT, "fuser");
        });
        assert_eq!(read(&mounted.join("file")), b"hello");
        assert_eq!(threads(&mounted, "fuser-") > 0, is_served, "{args:?}");
        assert_eq!(mounted.log().contains(FALL_BACK), !is_served, "{args:?}");
        assert_eq!(mounted.unmount().code(), Some(0));
    }
}

#[test]
fn a_kernel_that_does_not_offer_rings_is_served_without() {
    let server = server();
    put(&server, "file", "hello");
    let _offer = Offer::set("N");
    let mounted = mounted(&server, "io-uring");
    assert_eq!(read(&mounted.join("file")), b"hello");
    assert_eq!(ring_threads(&mounted), 0);
    let log = mounted.log();
    assert!(log.contains("the kernel does not offer it"), "{log}");
}

/// A container whose filter of system calls excludes io_uring, which is Docker's default.
#[test]
fn a_process_that_may_not_make_rings_is_served_without() {
    let server = server();
    put(&server, "file", "hello");
    let _offer = Offer::set("Y");
    let mounted = Mounted::behind(&server, &["python3", "-c", WITHOUT_IO_URING], |command| {
        command.env(TRANSPORT, "io-uring");
    });
    assert_eq!(read(&mounted.join("file")), b"hello");
    assert_eq!(ring_threads(&mounted), 0);
    let log = mounted.log();
    let says_so = log.contains(FALL_BACK);
    assert!(says_so, "{log}");
}

/// Runs a program that gets EPERM from `io_uring_setup`, number 425 on every architecture.
///
/// The filter loads the number of the system call, compares it, and denies or allows.
const WITHOUT_IO_URING: &str = r"
import ctypes, os, struct, sys
program = b''.join(struct.pack('HBBI', *i) for i in [
    (0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)])
code = ctypes.create_string_buffer(program)
filter = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', 4, ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, filter, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
";

/// More unanswered requests than the cores have entries. The mount ends nevertheless, and so do its
/// readers.
#[test]
fn requests_that_wait_for_entries_end_with_the_mount() {
    let Some(_offer) = Offer::set("Y") else {
        return;
    };
    let server = server();
    server.store().put_synthetic(BUCKET, "file", 1 << 30, 1);
    let mounted = mounted(&server, "io-uring");
    let path = mounted.path().to_owned();
    let file = File::open(mounted.join("file")).unwrap();
    let rule = server
        .faults()
        .add(Rule::on(Operation::GetObject, Fault::BlackHole));
    std::thread::scope(|scope| {
        for reader in 0..READERS {
            let file = &file;
            scope.spawn(move || {
                let result = file.read_at(&mut [0; 4096], reader * (256 << 10));
                result.expect_err("no answer has come");
            });
        }
        wait_until("a request that hangs", || {
            server.faults().fired(rule).is_some_and(|fired| fired > 10)
        });
        let (status, took) = mounted.signal(Signal::SIGTERM);
        assert_eq!(status.code(), Some(0));
        assert!(took < HANG, "{took:?}");
    });
    assert!(!is_mounted(&path));
}

/// Twice the number of entries of two cores.
const READERS: u64 = 2048;
