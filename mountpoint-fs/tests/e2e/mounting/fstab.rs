//! `/etc/fstab`: mount(8) finds `/sbin/mount.mount-s3`, which mounts and reports failures.
//!
//! Each test has a mount namespace of its own, where `/sbin` holds nothing but the link to the
//! binary.

use std::path::Path;
use std::process::Output;

use mountpoint_client::testing::server::Server;

use crate::harness::{put, script_in_namespace, server};

/// Runs a script in a mount namespace. `$DIR` is an empty directory and `$DIR/fstab` holds `fstab`.
fn in_namespace(server: &Server, fstab: &str, script: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let (path, url) = (directory.path().to_str().unwrap(), server.url());
    let fstab = fstab
        .replace("$DIR", path)
        .replace("$AT", &format!("endpoint-url={url},force-path-style"));
    std::fs::write(directory.path().join("fstab"), fstab).unwrap();
    let script = format!(
        "mount -t tmpfs tmpfs /sbin\nln -s {} /sbin/mount.mount-s3\ncd {path}\n{script}",
        env!("CARGO_BIN_EXE_mount-s3")
    );
    let output = script_in_namespace(&script)
        .env("PATH", "/usr/bin:/bin")
        .output();
    output.unwrap()
}

#[test]
fn mount_a_mounts_every_line() {
    let server = server();
    put(&server, "file", "x");
    put(&server, "a,b/file", "y");
    let fstab = "\
# What a machine of mountpoint-s3 has.
s3://test-bucket/ $DIR/whole mount-s3 _netdev,nosuid,nodev,nofail,rw,uid=1234,file-mode=0600,$AT 0 0
test-bucket $DIR/prefix mount-s3 defaults,ro,x-systemd.after=network.target,prefix=a\\,b/,$AT,allow-other 0 0
test-bucket $DIR/later mount-s3 noauto,$AT 0 0
";
    let script = "
        mkdir whole prefix later
        mount -a -T fstab
        stat -c '%u %a' whole/file
        mount -a -T fstab
        for it in whole prefix; do findmnt -n -r -o SOURCE,FSTYPE $PWD/$it; done
        df --output=source whole prefix | tail -n 2
        grep -c \"$PWD\" /proc/self/mountinfo
        cat whole/file prefix/file
        grep -c \"$PWD/later\" /proc/self/mountinfo || true
        mount -T fstab later
        cat later/file
        umount whole prefix later
        grep -c \"$PWD\" /proc/self/mountinfo || true";
    let output = in_namespace(&server, fstab, script);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let told = |line: &&str| !line.contains("is mounted at");
    let lines: Vec<&str> = stdout.lines().filter(told).collect();
    assert_eq!(
        lines,
        [
            "1234 600",
            "s3://test-bucket/ fuse.mount-s3",
            "test-bucket fuse.mount-s3",
            "s3://test-bucket/",
            "test-bucket",
            "2",
            "xy0",
            "x0"
        ],
        "{stdout}{stderr}"
    );
    let marked = |agent: &str| agent.starts_with("mountpoint/") && agent.contains(" mp-fstab");
    for record in server.log().snapshot() {
        assert!(
            record.setting("user-agent").is_some_and(marked),
            "{record:?}"
        );
    }
}

#[test]
fn a_wrong_line_says_what_is_wrong() {
    let server = server();
    for (options, message) in [
        ("typo", "the option 'typo' after -o is not known"),
        ("allow_other", "there is 'allow-other'"),
        ("foreground", "mount(8) waits"),
        ("read-only", "write 'ro'"),
        ("--debug", "without dashes"),
        ("prefix=a\\b/", "'\\' stands before"),
        ("prefix=a", "must end with '/'"),
        ("remount", "a mount keeps its options"),
    ] {
        let fstab = format!("test-bucket $DIR/mnt mount-s3 {options},$AT 0 0\n");
        let output = in_namespace(&server, &fstab, "mkdir mnt\nmount -a -T fstab");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{options}: {stderr}");
        assert!(stderr.contains(message), "{options}: {stderr}");
        // `mount -a` has many lines.
        assert!(stderr.contains("test-bucket /"), "{options}: {stderr}");
    }
}

#[test]
fn the_helper_works_under_any_name_with_five_words() {
    let server = server();
    put(&server, "file", "x");
    let script = format!(
        "mkdir mnt; {} test-bucket $PWD/mnt -o endpoint-url={},force-path-style,ro; cat mnt/file; umount mnt",
        Path::new(env!("CARGO_BIN_EXE_mount-s3")).display(),
        server.url()
    );
    let output = in_namespace(&server, "", &script);
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.ends_with(b"x"), "{output:?}");
}
