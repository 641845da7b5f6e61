//! Real mounts. They need root and `/dev/fuse`, and fail where those are missing.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use mountpoint_client::testing::sim::{SimOptions, Time, pattern_bytes};
use mountpoint_client::{ObjectClient, SimClient};
use nix::mount::MsFlags;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::clock::{Clock, wait_until};
use crate::config::{FsConfig, NamesConfig, PassthroughMode};
use crate::fs::FileSystem;
use crate::fuse::mounting::MountInfo;
use crate::fuse::{
    Connection, Mount, MountError, MountOptions, Session, SessionOptions, Transport, mount,
};

fn file_system(client: &Arc<SimClient>, names: NamesConfig) -> Arc<FileSystem> {
    let config = FsConfig {
        names,
        ..FsConfig::default()
    };
    let client = Arc::clone(client) as Arc<dyn ObjectClient>;
    Arc::new(FileSystem::new(client, config, Clock::monotonic()))
}

pub(super) fn mount_options() -> MountOptions {
    MountOptions {
        source_name: "test-bucket".to_owned(),
        ..MountOptions::default()
    }
}

fn session_options(runtime: &Runtime) -> SessionOptions {
    SessionOptions {
        threads: 16,
        transport: Transport::DevFuse,
        clone_descriptors: false,
        max_background: 61,
        congestion_threshold: 47,
        write_max: 1 << 20,
        passthrough: PassthroughMode::default(),
        read_only: false,
        runtime: runtime.handle().clone(),
    }
}

pub(super) struct Mounted {
    fs: Arc<FileSystem>,
    session: Session,
    mount: Mount,
    directory: TempDir,
    pub(super) client: Arc<SimClient>,
    _runtime: Runtime,
}

impl Mounted {
    pub(super) fn new() -> Self {
        Self::with(Time::Immediate, &mount_options(), false)
    }

    /// With other settings of names, and the file system that is mounted.
    pub(super) fn with_names(names: NamesConfig) -> (Self, Arc<FileSystem>) {
        let mounted = Self::start(Time::Immediate, &mount_options(), false, names);
        let fs = Arc::clone(&mounted.fs);
        (mounted, fs)
    }

    fn with(time: Time, options: &MountOptions, clone_descriptors: bool) -> Self {
        Self::start(time, options, clone_descriptors, NamesConfig::default())
    }

    fn start(
        time: Time,
        options: &MountOptions,
        clone_descriptors: bool,
        names: NamesConfig,
    ) -> Self {
        let client = Arc::new(SimClient::new(SimOptions {
            time,
            ..SimOptions::default()
        }));
        let fs = file_system(&client, names);
        Self::over(client, fs, options, |session| {
            session.clone_descriptors = clone_descriptors;
        })
    }

    /// Mounts `fs`, whose bucket is that of `client`.
    pub(super) fn over(
        client: Arc<SimClient>,
        fs: Arc<FileSystem>,
        options: &MountOptions,
        change: impl FnOnce(&mut SessionOptions),
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .unwrap();
        let mount = mount(directory.path(), options).expect("these tests need root and /dev/fuse");
        let mut session_options = session_options(&runtime);
        change(&mut session_options);
        let session = Session::start(Arc::clone(&fs), &mount, session_options).unwrap();
        Self {
            fs,
            session,
            mount,
            directory,
            client,
            _runtime: runtime,
        }
    }

    /// Unmounts, and waits for the session's end.
    #[track_caller]
    pub(super) fn end(self) {
        unmount(&self.mount);
        self.session.wait();
        assert!(!self.mount.is_mounted());
        assert_eq!(self.session.operations_in_progress(), 0);
    }

    /// Ends the connection as an operator does; the mount stays until it is dropped.
    pub(super) fn abort(&self) {
        let connections = Connections::mount();
        let number = self.mount.device_number().unwrap();
        let connection = connections.0.path().join(number.minor.to_string());
        fs::write(connection.join("abort"), "1").unwrap();
        self.session.wait();
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Unmounts. A process that another test is just starting has this one's files open, until it runs
/// its program.
#[track_caller]
fn unmount(mount: &Mount) {
    wait_until("the end of its use", || match mount.unmount(false) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => false,
        Err(error) => panic!("{error}"),
    });
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
        ("fuse.mount-s3", "test-bucket")
    );
    unmount(&mounted.mount);
    mounted.session.wait();
    assert!(!mounted.mount.is_mounted());
    mounted.mount.unmount(false).unwrap();
}

/// The kernel gives a mount the number of one that has ended, whose process may be slow to end.
#[test]
fn what_is_mounted_at_the_directory_afterwards_stays() {
    for is_served in [true, false] {
        // Another test's mount may get the number.
        let had_the_number = (0..100).any(|_| {
            let first = Mounted::new();
            wait_until("the end of its use", || {
                nix::mount::umount(first.path()).is_ok()
            });
            first.session.wait();
            let second = mount(first.path(), &mount_options()).unwrap();
            let serve = || {
                let options = session_options(&first._runtime);
                Session::start(Arc::clone(&first.fs), &second, options).unwrap()
            };
            let session = is_served.then(serve);
            let is_same = first.mount.device_number() == second.device_number();
            assert!(!first.mount.is_mounted());
            first.mount.unmount(true).unwrap();
            drop(first.mount);
            assert!(second.is_mounted(), "it is another's");
            second.unmount(true).unwrap();
            session.iter().for_each(Session::wait);
            is_same
        });
        assert!(had_the_number, "numbers are never used again");
    }
}

/// The kernel's list of connections, as `/sys/fs/fuse/connections` shows it where systemd mounted
/// it.
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

/// A process that asks its own mount, and is killed before it can answer, never ends.
#[test]
fn the_connection_is_known_before_anybody_serves() {
    let directory = tempfile::tempdir().unwrap();
    let mount = mount(directory.path(), &mount_options()).unwrap();
    let connections = Connections::mount();
    let connection = Connection::of(&mount).unwrap();
    let number = mount.device_number().unwrap().minor.to_string();
    assert!(connections.0.path().join(&number).is_dir());
    assert!(format!("{connection:?}").ends_with(&format!("/{number}\")")));
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
    mounted.end();
}

/// As an operator does with a mount that hangs.
#[test]
fn an_aborted_connection_ends_the_session() {
    let mounted = Mounted::new();
    mounted.abort();
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
    mounted.end();
}

#[test]
fn a_dropped_mount_is_gone() {
    let Mounted {
        session,
        mount,
        directory,
        _runtime,
        ..
    } = Mounted::new();
    drop(mount);
    assert_eq!(MountInfo::at(directory.path()).unwrap(), None);
    session.wait();
}

/// The bytes that `cat`, `dd iflag=direct` and many threads on one descriptor see.
#[track_caller]
fn check_reads(mounted: &Mounted) {
    const SIZE: u64 = 20_000_001;
    mounted.client.put_pattern("a/b/file", SIZE, 3);
    let path = mounted.path().join("a/b/file");
    assert_eq!(fs::metadata(&path).unwrap().len(), SIZE);
    assert!(fs::read(&path).unwrap() == pattern_bytes(3, 0..SIZE));
    for flags in [0, libc::O_DIRECT] {
        let file = fs::File::options()
            .read(true)
            .custom_flags(flags)
            .open(&path)
            .unwrap();
        thread::scope(|scope| {
            for worker in 0..8 {
                let file = &file;
                scope.spawn(move || {
                    for index in 0..64 {
                        let offset = (worker * 64 + index) * 7_919_993 % SIZE;
                        let mut buffer = vec![0; 5000];
                        let len = file.read_at(&mut buffer, offset).unwrap();
                        let end = SIZE.min(offset + 5000);
                        assert!(
                            buffer[..len] == pattern_bytes(3, offset..end),
                            "at {offset}"
                        );
                    }
                });
            }
        });
    }
}

#[test]
fn files_are_read() {
    let mounted = Mounted::new();
    check_reads(&mounted);
    mounted.end();
}

#[test]
fn files_are_read_over_cloned_descriptors() {
    let mounted = Mounted::with(Time::Immediate, &mount_options(), true);
    check_reads(&mounted);
    mounted.end();
}

#[test]
fn files_are_read_while_bytes_arrive_slowly() {
    let mounted = Mounted::with(Time::Threaded, &mount_options(), false);
    check_reads(&mounted);
    mounted.end();
}

/// With `auto_unmount` the helper mounts, for root too.
#[test]
fn the_helper_mounts() {
    let options = MountOptions {
        auto_unmount: true,
        ..mount_options()
    };
    let mounted = Mounted::with(Time::Immediate, &options, false);
    check_reads(&mounted);
    mounted.end();
}

#[test]
fn a_large_directory_is_listed_completely() {
    let mounted = Mounted::new();
    let names: BTreeSet<String> = (0..3000)
        .map(|index| format!("name with blanks {index}"))
        .collect();
    for name in &names {
        mounted.client.put_object(&format!("d/{name}"), "x");
    }
    let listed: BTreeSet<String> = fs::read_dir(mounted.path().join("d"))
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().len(), 1);
            entry.file_name().into_string().unwrap()
        })
        .collect();
    assert_eq!(listed, names);
    mounted.end();
}

#[test]
fn changes_are_refused() {
    for (read_only, errno) in [(false, libc::EPERM), (true, libc::EROFS)] {
        let options = MountOptions {
            read_only,
            ..mount_options()
        };
        let mounted = Mounted::with(Time::Immediate, &options, false);
        mounted.client.put_object("f", "x");
        let file = mounted.path().join("f");
        let new = mounted.path().join("new");
        let check = |what: &str, result: io::Result<()>| {
            assert_eq!(result.unwrap_err().raw_os_error(), Some(errno), "{what}");
        };
        if read_only {
            check("create", fs::write(&new, "x"));
        }
        check("overwrite", fs::write(&file, "x"));
        check("unlink", fs::remove_file(&file));
        if read_only {
            check("mkdir", fs::create_dir(&new));
        }
        check(
            "chmod",
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)),
        );
        check("symlink", std::os::unix::fs::symlink("f", &new));
        mounted.end();
    }
}

/// A reader that waits for bytes that never come can be killed, with a signal that it might have
/// handled.
#[test]
fn a_signal_reaches_a_reader_that_waits() {
    let mounted = Mounted::with(Time::ManualGets, &mount_options(), false);
    mounted.client.put_pattern("f", 1 << 20, 3);
    let mut reader = Command::new("dd")
        .arg(format!("if={}", mounted.path().join("f").display()))
        .args(["of=/dev/null", "iflag=direct", "bs=128k", "status=none"])
        .spawn()
        .unwrap();
    while mounted.session.operations_in_progress() == 0 {
        thread::yield_now();
    }
    let pid = Pid::from_raw(reader.id().try_into().unwrap());
    nix::sys::signal::kill(pid, Signal::SIGTERM).unwrap();
    let status = reader.wait().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGTERM));
    assert_eq!(mounted.session.operations_in_progress(), 0);
    mounted.client.deliver_all();
    mounted.end();
}
