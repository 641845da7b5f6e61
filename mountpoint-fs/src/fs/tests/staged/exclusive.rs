//! Names that two hosts make, with write-back that asks the bucket about them.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::SimClient;
use mountpoint_client::testing::sim::{Fault, FaultRule, Operation, When};
use tempfile::TempDir;

use super::{ROOT, Staged, WRITE, all_changes, wait};
use crate::config::{ConflictPolicy, WriteBackConfig, WriteConfig};
use crate::handle::Opener;
use crate::operation::{FsError, HandleNo, RenameMode, Stop, WriteOptions};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(600);

const NEW: WriteOptions = WriteOptions {
    exclusive: true,
    ..WRITE
};

impl Staged {
    /// A host with write-back, which asks the bucket if names are made exclusively.
    fn host(bucket: &Arc<SimClient>, is_exclusive: bool, on_conflict: ConflictPolicy) -> Self {
        let write_back = WriteBackConfig {
            delay: LONG,
            drain_timeout: LONG,
            is_exclusive,
        };
        let write = WriteConfig {
            posix_metadata: true,
            ..all_changes()
        };
        let (bucket, write_back) = (Arc::clone(bucket), Some(write_back));
        let directory = TempDir::new().unwrap();
        Self::on(directory, bucket, (write, write_back), on_conflict)
    }

    /// Two hosts of one bucket.
    fn hosts(is_exclusive: bool) -> [Self; 2] {
        let bucket = Self::new(&[]).bucket;
        let host = || Self::host(&bucket, is_exclusive, ConflictPolicy::Fail);
        [host(), host()]
    }

    fn create_new(&self, name: &str) -> Result<HandleNo, FsError> {
        let name = OsStr::new(name);
        let created = self.fs.create_for(ROOT, name, NEW, Opener::UNSEEN);
        wait(created).map(|(_, opened)| opened.handle)
    }

    /// Whether the name is new to the host, as it is to the kernel before each call that makes one.
    fn is_new(&self, name: &str) -> bool {
        matches!(
            wait(self.fs.lookup(ROOT, OsStr::new(name))),
            Err(FsError::NotFound)
        )
    }

    /// Makes `name` by a call that asks for it to be new. `mine` is a closed file of this host.
    fn claim(&self, call: &str, name: &str, mine: &str) -> Result<(), FsError> {
        let place = (ROOT, OsStr::new(name));
        match call {
            "open" => {
                let handle = self.create_new(name)?;
                self.write(handle, 0, "equal").unwrap();
                self.close(handle)
            }
            "mkdir" => wait(self.fs.make_directory(place.0, place.1, 0o755)).map(drop),
            "symlink" => {
                let made = self.fs.symbolic_link(place.0, place.1, OsStr::new("to"));
                wait(made).map(drop)
            }
            "mknod" => wait(self.fs.make_file(place.0, place.1, WRITE)).map(drop),
            _ => {
                let (mode, stop) = (RenameMode::KeepExisting, Stop::never());
                wait(self.fs.rename((ROOT, OsStr::new(mine)), place, mode, &stop))
            }
        }
    }

    #[track_caller]
    fn check_uploads(&self, key: &str, content: &str) {
        self.upload();
        assert_eq!(self.stored(key).unwrap(), content);
        assert_eq!(self.kept(), 0);
    }
}

/// The calls that make a name of which the caller asks that nobody has it.
const CALLS: [&str; 5] = ["open", "mkdir", "symlink", "mknod", "rename"];

#[test]
fn of_two_hosts_one_makes_a_name_by_each_call() {
    for (call, is_exclusive) in CALLS.into_iter().flat_map(|it| [(it, true), (it, false)]) {
        let hosts = Staged::hosts(is_exclusive);
        let made: Vec<_> = (0..8)
            .map(|round| {
                let (name, order) = (format!("n{round}"), [round % 2, 1 - round % 2]);
                for host in &hosts {
                    assert!(host.is_new(&name), "{call}");
                }
                order.map(|host| {
                    let (host, mine) = (&hosts[host], format!("mine-{host}-{round}"));
                    host.make(&mine, "equal");
                    let made = host.claim(call, &name, &mine);
                    assert!(!host.is_new(&name), "{call}");
                    made
                })
            })
            .collect();
        for [first, second] in &made {
            assert!(first.is_ok(), "{call}: {made:?}");
            match is_exclusive {
                true => assert!(matches!(second, Err(FsError::Exists)), "{call}: {made:?}"),
                // The document says so.
                false if ["open", "symlink"].contains(&call) => assert!(second.is_ok(), "{call}"),
                false => {}
            }
        }
        for host in hosts.iter().filter(|_| is_exclusive) {
            host.upload();
            assert_eq!(host.kept(), 0, "{call}");
        }
    }
}

#[test]
fn the_bucket_has_a_new_file_empty_before_its_open_returns_and_its_bytes_later() {
    let [host, other] = Staged::hosts(true);
    let handle = host.create_new("lock").unwrap();
    assert_eq!(host.stored("lock").unwrap(), "");
    host.write(handle, 0, "host 1").unwrap();
    host.close(handle).unwrap();
    assert_eq!(host.stored("lock").unwrap(), "");
    assert!(matches!(other.create_new("lock"), Err(FsError::Exists)));
    host.check_uploads("lock", "host 1");
    let untouched = host.create_new("empty").unwrap();
    host.close(untouched).unwrap();
    host.check_uploads("empty", "");
    // Other files ask nobody.
    let (_, handle) = host.create(ROOT, "plain");
    host.close(handle).unwrap();
    assert_eq!(host.stored("plain"), None);
}

#[test]
fn what_is_written_to_a_new_file_replaces_that_version_alone() {
    for policy in [ConflictPolicy::Fail, ConflictPolicy::KeepBoth] {
        let bucket = Staged::new(&[]).bucket;
        let host = Staged::host(&bucket, true, policy);
        let handle = host.create_new("f").unwrap();
        host.write(handle, 0, "mine").unwrap();
        bucket.put_object("f", "theirs");
        host.close(handle).unwrap();
        host.upload();
        assert_eq!(host.stored("f").unwrap(), "theirs");
        let (is_kept, keys) = (host.kept() > 0, bucket.keys().len());
        match policy {
            ConflictPolicy::KeepBoth => assert_eq!((is_kept, keys), (false, 2)),
            _ => assert_eq!((is_kept, keys), (true, 1)),
        }
    }
}

#[test]
fn a_kill_behind_the_open_leaves_an_empty_file_and_one_behind_the_close_its_bytes() {
    let [host, other] = Staged::hosts(true);
    let open = host.create_new("open").unwrap();
    host.write(open, 0, "not closed").unwrap();
    let closed = host.create_new("closed").unwrap();
    host.write(closed, 0, "closed").unwrap();
    host.close(closed).unwrap();
    let next = host.killed();
    next.check_uploads("closed", "closed");
    next.check_uploads("open", "");
    assert!(matches!(other.create_new("open"), Err(FsError::Exists)));
}

#[test]
fn a_creation_whose_answer_is_lost_is_the_host_s_own() {
    let [host, other] = Staged::hosts(true);
    host.bucket.add_fault(FaultRule {
        operation: Some(Operation::PutObject),
        when: When::Next(1),
        fault: Fault::Repeat,
    });
    let handle = host.create_new("f").unwrap();
    assert!(matches!(other.create_new("f"), Err(FsError::Exists)));
    host.write(handle, 0, "mine").unwrap();
    host.close(handle).unwrap();
    host.check_uploads("f", "mine");
}
