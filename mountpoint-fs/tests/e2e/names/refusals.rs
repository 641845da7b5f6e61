//! Calls that need a flag, or that S3 does not support. The application's error, and the log.

use crate::harness::{BUCKET, Mounted, put, server, shell};

/// A program that makes one call and prints how it ended.
const CALL: &str = "
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def c(result):
    if result != 0: raise OSError(ctypes.get_errno(), '')
def opened(path, flags, call):
    fd = os.open(path, flags)
    try: call(fd)
    finally: os.close(fd)
try:
    exec(sys.argv[1])
    print('done')
except OSError as error:
    print(errno.errorcode[error.errno])
";

/// Makes one call in the mount. Returns its outcome and its lines in the log.
fn call(mounted: &Mounted, code: &str) -> (String, String) {
    let before = mounted.log().len();
    let script = format!("python3 -c \"$CALL\" \"{code}\"");
    let output = std::process::Command::new("bash")
        .args(["-c", &script])
        .env("CALL", CALL)
        .current_dir(mounted.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(output.status.success(), "{code}: {output:?}");
    (said, mounted.log()[before..].to_owned())
}

/// The call, its outcome, and its text in the log. No text where that is empty.
const WITHOUT_FLAGS: [(&str, &str, &str); 24] = [
    ("os.chmod('f', 0o600)", "EPERM", "--posix-metadata"),
    ("os.chmod('f', 0o644)", "done", ""),
    ("os.chown('f', 12, 34)", "EPERM", "--posix-metadata"),
    ("os.utime('f', (1, 1))", "EPERM", "--posix-metadata"),
    ("os.utime('f')", "EPERM", "--allow-overwrite"),
    ("os.utime('d')", "EPERM", "--posix-metadata"),
    ("os.truncate('f', 1)", "EPERM", "--allow-overwrite"),
    ("os.truncate('f', 100)", "EPERM", "--allow-overwrite"),
    ("open('f', 'w')", "EPERM", "--allow-overwrite"),
    ("open('f', 'a')", "EPERM", "--allow-append"),
    (
        "os.write(os.open('f', os.O_RDWR), b'x')",
        "EBADF",
        "--allow-overwrite",
    ),
    ("os.unlink('f')", "EPERM", "--allow-delete"),
    ("os.rmdir('e')", "EPERM", "--allow-delete"),
    ("os.rmdir('d')", "ENOTEMPTY", ""),
    ("os.rename('f', 'g')", "EPERM", "--allow-rename"),
    ("os.rename('d', 'g')", "EPERM", "--allow-rename"),
    (
        "c(libc.renameat2(-100, b'f', -100, b'd/x', 2))",
        "EINVAL",
        "RENAME_EXCHANGE",
    ),
    ("os.symlink('f', 'l')", "EPERM", "--posix-metadata"),
    ("os.link('f', 'l')", "EPERM", "--allow-rename"),
    ("os.mkfifo('p')", "EPERM", "--posix-metadata"),
    (
        "os.setxattr('f', 'user.a', b'x')",
        "ENOTSUP",
        "--posix-metadata",
    ),
    (
        "os.removexattr('f', 'user.a')",
        "ENOTSUP",
        "--posix-metadata",
    ),
    ("os.setxattr('f', 'security.a', b'x')", "ENOTSUP", ""),
    (
        "os.open('f', os.O_WRONLY | os.O_SYNC | os.O_CREAT)",
        "EPERM",
        "--allow-overwrite",
    ),
];

const WITH_FLAGS: [(&str, &str, &str); 18] = [
    ("os.chmod('f', 0o600)", "done", ""),
    ("os.utime('f', (1, 1))", "done", ""),
    ("os.truncate('f', 1)", "done", ""),
    ("os.truncate('f', 100)", "done", ""),
    (
        "opened('f', os.O_RDWR, lambda fd: os.write(fd, b'x'))",
        "done",
        "",
    ),
    ("os.close(os.open('f', os.O_WRONLY))", "done", ""),
    (
        "opened('f', os.O_WRONLY, lambda fd: os.pwrite(fd, b'x', 1))",
        "done",
        "",
    ),
    (
        "opened('f', os.O_RDWR, lambda fd: os.ftruncate(fd, 0))",
        "done",
        "",
    ),
    (
        "opened('n', os.O_WRONLY | os.O_CREAT, lambda fd: [os.pwrite(fd, b'x', 5), os.pwrite(fd, b'x', 4)])",
        "done",
        "",
    ),
    (
        "opened('m', os.O_WRONLY | os.O_CREAT, lambda fd: c(libc.fallocate(fd, 1, 0, 5)))",
        "done",
        "",
    ),
    (
        "opened('n', os.O_WRONLY | os.O_CREAT, lambda fd: os.ftruncate(fd, 1 << 50))",
        "EFBIG",
        "GiB",
    ),
    ("os.stat('n')", "done", ""),
    (
        "opened('s', os.O_WRONLY | os.O_SYNC | os.O_CREAT, lambda fd: os.write(fd, b'x'))",
        "done",
        "",
    ),
    ("os.rename('f', 'd/x')", "done", ""),
    (
        "c(libc.renameat2(-100, b'd/x', -100, b'd/y', 1))",
        "EEXIST",
        "",
    ),
    ("os.setxattr('d/x', 'user.a', b'x')", "done", ""),
    (
        "os.setxattr('d/x', 'user.s3.etag', b'x')",
        "EPERM",
        "user.s3.etag",
    ),
    (
        "os.setxattr('d/x', 'user.a', bytes(2000))",
        "ENOSPC",
        "1991",
    ),
];

fn check(flags: &[&str], calls: &[(&str, &str, &str)]) {
    let server = server();
    for (key, body) in [("f", "bytes"), ("d/x", "x"), ("d/y", "y"), ("e/", "")] {
        put(&server, key, body);
    }
    let mounted = Mounted::new(&server, flags);
    for (code, expected, text) in calls {
        let (said, logged) = call(&mounted, code);
        assert_eq!(said, *expected, "{code}: {logged}");
        if text.is_empty() {
            assert!(!logged.contains("WARN"), "{code}: {logged}");
        } else {
            assert!(
                logged.contains(text) && logged.contains("key="),
                "{code}: {logged}"
            );
            // The one flag for all stands before the narrower one.
            let of_all = logged.find("--allow-changes");
            assert!(
                !text.starts_with("--") || of_all.is_some_and(|at| logged.find(text) > Some(at)),
                "{code}: {logged}"
            );
            assert!(logged.matches(" failed: ").count() <= 1, "{code}: {logged}");
        }
    }
}

#[test]
fn each_refusal_says_what_would_allow_it() {
    check(&[], &WITHOUT_FLAGS);
    check(&["--allow-changes"], &WITH_FLAGS);
    check(
        &[
            "--allow-overwrite",
            "--allow-delete",
            "--allow-rename",
            "--posix-metadata",
        ],
        &WITH_FLAGS,
    );
}

#[test]
fn a_read_only_mount_changes_nothing() {
    let server = server();
    put(&server, "f", "bytes");
    let mounted = Mounted::new(&server, &["--read-only"]);
    let tried = shell(
        mounted.path(),
        "for c in 'touch f' 'touch n' 'rm f' 'mkdir d' 'mv f g' 'chmod 600 f' 'truncate -s 0 f' 'ln -s f l' 'cp f g' \
         'setfattr -n user.a -v x f'; do LC_ALL=C $c 2>&1 && echo \"$c was done\"; done || true",
    );
    assert_eq!(
        tried.matches("Read-only file system").count(),
        10,
        "{tried}"
    );
    assert_eq!(server.store().keys(BUCKET), ["f"]);
}

/// Successful calls cause no warning.
#[test]
fn everyday_changes_leave_no_warning() {
    let server = server();
    put(&server, "f", "bytes");
    let flags = [
        "--allow-overwrite",
        "--allow-delete",
        "--allow-rename",
        "--posix-metadata",
    ];
    let mounted = Mounted::new(&server, &flags);
    shell(
        mounted.path(),
        "touch f && touch new && cp f copy && cp -p f kept && cp -a f all && mv copy moved && mkdir d && mv moved d \
         && chmod 600 f && ln -s f l && rm -r d && ls -la > /dev/null && setfattr -n user.a -v x f && getfattr -d f \
         && install -m 755 /etc/passwd program && test -x program && sed -i s/bytes/more/ f && tee t < f",
    );
    let log = mounted.log();
    assert!(!log.contains("WARN"), "{log}");
}
