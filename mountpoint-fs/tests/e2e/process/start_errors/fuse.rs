//! Machines without the prerequisites of a mount.

use std::path::Path;
use std::process::Command;

use mountpoint_client::testing::server::Server;

use super::{Row, Target, check, check_all_as};
use crate::harness::{BUCKET, mount_s3, server};
use crate::machine::{Somebody, bare_devices, bind, fuse_conf, fuse_device, in_private_namespace};

fn row(what: &str, server: &Server, directory: &Path, texts: &[&'static str]) -> Row {
    Row::new(what, texts)
        .args([BUCKET.as_ref(), directory.as_os_str()])
        .args(["--endpoint-url", &server.url(), "--force-path-style"])
}

#[test]
fn no_device() {
    let (server, target, somebody) = (server(), Target::new(), Somebody::new("nobody"));
    let texts = [
        "/dev/fuse does not exist",
        "modprobe fuse",
        "--device /dev/fuse",
    ];
    in_private_namespace(|| {
        bare_devices();
        check(&row("root", &server, target.path(), &texts), &mount_s3);
        let row = row("somebody", &server, &somebody.directory(), &texts);
        check(&row, &|| somebody.mount_s3());
    });
}

#[test]
fn another_device() {
    let (server, target) = (server(), Target::new());
    in_private_namespace(|| {
        bind(Path::new("/dev/null"), "/dev/fuse");
        let texts = [
            "/dev/fuse is not the FUSE device",
            "--device /dev/fuse",
            "mknod /dev/fuse c 10 229",
        ];
        check(&row("/dev/null", &server, target.path(), &texts), &mount_s3);
    });
}

#[test]
fn ordinary_users() {
    let (server, somebody) = (server(), Somebody::new("nobody"));
    let closed = somebody.root().join("closed");
    std::fs::create_dir(&closed).unwrap();
    let row = |what: &str, texts: &[&'static str]| row(what, &server, &somebody.directory(), texts);
    in_private_namespace(|| {
        fuse_device(somebody.root(), 0o600);
        let texts = [
            "/dev/fuse may not be opened by this user",
            "chmod 666 /dev/fuse",
        ];
        check(&row("a device of root's", &texts), &|| somebody.mount_s3());
    });
    in_private_namespace(|| {
        fuse_device(somebody.root(), 0o666);
        fuse_conf(somebody.root(), "# nothing\n");
        let shared = ["user_allow_other", "/etc/fuse.conf", "or mounting as root"];
        let rows = [
            row("shared with all", &shared).args(["--allow-other"]),
            row("shared with root", &shared).args(["--allow-root"]),
            row("shared, to be unmounted", &shared).args(["--allow-other", "--auto-unmount"]),
            row(
                "no fusermount3",
                &["fusermount3 was not found", "install the package fuse3"],
            )
            .variable("PATH", "/nowhere"),
            Row::new(
                "a directory of root's",
                &[
                    "cannot mount on",
                    "no write access",
                    "a directory of their own",
                ],
            )
            .args([BUCKET.as_ref(), closed.as_os_str()])
            .args(["--endpoint-url", &server.url(), "--force-path-style"]),
        ];
        check_all_as(&rows, || somebody.mount_s3());
    });
}

/// Root of a container that was started without `--cap-add SYS_ADMIN`.
#[test]
fn no_permission_to_mount() {
    let (server, target) = (server(), Target::new());
    let without_capability = || {
        let program = mount_s3();
        let mut command = Command::new("setpriv");
        command
            .args(["--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"])
            .arg(program.get_program())
            .env_clear()
            .envs(
                program
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            );
        command
    };
    let texts = ["mounting was not allowed", "--cap-add SYS_ADMIN"];
    check_all_as(
        &[row("root", &server, target.path(), &texts)],
        without_capability,
    );
}

/// A control group that is smaller than the command line's memory target.
#[test]
fn a_small_control_group() {
    let (server, target, root) = (server(), Target::new(), tempfile::tempdir().unwrap());
    std::fs::write(root.path().join("memory.max"), "1073741824\n").unwrap();
    in_private_namespace(|| {
        bind(root.path(), "/sys/fs/cgroup");
        let texts = [
            "--memory-target 2048 is more than the 1024 MiB",
            "control group (cgroup)",
            "raise the group's limit",
        ];
        let row = row("1 GiB", &server, target.path(), &texts).args(["--memory-target", "2048"]);
        check(&row, &mount_s3);
    });
}
