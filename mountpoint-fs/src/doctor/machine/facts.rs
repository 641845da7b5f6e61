//! Facts about this machine, from files under `/proc`, `/sys` and `/etc`.
//!
//! Judges nothing. Changes nothing. A check that may hang runs on a thread that is abandoned after
//! a time.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use super::kernel::{Device, KernelFacts};
use super::memory::{Group, MemoryFacts};
use super::mounting::{Helper, MountingFacts};
use super::network::{Interface, NetworkFacts};
use super::process_limits::LimitsFacts;
use crate::config::limits;
use crate::mount::{MountConfig, memory_groups};

pub(in crate::doctor) fn kernel(config: &MountConfig) -> KernelFacts {
    let release = text("/proc/sys/kernel/osrelease");
    let build = release
        .as_deref()
        .and_then(|release| text(format!("/boot/config-{}", release.trim())));
    let fuse = |name: &str| text(format!("/proc/sys/fs/fuse/{name}"));
    let parameter = |name: &str| text(format!("/sys/module/fuse/parameters/{name}"));
    KernelFacts {
        release,
        build,
        device: device(),
        is_root: is_root(),
        page_size: page_size(),
        max_user_bgreq: parameter("max_user_bgreq"),
        max_pages_limit: fuse("max_pages_limit"),
        request_timeouts: [fuse("default_request_timeout"), fuse("max_request_timeout")],
        max_background: config.fuse.max_background,
    }
}

pub(in crate::doctor) fn mounting(config: &MountConfig) -> MountingFacts {
    MountingFacts {
        is_root: is_root(),
        status: text("/proc/self/status").unwrap_or_default(),
        helper: bounded(DOCTOR_LOCAL, helper).unwrap_or_else(|| {
            Helper::Fails(format!("no answer within {} s", DOCTOR_LOCAL.as_secs()))
        }),
        fuse_conf: text("/etc/fuse.conf"),
        wants_others: config.access.allow_other || config.access.allow_root,
        wants_auto_unmount: config.access.auto_unmount,
    }
}

pub(in crate::doctor) fn process_limits(config: &MountConfig) -> LimitsFacts {
    let interfaces = config.client.network_interfaces.len().max(1);
    LimitsFacts {
        text: text("/proc/self/limits").unwrap_or_default(),
        connections: (config.client.connections_max(None) * interfaces) as u64,
    }
}

pub(in crate::doctor) fn memory(config: &MountConfig) -> MemoryFacts {
    MemoryFacts {
        meminfo: text("/proc/meminfo").unwrap_or_default(),
        groups: groups(&text("/proc/self/cgroup").unwrap_or_default()),
        read_memory: config.fs.read.memory_max,
    }
}

pub(in crate::doctor) fn network(config: &MountConfig) -> NetworkFacts {
    NetworkFacts {
        interfaces: interfaces(),
        routes: text("/proc/net/route").unwrap_or_default(),
        routes_v6: text("/proc/net/ipv6_route").unwrap_or_default(),
        bound: config.client.network_interfaces.clone(),
        target_gbps: config
            .client
            .throughput_target_gbps
            .unwrap_or(limits::THROUGHPUT_DEFAULT_GBPS),
    }
}

/// The result of `look`, or `None` if it takes longer than `time_max`.
///
/// The thread is then left behind.
pub(in crate::doctor) fn bounded<T: Send + 'static>(
    time_max: Duration,
    look: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, found) = sync_channel(1);
    let thread = std::thread::Builder::new()
        .name("doctor-look".to_owned())
        .spawn(move || {
            // The receiver may have given up.
            sender.send(look()).ok();
        });
    thread.ok()?;
    found.recv_timeout(time_max).ok()
}

/// Opens the device, which makes no connection and changes nothing.
fn device() -> Device {
    match File::options().read(true).write(true).open("/dev/fuse") {
        Ok(_) => Device::Opens,
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => Device::Missing,
            io::ErrorKind::PermissionDenied => Device::Denied,
            _ => Device::Fails(error.to_string()),
        },
    }
}

fn helper() -> Helper {
    let output = Command::new("fusermount3")
        .arg("-V")
        .stdin(Stdio::null())
        .output();
    match output {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Helper::Missing,
        Err(error) => Helper::Fails(error.to_string()),
        Ok(output) => {
            let version = String::from_utf8_lossy(&output.stdout);
            let version = version.lines().next().unwrap_or("no version").to_owned();
            let is_set_uid = HELPER_PLACES.iter().find_map(|place| {
                let metadata = std::fs::metadata(place).ok()?;
                Some(metadata.uid() == 0 && metadata.permissions().mode() & SET_UID != 0)
            });
            Helper::Found {
                version,
                is_set_uid,
            }
        }
    }
}

/// The visible groups around this process, innermost first.
fn groups(memberships: &str) -> Vec<Group> {
    let seen = memory_groups(memberships).into_iter().filter_map(|group| {
        Some(Group {
            path: group.limit.parent()?.display().to_string(),
            limit: text(&group.limit)?,
            usage: text(&group.usage),
        })
    });
    seen.collect()
}

fn interfaces() -> Vec<Interface> {
    let folders = std::fs::read_dir("/sys/class/net").into_iter().flatten();
    let mut interfaces: Vec<Interface> = folders
        .flatten()
        .take(INTERFACES_MAX)
        .map(|folder| {
            let file = |name: &str| text(folder.path().join(name));
            Interface {
                name: folder.file_name().to_string_lossy().into_owned(),
                operstate: file("operstate"),
                speed: file("speed"),
                kind: file("type"),
                mtu: file("mtu"),
            }
        })
        .collect();
    interfaces.sort_by(|a, b| a.name.cmp(&b.name));
    interfaces
}

/// A small file's text; `None` if it cannot be read.
fn text(path: impl AsRef<Path>) -> Option<String> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(FILE_LEN_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A directory where an ordinary user may make directories; `None` for root.
pub(in crate::doctor) fn home() -> Option<PathBuf> {
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid());
    user.ok()
        .flatten()
        .map(|user| user.dir)
        .filter(|_| !is_root())
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

fn page_size() -> u32 {
    let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
    size.ok()
        .flatten()
        .and_then(|size| u32::try_from(size).ok())
        .unwrap_or(4096)
}

/// Paths of the helper in the distributions.
const HELPER_PLACES: [&str; 3] = [
    "/usr/bin/fusermount3",
    "/bin/fusermount3",
    "/usr/local/bin/fusermount3",
];
/// How long the doctor waits for a local resource that may hang. A directory, a helper program.
pub(in crate::doctor) const DOCTOR_LOCAL: Duration = Duration::from_secs(2);
const SET_UID: u32 = 0o4000;
/// Bound of a file's size; a kernel's build configuration, the largest, has some 300 KiB.
const FILE_LEN_MAX: u64 = 1 << 20;
/// Bound of interfaces; container hosts have hundreds.
const INTERFACES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_given_up() {
        let (_keep, wait) = sync_channel::<()>(1);
        let hung = bounded(Duration::from_millis(10), move || wait.recv().is_ok());
        assert_eq!(hung, None);
        assert_eq!(bounded(Duration::from_secs(30), || 7), Some(7));
        // A check that panics counts as one that does not answer.
        let died: Option<()> = bounded(Duration::from_secs(30), || panic!("on purpose"));
        assert_eq!(died, None);
    }

    #[test]
    fn this_machine_has_files_to_read() {
        assert!(
            text("/proc/self/limits")
                .unwrap()
                .contains("Max open files")
        );
        assert_eq!(text("/proc/no-such-file"), None);
        assert!(interfaces().iter().any(|interface| interface.name == "lo"));
        assert!(groups("nonsense\n0::/no/such/group\n").len() <= 1);
    }
}
