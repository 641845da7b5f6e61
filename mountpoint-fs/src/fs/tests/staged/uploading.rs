//! Names and attributes of files whose upload is under way: nobody waits for the whole of it.

use std::ffi::OsStr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use mountpoint_client::testing::sim::{Operation, SimOptions, Time};
use mountpoint_client::{ObjectClient as _, SimClient};
use tempfile::TempDir;

use super::{ROOT, Staged, all_changes, wait};
use crate::config::{ConflictPolicy, WriteBackConfig, WriteConfig};
use crate::fs::tests::OPENER;
use crate::operation::{AttributeChange, FsError, InodeNo, RenameMode, Stop};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(600);

const PART_LEN: usize = 5 << 20;

/// Three parts.
const LEN: usize = 12 << 20;

impl Staged {
    /// A mount whose requests wait for the test, with `write_back` or without.
    fn manual(write_back: bool) -> Self {
        let options = SimOptions {
            time: Time::Manual,
            ..SimOptions::default()
        };
        let write = WriteConfig {
            part_size: Some(PART_LEN as u64),
            posix_metadata: true,
            ..all_changes()
        };
        let write_back = write_back.then_some(WriteBackConfig {
            delay: LONG,
            drain_timeout: LONG,
            is_exclusive: false,
        });
        let bucket = Arc::new(SimClient::new(options));
        let config = (write, write_back);
        Self::on(
            TempDir::new().unwrap(),
            bucket,
            config,
            ConflictPolicy::Fail,
        )
    }

    /// Answers the requests that wait, but for those of `operation`.
    fn answer_but(&self, operation: Option<Operation>) {
        for request in self.bucket.pending_requests() {
            if Some(request.operation) != operation {
                self.bucket.finish(request.id);
            }
        }
    }

    /// Runs `work` to its end. Requests of `operation` are not answered meanwhile.
    fn run_but<T>(&self, operation: Option<Operation>, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            if let Some(outcome) = work.as_mut().now_or_never() {
                return outcome;
            }
            self.answer_but(operation);
            std::thread::yield_now();
        }
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.run_but(None, work)
    }

    /// Answers requests until one of `operation` waits.
    fn until(&self, operation: Operation) {
        let waits = || {
            let requests = self.bucket.pending_requests();
            requests
                .iter()
                .any(|request| request.operation == operation)
        };
        while !waits() {
            self.answer_but(Some(operation));
            std::thread::yield_now();
        }
    }

    /// A new closed file of `len` bytes, whose request of `operation` waits.
    fn uploading(&self, name: &str, len: usize, operation: Operation) -> InodeNo {
        let (ino, handle) = self.create(ROOT, name);
        for at in (0..len).step_by(1 << 20) {
            let data = vec![1; (len - at).min(1 << 20)];
            wait(self.fs.write(handle, at as u64, &data)).unwrap();
        }
        self.run_but(Some(operation), self.fs.flush(handle, &OPENER))
            .unwrap();
        self.fs.release(handle);
        self.fs.staging().unwrap().flush();
        self.until(operation);
        ino
    }

    /// The keys when all that is to be uploaded is. No upload is left.
    fn keys_at_end(&self) -> Vec<String> {
        let staging = self.fs.staging().unwrap();
        assert!(self.run(staging.drain(LONG)).is_empty());
        self.run(self.fs.drained());
        assert_eq!(self.run(self.bucket.list_uploads("")).unwrap(), []);
        assert_eq!(self.kept(), 0);
        self.bucket.keys()
    }
}

const PARTS: Option<Operation> = Some(Operation::UploadPart);

#[test]
fn a_removal_ends_an_upload_in_parts() {
    let mount = Staged::manual(true);
    // More than are in flight at once.
    let parts = 30;
    mount.uploading("f", parts * PART_LEN, Operation::UploadPart);
    let unlinked = mount.run_but(PARTS, mount.fs.unlink(ROOT, OsStr::new("f")));
    unlinked.unwrap();
    let found = mount.run_but(PARTS, mount.fs.lookup(ROOT, OsStr::new("f")));
    assert!(matches!(found, Err(FsError::NotFound)), "{found:?}");
    assert_eq!(mount.keys_at_end(), [""; 0]);
    let sent = mount.bucket.log().count(Operation::UploadPart);
    assert!(sent < parts, "{sent}");
}

#[test]
fn a_new_name_ends_an_upload_in_parts_to_the_old_one() {
    let mount = Staged::manual(true);
    mount.uploading("f", LEN, Operation::UploadPart);
    let (from, to) = ((ROOT, OsStr::new("f")), (ROOT, OsStr::new("g")));
    let stop = Stop::never();
    let renamed = mount.fs.rename(from, to, RenameMode::Replace, &stop);
    mount.run_but(PARTS, renamed).unwrap();
    assert_eq!(mount.keys_at_end(), ["g"]);
    assert_eq!(mount.bucket.object("g").unwrap().content.size(), LEN as u64);
}

#[test]
fn attributes_follow_an_upload_that_is_under_way() {
    let mount = Staged::manual(true);
    let ino = mount.uploading("f", LEN, Operation::UploadPart);
    let change = AttributeChange {
        mode: Some(0o600),
        ..AttributeChange::default()
    };
    mount
        .run_but(PARTS, mount.fs.set_attributes(ino, change))
        .unwrap();
    assert_eq!(mount.keys_at_end(), ["f"]);
    let object = mount.bucket.object("f").unwrap();
    let mode = object
        .headers
        .metadata
        .iter()
        .find(|(name, _)| name == "mode");
    assert_eq!(mode.unwrap().1, (0o100_600).to_string());
    assert_eq!(object.content.size(), LEN as u64);
}

/// A request that may have made the object is awaited.
#[test]
fn a_removal_awaits_the_request_that_makes_the_object() {
    for operation in [Operation::PutObject, Operation::CompleteMultipartUpload] {
        let len = match operation {
            Operation::PutObject => 10,
            _ => LEN,
        };
        let mount = Staged::manual(true);
        mount.uploading("f", len, operation);
        let mut unlink = pin!(mount.fs.unlink(ROOT, OsStr::new("f")));
        for _ in 0..100 {
            assert!(unlink.as_mut().now_or_never().is_none(), "{operation:?}");
            mount.answer_but(Some(operation));
        }
        mount.run(unlink).unwrap();
        assert_eq!(mount.keys_at_end(), [""; 0], "{operation:?}");
    }
}

/// Without write-back, the close of a file that is removed meanwhile has nothing to tell.
#[test]
fn a_removal_ends_the_store_of_a_close() {
    let mount = Staged::manual(false);
    let (_, handle) = mount.create(ROOT, "f");
    for at in 0..LEN as u64 >> 20 {
        wait(mount.fs.write(handle, at << 20, &vec![1; 1 << 20])).unwrap();
    }
    let mut close = Box::pin(mount.fs.flush(handle, &OPENER));
    while !(mount.bucket.pending_requests().iter()).any(|it| Some(it.operation) == PARTS) {
        assert!((&mut close).now_or_never().is_none());
        mount.answer_but(PARTS);
    }
    mount
        .run_but(PARTS, mount.fs.unlink(ROOT, OsStr::new("f")))
        .unwrap();
    mount.run_but(PARTS, close).unwrap();
    mount.fs.release(handle);
    assert_eq!(mount.keys_at_end(), [""; 0]);
}
