//! An emulator of the Mountpoint CSI driver 2.x: its node mounts, and its mounter runs `mount-s3`
//! without privileges, with the descriptor and the arguments of the volume.
//!
//! The driver's own description: `docs/ARCHITECTURE.md` of
//! <https://github.com/awslabs/mountpoint-s3-csi-driver>.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Child;

use mountpoint_client::testing::server::Server;
use nix::mount::{MntFlags, umount2};

use super::passed_device::{open_and_mount, with_device};
use crate::harness::{BUCKET, PATIENCE, put, server, unmount, wait_for_exit, wait_until};
use crate::machine::Somebody;

/// The parts of a persistent volume that reach `mount-s3`.
#[derive(Default)]
struct Volume<'a> {
    bucket: &'a str,
    /// `mountOptions`, each as `key` or as `key value`.
    options: &'a [&'a str],
    read_only: bool,
    cache: Option<&'a Path>,
}

impl Volume<'_> {
    /// The driver's arguments: sorted, with its own beside those of the volume.
    fn arguments(&self) -> Vec<String> {
        let options = self.options.iter().map(|option| {
            let option = option.trim_start_matches('-');
            match option.split_once([' ', '=']) {
                Some((key, value)) => format!("--{key}={value}"),
                None => format!("--{option}"),
            }
        });
        let mut arguments: Vec<_> = options.collect();
        arguments
            .push("--user-agent-prefix=s3-csi-driver/2.7.0 credential-source#driver".to_owned());
        if !arguments.iter().any(|argument| argument == "--allow-other") {
            arguments.push("--allow-root".to_owned());
        }
        if self.read_only {
            arguments.push("--read-only".to_owned());
        }
        if let Some(cache) = self.cache {
            arguments.push(format!("--cache={}", cache.display()));
            arguments.push("--max-cache-size=1000".to_owned());
        }
        arguments.sort();
        arguments
    }
}

/// A mount of the driver.
struct Mount {
    somebody: Somebody,
    mounter: Child,
}

impl Mount {
    /// The parts of the node and of the mounter.
    fn begin(server: &Server, volume: &Volume<'_>) -> Self {
        let somebody = Somebody::new("nobody");
        let device = open_and_mount(&somebody.directory(), &somebody);
        let mut program = somebody.mount_s3();
        program.args([volume.bucket, "/dev/fd/3", "--foreground"]);
        program.args(volume.arguments());
        program.args(["--endpoint-url", &server.url(), "--force-path-style"]);
        program.env("AWS_REGION", "us-east-1");
        program.env("UNSTABLE_MOUNTPOINT_CACHE_KEY", "volume-1");
        program.env("NO_PROXY", "127.0.0.1");
        let file = |name| File::create(somebody.root().join(name)).unwrap();
        let mounter = with_device(&program, 3, device, &somebody)
            .stdout(file("log"))
            .stderr(file("mount.err"))
            .spawn()
            .unwrap();
        Self { somebody, mounter }
    }

    /// Begins a mount, and waits until the bucket is there.
    fn new(server: &Server, volume: &Volume<'_>) -> Self {
        let mut mount = Self::begin(server, volume);
        wait_until("the start", || {
            let has_ended = mount.mounter.try_wait().unwrap().is_some();
            assert!(!has_ended, "{} {}", mount.output("log"), mount.errors());
            mount.output("log").contains("is mounted at /dev/fd/3")
        });
        mount
    }

    fn output(&self, name: &str) -> String {
        std::fs::read_to_string(self.somebody.root().join(name)).unwrap()
    }

    /// The file whose text the driver shows in the pod's events.
    fn errors(&self) -> String {
        self.output("mount.err")
    }

    fn directory(&self) -> PathBuf {
        self.somebody.directory()
    }

    /// The node unmounts: the mounter ends.
    fn end(mut self) {
        unmount(&self.directory());
        let status = wait_for_exit(&mut self.mounter, PATIENCE);
        assert_eq!(status.code(), Some(0), "{}", self.output("log"));
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        umount2(&self.directory(), MntFlags::MNT_DETACH).ok();
        wait_for_exit(&mut self.mounter, PATIENCE);
    }
}

/// The flags of mountpoint-s3 1.24 that a volume may have in `mountOptions`, in groups that go
/// together. The file is read in each.
#[test]
fn every_option_of_a_volume_is_taken() {
    let server = server();
    put(&server, "dir/file", "hello");
    let speed = [
        "max-threads 4",
        "maximum-throughput-gbps 10",
        "memory-target 512",
        "read-part-size 8388608",
        "write-part-size 8388608",
        "debug",
    ];
    let names = [
        "allow-other",
        "uid 1000",
        "gid=2000",
        "dir-mode 0750",
        "file-mode 0640",
        "prefix dir/",
        "region us-east-1",
        "metadata-ttl 60",
        "negative-metadata-ttl 10",
    ];
    let changes = [
        "--allow-delete",
        "allow-overwrite",
        "storage-class STANDARD_IA",
        "sse AES256",
        "upload-checksums crc32c",
        "expected-bucket-owner 123456789012",
        "requester-pays",
    ];
    let lasting = [
        "metadata-ttl indefinite",
        "incremental-upload",
        "allow-overwrite",
    ];
    for (options, file, mode) in [
        (&speed[..], "dir/file", 0o644),
        (&names, "file", 0o640),
        (&changes, "dir/file", 0o644),
        (&lasting, "dir/file", 0o644),
    ] {
        let volume = Volume {
            bucket: BUCKET,
            options,
            ..Volume::default()
        };
        let mount = Mount::new(&server, &volume);
        let path = mount.directory().join(file);
        assert_eq!(std::fs::read(&path).unwrap(), b"hello", "{options:?}");
        let attributes = std::fs::metadata(&path).unwrap();
        assert_eq!(attributes.permissions().mode() & 0o777, mode, "{options:?}");
        assert_eq!(mount.errors(), "", "{options:?}");
        mount.end();
    }
}

/// A read-only volume with a cache: the driver passes `--read-only`, and mounts for writing.
#[test]
fn a_read_only_volume_with_a_cache() {
    let server = server();
    put(&server, "file", "hello");
    let cache = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(cache.path(), Some(65534), Some(65534)).unwrap();
    let volume = Volume {
        bucket: BUCKET,
        options: &["allow-other"],
        read_only: true,
        cache: Some(cache.path()),
    };
    let mount = Mount::new(&server, &volume);
    let directory = mount.directory();
    assert_eq!(std::fs::read(directory.join("file")).unwrap(), b"hello");
    let error = std::fs::write(directory.join("new"), "x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(mount.errors(), "");
    mount.end();
}

/// The driver shows the reason, and begins again with a new mount.
#[test]
fn a_failed_start_says_why_and_the_next_one_works() {
    let server = server();
    let volume = Volume {
        bucket: "not-yet",
        ..Volume::default()
    };
    let mut failed = Mount::begin(&server, &volume);
    let status = wait_for_exit(&mut failed.mounter, PATIENCE);
    assert_eq!(status.code(), Some(1));
    let errors = failed.errors();
    assert!(
        errors.contains("bucket 'not-yet' does not exist"),
        "{errors}"
    );
    assert_eq!(errors.lines().count(), 1, "{errors}");
    drop(failed);
    server.store().create_bucket("not-yet");
    server.store().put("not-yet", "file", b"hello".to_vec());
    let mount = Mount::new(&server, &volume);
    assert_eq!(
        std::fs::read(mount.directory().join("file")).unwrap(),
        b"hello"
    );
    mount.end();
}

/// A process that dies without an end, as by the kernel for lack of memory: the node unmounts and
/// mounts again.
#[test]
fn a_killed_process_is_replaced() {
    let server = server();
    put(&server, "file", "hello");
    let volume = Volume {
        bucket: BUCKET,
        ..Volume::default()
    };
    let mut killed = Mount::new(&server, &volume);
    killed.mounter.kill().unwrap();
    killed.mounter.wait().unwrap();
    let error = std::fs::read(killed.directory().join("file")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotConnected);
    drop(killed);
    let mount = Mount::new(&server, &volume);
    assert_eq!(
        std::fs::read(mount.directory().join("file")).unwrap(),
        b"hello"
    );
    mount.end();
}
