//! Real mounts. They need root and `/dev/fuse`, and fail where those are missing.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use mountpoint_client::SimClient;
use mountpoint_client::sim::SimOptions;
use nix::mount::MsFlags;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::clock::Clock;
use crate::config::{FsConfig, ReadConfig};
use crate::fs::FileSystem;
use crate::fuse::mount_info::MountInfo;
use crate::fuse::{Mount, MountError, MountOptions, Session, SessionOptions, mount};

fn file_system() -> Arc<FileSystem> {
    let config = FsConfig {
        prefix: String::new(),
        uid: 0,
        gid: 0,
        dir_mode: 0o755,
        file_mode: 0o644,
        read: ReadConfig::default(),
    };
    Arc::new(FileSystem::new(
        Arc::new(SimClient::new(SimOptions::default())),
        config,
        Clock::monotonic(),
    ))
}

fn mount_options() -> MountOptions {
    MountOptions {
        source_name: "test-bucket".to_owned(),
        ..MountOptions::default()
    }
}

fn session_options(runtime: &Runtime) -> SessionOptions {
    SessionOptions {
        threads: 16,
        clone_descriptors: false,
        max_background: 61,
        congestion_threshold: 47,
        read_only: false,
        runtime: runtime.handle().clone(),
    }
}

struct Mounted {
    session: Session,
    mount: Mount,
    directory: TempDir,
    _runtime: Runtime,
}

impl Mounted {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let mount =
            mount(directory.path(), &mount_options()).expect("these tests need root and /dev/fuse");
        let session = Session::start(file_system(), &mount, session_options(&runtime)).unwrap();
        Self {
            session,
            mount,
            directory,
            _runtime: runtime,
        }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

#[test]
fn a_mount_serves_until_it_is_unmounted() {
    let mounted = Mounted::new();
    let root = fs::metadata(mounted.path()).unwrap();
    assert!(root.is_dir());
    assert_eq!(root.ino(), 1);
    let missing = fs::metadata(mounted.path().join("missing")).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    assert_eq!(mounted.session.operations_in_progress(), 0);
    let shown = MountInfo::at(mounted.path()).unwrap().unwrap();
    assert_eq!(
        (shown.kind.as_str(), shown.source.as_str()),
        ("fuse", "test-bucket")
    );
    mounted.mount.unmount(false).unwrap();
    mounted.session.wait();
    assert!(!mounted.mount.is_mounted());
    mounted.mount.unmount(false).unwrap();
}

/// The kernel's list of connections, as `/sys/fs/fuse/connections` shows it where systemd mounted it.
struct Connections(TempDir);

impl Connections {
    fn mount() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (name, none) = (Some("fusectl"), None::<&str>);
        nix::mount::mount(name, directory.path(), name, MsFlags::empty(), none).unwrap();
        Self(directory)
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        nix::mount::umount(self.0.path()).unwrap();
    }
}

#[test]
fn settings_are_visible_in_sysfs() {
    let mounted = Mounted::new();
    let connections = Connections::mount();
    let number = mounted.mount.device_number().unwrap();
    let setting =
        |path: &Path| -> u32 { fs::read_to_string(path).unwrap().trim().parse().unwrap() };
    let connection = connections.0.path().join(number.minor.to_string());
    assert_eq!(setting(&connection.join("max_background")), 61);
    assert_eq!(setting(&connection.join("congestion_threshold")), 47);
    let read_ahead = format!("/sys/class/bdi/{number}/read_ahead_kb");
    assert_eq!(setting(Path::new(&read_ahead)), 512);
    mounted.mount.unmount(false).unwrap();
    mounted.session.wait();
}

/// As an operator does with a mount that hangs.
#[test]
fn an_aborted_connection_ends_the_session() {
    let mounted = Mounted::new();
    let connections = Connections::mount();
    let number = mounted.mount.device_number().unwrap();
    let abort = connections
        .0
        .path()
        .join(number.minor.to_string())
        .join("abort");
    fs::write(abort, "1").unwrap();
    mounted.session.wait();
    assert!(mounted.mount.is_mounted(), "dead, but still there");
    mounted.mount.unmount(true).unwrap();
    assert!(!mounted.mount.is_mounted());
}

#[test]
fn an_open_directory_makes_it_busy_and_lazy_works() {
    let mounted = Mounted::new();
    let open = fs::File::open(mounted.path()).unwrap();
    let busy = mounted.mount.unmount(false).unwrap_err();
    assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
    mounted.mount.unmount(true).unwrap();
    assert!(!mounted.mount.is_mounted());
    drop(open);
    mounted.session.wait();
}

#[test]
fn a_second_mount_on_the_same_directory_is_refused() {
    let mounted = Mounted::new();
    let refused = mount(mounted.path(), &mount_options()).unwrap_err();
    assert!(
        matches!(refused, MountError::AlreadyMounted { .. }),
        "{refused}"
    );
    mounted.mount.unmount(false).unwrap();
    mounted.session.wait();
}

#[test]
fn a_dropped_mount_is_gone() {
    let Mounted {
        session,
        mount,
        directory,
        _runtime,
    } = Mounted::new();
    drop(mount);
    assert_eq!(MountInfo::at(directory.path()).unwrap(), None);
    session.wait();
}
