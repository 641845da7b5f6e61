//! The packages. Built from this very binary, installed into roots of their own, and run there.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use nix::sys::signal::Signal;

use crate::harness::{Mounted, is_mounted, put, run, script_in_namespace, server};

const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging");

/// Builds a package with `script`, under the weakest `compression`, which takes most of the time.
fn build(script: &str, compression: &str, folder: &Path) -> String {
    let output = Command::new(format!("{PACKAGING}/{script}"))
        .arg(env!("CARGO_BIN_EXE_mount-s3"))
        .arg(folder)
        .env("COMPRESSION", compression)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A root directory as Debian makes it, with only this package installed.
fn install(root: &Path, package: &str) {
    for directory in ["usr/sbin", "var/lib/dpkg/info", "var/lib/dpkg/updates"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    for file in ["var/lib/dpkg/status", "var/lib/dpkg/available"] {
        std::fs::write(root.join(file), "").unwrap();
    }
    symlink("usr/sbin", root.join("sbin")).unwrap();
    let output = Command::new("dpkg")
        .arg(format!("--root={}", root.display()))
        .arg(format!("--log={}", root.join("dpkg.log").display()))
        .args(["--force-depends", "--install", package])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Runs a script with this root directory and a few programs of the machine.
fn in_root(root: &Path, script: &str) -> Output {
    let outside = format!(
        "cd {}
        mkdir -p dev proc etc/ssl usr/lib usr/lib64 usr/bin
        ln -s usr/lib lib; ln -s usr/lib64 lib64; ln -s usr/bin bin
        for program in bash cat mount umount; do
          touch usr/bin/$program
          mount --bind $(command -v $program) usr/bin/$program
        done
        for directory in /dev /proc /etc/ssl /usr/lib /usr/lib64; do
          [ ! -d $directory ] || mount --rbind $directory .$directory
        done
        exec chroot . /usr/bin/bash -euo pipefail -c \"$SCRIPT\"",
        root.display()
    );
    let output = script_in_namespace(&outside)
        .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
        .env("SCRIPT", script)
        .output();
    output.unwrap()
}

#[test]
fn the_package_installs_and_mounts() {
    let server = server();
    put(&server, "file", "x");
    let folder = tempfile::tempdir().unwrap();
    let package = build("deb.sh", "none", folder.path());
    let root = folder.path().join("root");
    install(&root, &package);

    let shared = root.join("usr/share");
    let man = run(
        "zcat",
        &[shared.join("man/man1/mount-s3.1.gz").to_str().unwrap()],
    );
    assert!(String::from_utf8_lossy(&man.stdout).contains(".TH mount-s3"));
    assert!(shared.join("man/man8/mount.mount-s3.8.gz").exists());
    let completions = shared.join("bash-completion/completions/mount-s3");
    let checked = run("bash", &["-n", completions.to_str().unwrap()]);
    assert!(checked.status.success(), "{checked:?}");
    for file in [
        "zsh/vendor-completions/_mount-s3",
        "fish/vendor_completions.d/mount-s3.fish",
        "doc/mountpoint-fs/copyright",
        "doc/mountpoint-fs/CONFIGURATION.md",
        "doc/mountpoint-fs/KUBERNETES.md",
        "doc/mountpoint-fs/METRICS.md",
        "doc/mountpoint-fs/TRACES.md",
        "doc/mountpoint-fs/dashboard.json",
    ] {
        assert!(shared.join(file).metadata().unwrap().len() > 500, "{file}");
    }
    assert!(root.join("etc/mount-s3").is_dir());
    let crates = std::fs::read_to_string(shared.join("doc/mountpoint-fs/crates")).unwrap();
    assert!(crates.contains("clap v"), "{crates}");

    std::fs::create_dir_all(root.join("etc")).unwrap();
    std::fs::create_dir_all(root.join("mnt")).unwrap();
    let line = format!(
        "test-bucket /mnt mount-s3 _netdev,ro,endpoint-url={},force-path-style 0 0\n",
        server.url()
    );
    std::fs::write(root.join("etc/fstab"), line).unwrap();
    let output = in_root(
        &root,
        "mount-s3 --version; mount -a; cat /mnt/file; umount /mnt",
    );
    assert!(output.status.success(), "{output:?}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.starts_with("mount-s3 "), "{stdout}");
    assert!(stdout.ends_with('x'), "{stdout}");
}

#[test]
fn the_rpm_installs_what_the_binary_needs_and_is_the_same_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let package = build("rpm.sh", "w1.gzdio", folder.path());
    let root = folder.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let installed = Command::new("rpm")
        .arg(format!("--root={}", root.display()))
        .args(["--install", "--nodeps", "--noscripts", &package])
        .output()
        .unwrap();
    assert!(installed.status.success(), "{installed:?}");
    let output = run(
        root.join("usr/bin/mount-s3").to_str().unwrap(),
        &["--version"],
    );
    assert!(output.stdout.starts_with(b"mount-s3 "), "{output:?}");
    for file in [
        "usr/sbin/mount.mount-s3",
        "usr/lib/systemd/system/mount-s3@.service",
        "usr/share/man/man1/mount-s3.1.gz",
        "usr/share/man/man1/mount-s3-warm.1.gz",
        "usr/share/zsh/site-functions/_mount-s3",
        "etc/mount-s3",
    ] {
        assert!(root.join(file).symlink_metadata().is_ok(), "{file}");
    }
    let needs = run("rpm", &["--query", "--requires", "--package", &package]);
    let needs = String::from_utf8_lossy(&needs.stdout).into_owned();
    assert!(needs.contains("glibc >= 2."), "{needs}");
    assert!(needs.contains("fuse3"), "{needs}");

    let first = std::fs::read(&package).unwrap();
    let again = build("rpm.sh", "w1.gzdio", &folder.path().join("again"));
    assert!(
        first == std::fs::read(again).unwrap(),
        "the packages differ"
    );
}

#[test]
fn the_tarball_runs_where_it_is_unpacked_and_is_the_same_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let tarball = build("tarball.sh", "1", folder.path());
    let path = folder.path().to_str().unwrap();
    let unpacked = run(
        "tar",
        &["--extract", "--file", &tarball, "--directory", path],
    );
    assert!(unpacked.status.success(), "{unpacked:?}");
    let root = tarball.strip_suffix(".tar.gz").unwrap();
    let output = run(&format!("{root}/bin/mount-s3"), &["--version"]);
    assert!(output.stdout.starts_with(b"mount-s3 "), "{output:?}");
    let install = std::fs::read_to_string(format!("{root}/INSTALL")).unwrap();
    assert!(install.contains("GNU C library 2."), "{install}");
    assert!(Path::new(&format!("{root}/LICENSE")).exists());

    let first = std::fs::read(&tarball).unwrap();
    let again = build("tarball.sh", "1", &folder.path().join("again"));
    assert!(
        first == std::fs::read(again).unwrap(),
        "the tarballs differ"
    );
}

#[test]
fn the_container_is_built_with_this_toolchain() {
    let file = |path: &str| std::fs::read_to_string(format!("{PACKAGING}/{path}")).unwrap();
    let toolchain = file("../../rust-toolchain.toml");
    let channel = toolchain.split('"').nth(1).unwrap();
    let minor = channel.rsplit_once('.').unwrap().0;
    let container = file("Containerfile");
    assert!(container.contains(&format!("rust:{minor}-")), "{channel}");
    assert!(container.contains("mountpoint-fs/packaging/deb.sh"));
}

/// What can be taken from a service that mounts for everybody is taken.
#[test]
fn the_unit_is_hardened() {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("mount-s3@test.service");
    std::fs::copy(format!("{PACKAGING}/mount-s3@.service"), &unit).unwrap();
    let unit = unit.to_str().unwrap();
    let threshold = ["security", "--offline=true", "--threshold=50", "--no-pager"];
    let judged = run("systemd-analyze", &[&threshold[..], &[unit]].concat());
    assert!(judged.status.success(), "{judged:?}");
}

/// Runs the unit's command for the end of the process, as systemd would.
fn after_the_end(result: &str, directory: &Path) {
    let unit = std::fs::read_to_string(format!("{PACKAGING}/mount-s3@.service")).unwrap();
    let line = unit
        .lines()
        .find_map(|line| {
            line.strip_prefix("ExecStopPost=-/bin/sh -c '")?
                .strip_suffix('\'')
        })
        .unwrap();
    Command::new("/bin/sh")
        .args(["-c", &line.replace("$$", "$")])
        .env("SERVICE_RESULT", result)
        .env("DIRECTORY", directory)
        .stdin(Stdio::null())
        .status()
        .unwrap();
}

#[test]
fn the_unit_unmounts_what_a_killed_process_left_and_nothing_else() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    let directory = mounted.path().to_owned();
    // A second unit for the same directory, whose start failed.
    after_the_end("exit-code", &directory);
    assert!(is_mounted(&directory));
    let (status, _) = mounted.signal(Signal::SIGKILL);
    assert!(!status.success());
    for result in ["exit-code", "success"] {
        after_the_end(result, &directory);
        assert!(is_mounted(&directory), "{result}");
    }
    after_the_end("signal", &directory);
    assert!(!is_mounted(&directory));

    let other = tempfile::tempdir().unwrap();
    let path = other.path().to_str().unwrap();
    let made = run("mount", &["-t", "tmpfs", "tmpfs", path]);
    assert!(made.status.success(), "{made:?}");
    after_the_end("signal", other.path());
    let is_left = is_mounted(other.path());
    run("umount", &[path]);
    assert!(is_left);
}
