//! The other transport: this suite's tests over the library `fuser`, and its fall-back.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{FALL_BACK, Mounted, TRANSPORT, put, read, server};

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
