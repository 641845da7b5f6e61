//! A simulated machine for one test: mounts of its own, another user, another `/dev/fuse`.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::User;
use tempfile::TempDir;

use crate::harness::{mount_s3, run};

/// Runs `test` in a private mount namespace, on a thread of its own. Its child processes inherit
/// it.
pub(crate) fn in_private_namespace<T: Send>(test: impl FnOnce() -> T + Send) -> T {
    let outcome = std::thread::scope(|scope| {
        let private = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).expect("the tests run as root");
            let all = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, all, None::<&str>).unwrap();
            forget_other_mounts();
            test()
        });
        private.join()
    });
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Removes the mounts of other tests from this namespace.
///
/// There they would outlive the unmount by their test, and their processes would not end.
fn forget_other_mounts() {
    let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    for line in mounts
        .lines()
        .filter(|line| line.contains(" - fuse.mount-s3 "))
    {
        // The mount is gone already if its test has removed the directory.
        umount2(line.split(' ').nth(4).unwrap(), MntFlags::MNT_DETACH).ok();
    }
}

/// Binds `from` over `to`, in a private namespace.
pub(crate) fn bind(from: &Path, to: &str) {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
}

/// Replaces `/dev/fuse` by one with these permissions, in a private namespace.
pub(crate) fn fuse_device(directory: &Path, mode: u32) {
    let node = directory.join(format!("fuse-{mode:o}"));
    mknod(&node, SFlag::S_IFCHR, Mode::empty(), makedev(10, 229)).unwrap();
    std::fs::set_permissions(&node, std::fs::Permissions::from_mode(mode)).unwrap();
    if !Path::new("/dev/fuse").exists() {
        std::fs::write("/dev/fuse", "").unwrap();
    }
    bind(&node, "/dev/fuse");
}

/// Hides every device except those that any program needs, in a private namespace.
pub(crate) fn bare_devices() {
    let none = None::<&str>;
    mount(Some("none"), "/dev", Some("tmpfs"), MsFlags::empty(), none).unwrap();
    for (name, minor) in [("null", 3), ("zero", 5), ("random", 8), ("urandom", 9)] {
        let node = Path::new("/dev").join(name);
        mknod(&node, SFlag::S_IFCHR, Mode::empty(), makedev(1, minor)).unwrap();
        std::fs::set_permissions(&node, std::fs::Permissions::from_mode(0o666)).unwrap();
    }
}

/// Replaces `/etc/fuse.conf`, in a private namespace.
pub(crate) fn fuse_conf(directory: &Path, content: &str) {
    let file = directory.join("fuse.conf");
    std::fs::write(&file, content).unwrap();
    bind(&file, "/etc/fuse.conf");
}

/// An ordinary user, with a directory to mount on.
pub(crate) struct Somebody {
    pub(crate) user: User,
    /// A directory that every user may traverse.
    root: TempDir,
}

impl Somebody {
    pub(crate) fn new(name: &str) -> Self {
        let user = User::from_name(name).unwrap().unwrap();
        let root = tempfile::tempdir().unwrap();
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        // The user must be able to run the program wherever the checkout lies.
        let (built, program) = (env!("CARGO_BIN_EXE_mount-s3"), root.path().join("mount-s3"));
        if std::fs::hard_link(built, &program).is_err() {
            // Not copied by this process: a child that another test is starting would have it open
            // for writing, which prevents its execution.
            let copied = run("cp", &[built, program.to_str().unwrap()]);
            assert!(copied.status.success(), "{copied:?}");
        }
        let somebody = Self { user, root };
        let directory = somebody.directory();
        std::fs::create_dir(&directory).unwrap();
        std::os::unix::fs::chown(
            &directory,
            Some(somebody.user.uid.as_raw()),
            Some(somebody.user.gid.as_raw()),
        )
        .unwrap();
        somebody
    }

    /// The user's own empty directory.
    pub(crate) fn directory(&self) -> PathBuf {
        self.root.path().join("mnt")
    }

    /// Directory for files of the test.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// A program that runs as this user.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir("/")
            .uid(self.user.uid.as_raw())
            .gid(self.user.gid.as_raw());
        command
    }

    /// `mount-s3` that runs as this user.
    pub(crate) fn mount_s3(&self) -> Command {
        let mut command = self.command(self.root.path().join("mount-s3"));
        let wanted = mount_s3();
        command.env_clear();
        for (name, value) in wanted.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        command.stdin(std::process::Stdio::null());
        command
    }

    /// Whether this user can read a file.
    pub(crate) fn can_read(&self, path: &Path) -> bool {
        let output = self.command("cat").arg(path).output().unwrap();
        output.status.success()
    }
}
