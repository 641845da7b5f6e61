//! Files that Linux reads by itself, beside files that this process serves.
//!
//! The local files have other bytes than the objects, which no cache's have: a read shows where it
//! was answered.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier};
use std::thread;

use mountpoint_client::testing::sim::{SimOptions, Time};
use mountpoint_client::types::{ETag, Key};
use mountpoint_client::{ObjectClient, SimClient};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::mount::MsFlags;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::mount::{Mounted, mount_options};
use super::served::{OPEN, Served, open_to_all, session_options, u32_at, words};
use crate::clock::{Clock, wait_until};
use crate::config::{FsConfig, PassthroughMode, WriteConfig};
use crate::fs::FileSystem;
use crate::fuse::{Session, SessionOptions, Transport};
use crate::operation::LocalFiles;
use crate::sync::Mutex;

/// A directory with a file for each version that a test has put there.
struct Shelf {
    directory: TempDir,
    files: Mutex<HashMap<(Key, ETag), Arc<File>>>,
}

impl Shelf {
    fn new() -> Arc<Self> {
        Self::below(&std::env::temp_dir())
    }

    fn below(directory: &Path) -> Arc<Self> {
        Arc::new(Self {
            directory: tempfile::tempdir_in(directory).unwrap(),
            files: Mutex::default(),
        })
    }

    /// Puts the object there, with `bytes` in place of its own.
    fn put(&self, client: &SimClient, key: &str, bytes: &[u8]) -> PathBuf {
        let object = client.object(key).unwrap();
        let mut files = self.files.lock();
        let path = self.directory.path().join(files.len().to_string());
        fs::write(&path, bytes).unwrap();
        let file = Arc::new(File::open(&path).unwrap());
        files.insert((Key::parse(key).unwrap(), object.etag), file);
        path
    }

    fn clear(&self) {
        self.files.lock().clear();
    }
}

impl LocalFiles for Shelf {
    fn whole(&self, key: &Key, etag: &ETag, size: u64) -> Option<Arc<File>> {
        let file = self.files.lock().get(&(key.clone(), etag.clone())).cloned();
        file.filter(|file| file.metadata().unwrap().len() == size)
    }
}

/// A mount with local files.
struct Mount {
    mounted: Mounted,
    fs: Arc<FileSystem>,
    shelf: Arc<Shelf>,
}

/// Length of most files: no session thread gives back files of this length.
const LEN: usize = 1_300_001;

fn remote() -> Vec<u8> {
    vec![b'r'; LEN]
}

fn local() -> Vec<u8> {
    vec![b'l'; LEN]
}

/// A bucket that may be changed, whose file system has the local files of `shelf`.
fn bucket(shelf: &Arc<Shelf>) -> (Arc<SimClient>, Arc<FileSystem>) {
    let client = Arc::new(SimClient::new(SimOptions {
        time: Time::Immediate,
        ..SimOptions::default()
    }));
    let config = FsConfig {
        write: WriteConfig {
            allow_delete: true,
            allow_overwrite: true,
            allow_append: true,
            allow_rename: true,
            ..WriteConfig::default()
        },
        ..FsConfig::default()
    };
    let its_client = Arc::clone(&client) as Arc<dyn ObjectClient>;
    let fs = Arc::new(FileSystem::new(its_client, config, Clock::monotonic()));
    fs.set_local_files(Arc::clone(shelf) as Arc<dyn LocalFiles>);
    (client, fs)
}

impl Mount {
    fn new() -> Self {
        Self::with(Shelf::new(), Transport::DevFuse, PassthroughMode::On)
    }

    fn with(shelf: Arc<Shelf>, transport: Transport, passthrough: PassthroughMode) -> Self {
        let (client, fs) = bucket(&shelf);
        let mounted = Mounted::over(client, Arc::clone(&fs), &mount_options(), |session| {
            session.transport = transport;
            session.passthrough = passthrough;
        });
        Self { mounted, fs, shelf }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.mounted.path().join(name)
    }

    /// An object that is also a local file.
    fn put_both(&self, name: &str) -> PathBuf {
        self.mounted.client.put_object(name, remote());
        self.shelf.put(&self.mounted.client, name, &local());
        self.path(name)
    }

    /// Bytes that this process has read for applications.
    fn served(&self) -> u64 {
        self.fs.bytes_read()
    }

    fn end(self) {
        self.mounted.end();
    }
}

/// All bytes of an open file, from its beginning.
fn read_all(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; LEN * 2];
    let mut len = 0;
    loop {
        let read = file.read_at(&mut bytes[len..], len as u64).unwrap();
        if read == 0 {
            bytes.truncate(len);
            return bytes;
        }
        len += read;
    }
}

fn open_with(path: &Path, flags: libc::c_int) -> File {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags);
    options.open(path).unwrap()
}

#[test]
fn a_whole_local_file_is_read_by_the_kernel() {
    let mount = Mount::new();
    let path = mount.put_both("d/f");
    let stat = fs::metadata(&path).unwrap();
    for _ in 0..2 {
        let file = File::open(&path).unwrap();
        let other = File::open(&path).unwrap();
        assert!(read_all(&file) == local() && read_all(&other) == local());
        drop(file);
        assert!(read_all(&other) == local(), "the other one was closed");
        let while_open = other.metadata().unwrap();
        assert_eq!(while_open.len(), stat.len());
        assert_eq!(while_open.modified().unwrap(), stat.modified().unwrap());
        assert_eq!(while_open.ino(), stat.ino());
    }
    assert_eq!(mount.served(), 0);
    mount.shelf.clear();
    // The kernel tells of a close behind it.
    wait_until("the last close", || fs::read(&path).unwrap() == remote());
    assert_eq!(mount.served(), LEN as u64);
    mount.end();
}

/// The kernel fills pages of the mount then, which later reads must not see.
#[test]
fn bytes_that_are_asked_for_ahead_are_not_read() {
    let mount = Mount::new();
    let path = mount.put_both("f");
    let file = File::open(&path).unwrap();
    let ahead = PosixFadviseAdvice::POSIX_FADV_WILLNEED;
    posix_fadvise(&file, 0, 0, ahead).unwrap();
    wait_until("the kernel's READs", || mount.served() > 0);
    assert!(read_all(&file) == local());
    assert!(fs::read(&path).unwrap() == local());
    drop(file);
    mount.end();
}

#[test]
fn without_passthrough_all_is_served() {
    for (transport, setting) in [
        (Transport::DevFuse, PassthroughMode::Off),
        (Transport::Fuser, PassthroughMode::On),
    ] {
        let mount = Mount::with(Shelf::new(), transport, setting);
        let path = mount.put_both("f");
        assert!(fs::read(&path).unwrap() == remote());
        mount.end();
    }
}

/// A directory of an overlay: the kernel reads no file of it by itself.
struct Overlay {
    directory: TempDir,
}

impl Overlay {
    fn mount() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path();
        // An overlay's upper directory cannot be on another overlay, which a container's root is.
        nix::mount::mount(
            Some("none"),
            base,
            Some("tmpfs"),
            MsFlags::empty(),
            None::<&str>,
        )
        .unwrap();
        for name in ["lower", "upper", "work", "merged"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        let option = |name: &str| format!("{name}dir={}", base.join(name).display());
        let options = [option("lower"), option("upper"), option("work")].join(",");
        let (kind, flags) = (Some("overlay"), MsFlags::empty());
        nix::mount::mount(kind, &base.join("merged"), kind, flags, Some(&*options)).unwrap();
        Self { directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("merged")
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        for path in [self.path(), self.directory.path().to_owned()] {
            nix::mount::umount2(&path, nix::mount::MntFlags::MNT_DETACH).unwrap();
        }
    }
}

#[test]
fn local_files_on_an_overlay_are_not_used() {
    let overlay = Overlay::mount();
    let shelf = Shelf::below(&overlay.path());
    let mount = Mount::with(shelf, Transport::DevFuse, PassthroughMode::Auto);
    for name in ["f", "g"] {
        let path = mount.put_both(name);
        assert!(fs::read(&path).unwrap() == remote());
    }
    mount.end();
    drop(overlay);
}

/// A device that is no FUSE connection takes no file, as the kernel takes none of a process without
/// the capability.
#[test]
fn a_refused_file_is_served_as_any_other() {
    let shelf = Shelf::new();
    let change = |session: &mut SessionOptions| {
        session.passthrough = PassthroughMode::On;
    };
    let files = Arc::clone(&shelf) as Arc<dyn LocalFiles>;
    let mut served = Served::with_local_files(Some(files), Time::Immediate, change, open_to_all);
    served.client.put_object("f", remote());
    shelf.put(&served.client, "f", &local());
    let node = served.lookup(1, "f");
    for _ in 0..2 {
        let opened = served.ask(OPEN, node, &words(&[0, 0]));
        assert_eq!((opened.errno, u32_at(&opened.body, 8) & 128), (0, 0));
        assert_eq!(u32_at(&opened.body, 12), 0, "no backing file");
    }
    served.end();
}

#[test]
fn an_inode_that_is_served_stays_so_until_all_have_closed_it() {
    let mount = Mount::new();
    mount.mounted.client.put_object("f", remote());
    let path = mount.path("f");
    let early = File::open(&path).unwrap();
    mount.shelf.put(&mount.mounted.client, "f", &local());
    let late = File::open(&path).unwrap();
    assert_eq!(
        late.metadata().unwrap().ino(),
        early.metadata().unwrap().ino()
    );
    drop(early);
    assert!(read_all(&late) == remote());
    assert!(fs::read(&path).unwrap() == remote());
    drop(late);
    // The kernel tells of the last close a little later.
    wait_until("the last close", || fs::read(&path).unwrap() == local());
    mount.end();
}

#[test]
fn a_local_file_that_goes_is_read_to_the_last_close() {
    let mount = Mount::new();
    let path = mount.put_both("f");
    let early = File::open(&path).unwrap();
    mount.shelf.clear();
    for entry in fs::read_dir(mount.shelf.directory.path()).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let late = File::open(&path).unwrap();
    assert!(read_all(&early) == local() && read_all(&late) == local());
    drop((early, late));
    wait_until("the last close", || fs::read(&path).unwrap() == remote());
    mount.end();
}

/// Changes a file that is passed through to a reader. `change` returns what the file is then. The
/// reader keeps its version, and nothing changes the local file.
#[track_caller]
fn check_change(change: impl FnOnce(&Path) -> Vec<u8>) {
    let mount = Mount::new();
    let path = mount.put_both("f");
    let reader = File::open(&path).unwrap();
    assert!(read_all(&reader) == local());
    let expected = change(&path);
    assert!(read_all(&reader) == local(), "its version is open");
    assert_eq!(reader.metadata().unwrap().len(), LEN as u64);
    let object = fs::read(&path).unwrap();
    assert!(object == expected, "{} bytes", object.len());
    drop(reader);
    for entry in fs::read_dir(mount.shelf.directory.path()).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        assert!(bytes == local(), "the local file was changed");
    }
    mount.end();
}

fn open_both(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).open(path).unwrap()
}

#[test]
fn a_passed_through_file_is_replaced() {
    check_change(|path| {
        fs::write(path, b"new").unwrap();
        b"new".to_vec()
    });
}

#[test]
fn a_passed_through_file_is_appended_to() {
    check_change(|path| {
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(b"more").unwrap();
        [&remote()[..], b"more"].concat()
    });
}

#[test]
fn a_passed_through_file_is_cut() {
    check_change(|path| {
        nix::unistd::truncate(path, 10).unwrap();
        remote()[..10].to_vec()
    });
}

#[test]
fn a_passed_through_file_is_opened_for_both_and_cut() {
    check_change(|path| {
        let mut file = open_both(path);
        let mut bytes = [0; 4];
        file.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"rrrr", "from the object");
        file.set_len(0).unwrap();
        file.rewind().unwrap();
        file.write_all(b"cut").unwrap();
        b"cut".to_vec()
    });
}

#[test]
fn a_passed_through_file_is_written_in_place() {
    check_change(|path| {
        open_both(path).write_all(b"x").unwrap();
        drop(OpenOptions::new().write(true).open(path).unwrap());
        [b"x", &remote()[1..]].concat()
    });
}

#[test]
fn a_file_that_is_opened_for_both_first_is_served() {
    let mount = Mount::new();
    let path = mount.put_both("f");
    let both = open_both(&path);
    let reader = File::open(&path).unwrap();
    assert!(read_all(&both) == remote() && read_all(&reader) == remote());
    assert_eq!(
        both.metadata().unwrap().ino(),
        reader.metadata().unwrap().ino()
    );
    drop((both, reader));
    mount.end();
}

#[test]
fn direct_reads_beside_the_kernels() {
    let mount = Mount::new();
    let path = mount.put_both("f");
    let by_kernel = File::open(&path).unwrap();
    let direct = open_with(&path, libc::O_DIRECT);
    // Places that no disk could read directly.
    let mut bytes = [0; 5];
    direct.read_exact_at(&mut bytes, 1001).unwrap();
    assert_eq!(&bytes, b"rrrrr");
    assert!(read_all(&by_kernel) == local());
    drop((by_kernel, direct));
    // The other way round, the inode is served.
    let path = mount.put_both("g");
    let direct = open_with(&path, libc::O_DIRECT);
    let plain = File::open(&path).unwrap();
    assert!(read_all(&direct) == remote() && read_all(&plain) == remote());
    drop((direct, plain));
    mount.end();
}

#[test]
fn names_change_while_the_kernel_reads() {
    let mount = Mount::new();
    let paths = ["unlinked", "renamed", "replaced"].map(|name| mount.put_both(name));
    let open = paths.each_ref().map(|path| File::open(path).unwrap());
    fs::remove_file(&paths[0]).unwrap();
    let new = mount.path("new");
    fs::rename(&paths[1], &new).unwrap();
    fs::write(mount.path("other"), b"other").unwrap();
    fs::rename(mount.path("other"), &paths[2]).unwrap();
    for file in &open {
        assert!(read_all(file) == local());
        assert_eq!(file.metadata().unwrap().len(), LEN as u64);
    }
    assert_eq!(fs::read(&paths[0]).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fs::read(&paths[1]).unwrap_err().kind(), ErrorKind::NotFound);
    let renamed = fs::read(&new).unwrap();
    assert!(renamed == remote() || renamed == local(), "one version");
    assert_eq!(fs::read(&paths[2]).unwrap(), b"other");
    drop(open);
    mount.end();
}

#[test]
fn another_version_is_another_file() {
    let mount = Mount::new();
    let path = mount.put_both("f");
    let old = File::open(&path).unwrap();
    mount.mounted.client.put_object("f", "new version");
    assert_eq!(fs::read(&path).unwrap(), b"new version");
    mount.shelf.put(&mount.mounted.client, "f", b"NEW VERSION");
    let new = File::open(&path).unwrap();
    assert_eq!(read_all(&new), b"NEW VERSION");
    assert!(read_all(&old) == local());
    drop((old, new));
    mount.end();
}

/// Shared and private mappings, in a child too, and of a descriptor that was closed meanwhile.
#[test]
fn mappings_are_of_the_local_file() {
    const PROGRAM: &str = "
import mmap, os, sys
with open(sys.argv[1], 'rb') as file:
    shared = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
    private = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    size = os.fstat(file.fileno()).st_size
assert shared[:] == b'l' * size
private[:5] = b'mine!'
child = os.fork()
if child == 0:
    os._exit(0 if private[:6] == b'mine!l' and shared[-1:] == b'l' else 1)
assert os.waitpid(child, 0)[1] == 0
assert open(sys.argv[1], 'rb').read() == b'l' * size
";
    let mount = Mount::new();
    let path = mount.put_both("f");
    let mut python = Command::new("python3");
    let status = python.args(["-c", PROGRAM]).arg(&path).status().unwrap();
    assert!(status.success());
    assert_eq!(mount.served(), 0);
    mount.end();
}

#[test]
fn a_killed_reader_leaves_nothing_behind() {
    let mount = Mount::new();
    let path = mount.put_both("f");
    let mut reader = Command::new("sleep")
        .arg("1000")
        .stdin(Stdio::from(File::open(&path).unwrap()))
        .spawn()
        .unwrap();
    let pid = Pid::from_raw(reader.id().try_into().unwrap());
    nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
    reader.wait().unwrap();
    mount.shelf.clear();
    wait_until("the last close", || fs::read(&path).unwrap() == remote());
    mount.end();
}

/// Opens of all kinds at once: each sees one version, and none fails.
#[test]
fn opens_of_all_kinds_at_once() {
    const WORKERS: usize = 8;
    let mount = Mount::new();
    let paths: Vec<_> = (0..100)
        .map(|file| mount.put_both(&format!("d/{file}")))
        .collect();
    let (paths, local, remote) = (&paths, &local(), &remote());
    let together = &Barrier::new(WORKERS);
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            scope.spawn(move || {
                for (path, round) in paths.iter().zip(0..) {
                    let kind = (worker + round) % 4;
                    let mut options = OpenOptions::new();
                    match kind {
                        0 => options.read(true).write(true),
                        1 => options.read(true).custom_flags(libc::O_DIRECT),
                        _ => options.read(true),
                    };
                    together.wait();
                    let file = options.open(path).unwrap();
                    let bytes = read_all(&file);
                    assert!(bytes == *remote || (kind > 1 && bytes == *local));
                }
            });
        }
    });
    mount.end();
}

/// As an operator does with a mount that hangs: the kernel goes on without this process.
#[test]
fn open_files_outlive_the_connection() {
    let mount = Mount::new();
    let paths = ["passed", "served"].map(|name| mount.put_both(name));
    let passed = File::open(&paths[0]).unwrap();
    mount.shelf.clear();
    let served = File::open(&paths[1]).unwrap();
    mount.mounted.abort();
    assert!(read_all(&passed) == local());
    let error = served.read_at(&mut [0; 10], 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotConnected);
    assert!(File::open(&paths[0]).is_err());
    drop((passed, served));
    mount.end();
}

/// As the CSI driver mounts: this process gets the device alone.
#[test]
fn a_passed_device() {
    let directory = tempfile::tempdir().unwrap();
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let device = OwnedFd::from(device.unwrap());
    let number = device.as_raw_fd();
    let options = format!("fd={number},rootmode=40000,user_id=0,group_id=0");
    let (kind, flags) = (Some("fuse.test"), MsFlags::empty());
    nix::mount::mount(kind, directory.path(), kind, flags, Some(&*options)).unwrap();
    let shelf = Shelf::new();
    let (client, fs) = bucket(&shelf);
    client.put_object("f", remote());
    shelf.put(&client, "f", &local());
    let runtime = Runtime::new().unwrap();
    let mount = open_to_all(device);
    let session = Session::start(Arc::clone(&fs), &mount, session_options(&runtime)).unwrap();
    assert!(fs::read(directory.path().join("f")).unwrap() == local());
    assert_eq!(fs.bytes_read(), 0);
    wait_until("the end of its use", || {
        nix::mount::umount(directory.path()).is_ok()
    });
    session.wait();
}
