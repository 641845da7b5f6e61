//! The tests of CPython that work with files.

use super::{Failure, Staged, expected::Expected, in_each_mode, run, said};

const LIST: &str = include_str!("../../../suites/python.txt");

/// Modules of Debian's libpython3.11-testsuite, which lacks test_sqlite3.
const MODULES: &[&str] = &[
    "test_bufio",
    "test_bz2",
    "test_compileall",
    "test_dbm",
    "test_dbm_dumb",
    "test_dbm_gnu",
    "test_fcntl",
    "test_file",
    "test_filecmp",
    "test_fileinput",
    "test_fileio",
    "test_glob",
    "test_gzip",
    "test_import",
    "test_io",
    "test_largefile",
    "test_logging",
    "test_lzma",
    "test_mailbox",
    "test_mmap",
    "test_os",
    "test_pathlib",
    "test_posix",
    "test_posixpath",
    "test_py_compile",
    "test_shelve",
    "test_shutil",
    "test_tarfile",
    "test_tempfile",
    "test_unicode_file",
    "test_unicode_file_functions",
    "test_zipfile",
    "test_zipimport",
];

/// Modules that take a second.
const FEW: &[&str] = &["test_dbm_gnu", "test_fileio", "test_unicode_file"];

/// Runs one module, and returns its tests that fail.
fn module(staged: &Staged, name: &str) -> Vec<Failure> {
    let args = ["-m", "test", "--tempdir", "{}", "-v", name];
    let output = run(staged, name, "/usr/bin/python3.11", &args);
    let said = said(&output);
    let failures = failures_of(&said);
    // 2 if a test failed.
    let expected = if failures.is_empty() { 0 } else { 2 };
    assert_eq!(output.status.code(), Some(expected), "{name}\n{said}");
    failures
}

/// The failures of a module that reports in `said`. Tests with parts may fail several times.
fn failures_of(said: &str) -> Vec<Failure> {
    let reports = said.split(RULE).skip(1);
    let failures = reports.map(|report| {
        let (title, _) = report.split_once('\n').unwrap_or((report, ""));
        let (_, name) = title.split_once('(').unwrap_or(("", title));
        let (name, _) = name.split_once(')').unwrap_or((name, ""));
        let name = name.strip_prefix("test.").unwrap_or(name).to_owned();
        let said = report.to_owned();
        Failure { name, said }
    });
    failures.collect()
}

/// Stands above each failure.
const RULE: &str = "======================================================================\n";

#[test]
#[ignore = "`make test-suites` runs it, for some ten minutes"]
fn all_modules() {
    Expected::read(LIST).check_parts(MODULES);
    in_each_mode(LIST, MODULES, module);
}

#[test]
fn a_few_modules() {
    in_each_mode(LIST, FEW, module);
}

#[test]
fn a_failed_test_is_named_by_its_report() {
    let said = format!(
        "test_a ... ok\n{RULE}ERROR: test_b (test.test_os.C.test_b)\n---\nwhy\n\n{RULE}FAIL: test_d \
         (test.test_os.C.test_d) (case=1)\n---\nno\n"
    );
    let names = failures_of(&said).into_iter().map(|it| it.name);
    assert_eq!(
        names.collect::<Vec<_>>(),
        ["test_os.C.test_b", "test_os.C.test_d"]
    );
}
