//! Changes below names that a rename or a removal is taking away.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use mountpoint_client::ErrorKind;

use super::*;
use crate::namespace::bounds::RENAME_WAIT_MAX;
use crate::operation::{AttributeChange, RenameMode, Stop, TimeChange, WriteOptions};

const ROOT: InodeNo = InodeNo::ROOT;

/// A bucket that answers on the test's command, with `keys` and an open, synchronised file.
///
/// The server takes conditions if it `knows_conditions`.
struct Synchronised {
    mount: Mount,
    handle: HandleNo,
}

impl Synchronised {
    fn new(keys: &[&str], directory: &str, knows_conditions: bool) -> Self {
        let write = all_changes();
        let mount = manual(keys, write);
        if !knows_conditions {
            // With a checksum and a condition, and then with the condition.
            let bucket = &mount.bucket;
            bucket.fail_next(Operation::PutObject, 2, ErrorKind::Unsupported);
        }
        let parent = walk(&mount, directory);
        let how = WriteOptions::default();
        let created = mount
            .fs
            .create(parent, OsStr::new("log"), how, Opener::UNSEEN);
        let handle = created.unwrap().1.handle;
        let this = Self { mount, handle };
        this.write(0, b"one").unwrap();
        drive(&this.mount, this.mount.fs.sync(handle)).unwrap();
        this
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), FsError> {
        let written = self.mount.fs.write_now(self.handle, offset, data);
        written.expect("there is memory")
    }
}

/// No change begins below a directory during its rename. Its object would stay under the old name,
/// or come back.
#[test]
fn nothing_is_begun_below_a_directory_that_is_renamed() {
    let file = Synchronised::new(&["d/s/x", "other/y"], "d/s", true);
    let (mount, fs, never) = (&file.mount, &file.mount.fs, Stop::never());
    let (s, x, other) = (
        walk(mount, "d/s"),
        walk(mount, "d/s/x"),
        walk(mount, "other"),
    );
    walk(mount, "other/y");
    drive(mount, fs.make_directory(s, OsStr::new("empty"), 0o755)).unwrap();
    let (from, to) = ((ROOT, OsStr::new("d")), (ROOT, OsStr::new("e")));
    let mut renaming = Box::pin(fs.rename(from, to, RenameMode::Replace, &never));
    waits(&mut renaming);
    let (how, name) = (WriteOptions::default(), OsStr::new("new"));
    let truncate = WriteOptions {
        truncate: true,
        ..how
    };
    let cut = AttributeChange {
        size: Some(1),
        ..AttributeChange::default()
    };
    let touch = AttributeChange {
        mtime: Some(TimeChange::Now),
        ..AttributeChange::default()
    };
    let (below, empty) = (OsStr::new("x"), OsStr::new("empty"));
    let beside = (s, OsStr::new("z"));
    let make_directory = fs.make_directory(s, name, 0o755);
    for (what, refused) in [
        ("create", fs.create(s, name, how, Opener::UNSEEN).err()),
        (
            "open",
            drive(mount, fs.open_for_writing(x, truncate, Opener::UNSEEN)).err(),
        ),
        ("mkdir", drive(mount, make_directory).err()),
        ("unlink", drive(mount, fs.unlink(s, below)).err()),
        ("truncate", drive(mount, fs.set_attributes(x, cut)).err()),
        ("touch", drive(mount, fs.set_attributes(x, touch)).err()),
        ("rmdir", drive(mount, fs.remove_directory(s, empty)).err()),
        (
            "rename",
            drive(
                mount,
                fs.rename((s, below), beside, RenameMode::Replace, &never),
            )
            .err(),
        ),
        (
            "rename of what is above",
            drive(
                mount,
                fs.rename(from, (other, name), RenameMode::Replace, &never),
            )
            .err(),
        ),
    ] {
        assert!(
            matches!(&refused, Some(FsError::InMotion(text)) if text.contains('d')),
            "{what}: {refused:?}"
        );
    }
    // Other directories are not affected.
    fs.create(other, name, how, Opener::UNSEEN).unwrap();
    drive(mount, fs.unlink(other, OsStr::new("y"))).unwrap();
    drive(mount, renaming).unwrap();
    fs.release(file.handle);
    assert_eq!(mount.bucket.keys(), ["e/s/log", "e/s/x"]);
    fs.create(s, name, how, Opener::UNSEEN).unwrap();
    drive(mount, fs.unlink(s, below)).unwrap();
    assert_eq!(mount.bucket.keys(), ["e/s/log"]);
}

/// A file that is being removed does not come back under its directory's new name.
#[test]
fn a_rename_waits_for_a_removal_below_it() {
    let file = Synchronised::new(&["d/s/x"], "d/s", true);
    let (mount, fs, never) = (&file.mount, &file.mount.fs, Stop::never());
    let s = walk(mount, "d/s");
    walk(mount, "d/s/x");
    let mut removing = Box::pin(fs.unlink(s, OsStr::new("x")));
    waits(&mut removing);
    let (from, to) = ((ROOT, OsStr::new("d")), (ROOT, OsStr::new("e")));
    let mut renaming = Box::pin(fs.rename(from, to, RenameMode::Replace, &never));
    waits(&mut renaming);
    let requests = mount.bucket.pending_requests();
    assert!(
        requests
            .iter()
            .all(|it| it.operation == Operation::DeleteObject)
    );
    let (removed, renamed) = drive(mount, async { futures::join!(removing, renaming) });
    removed.unwrap();
    renamed.unwrap();
    assert_eq!(mount.bucket.keys(), ["e/s/log"]);
    fs.release(file.handle);
}

/// A rename below which removals never end stops at a signal, or after its time limit.
#[test]
fn a_rename_waits_for_removals_until_a_signal_or_for_so_long() {
    let file = Synchronised::new(&["d/s/x", "d/s/y"], "d/s", true);
    let (mount, fs) = (&file.mount, &file.mount.fs);
    let s = walk(mount, "d/s");
    for name in ["x", "y"] {
        walk(mount, &format!("d/s/{name}"));
    }
    let mut removing = ["x", "y"].map(|name| Box::pin(fs.unlink(s, OsStr::new(name))));
    removing.iter_mut().for_each(waits);
    let [mut first, second] = removing;
    let (from, to) = ((ROOT, OsStr::new("d")), (ROOT, OsStr::new("e")));
    let (stop, never) = (Stop::default(), Stop::never());
    let (mut is_woken, mut waits_on) = (Woken::new(), Woken::new());
    let mut stopped = Box::pin(fs.rename(from, to, RenameMode::Replace, &stop));
    let mut renaming = Box::pin(fs.rename(from, to, RenameMode::Replace, &never));
    assert!(is_woken.poll(&mut stopped).is_pending());
    assert!(waits_on.poll(&mut renaming).is_pending());
    stop.ask();
    assert!(is_woken.was_woken() && !waits_on.was_woken());
    let outcome = is_woken.poll(&mut stopped);
    assert!(
        matches!(outcome, Poll::Ready(Err(FsError::Interrupted))),
        "{outcome:?}"
    );
    // One removal ends, another continues.
    mount.clock.advance(RENAME_WAIT_MAX / 2);
    let pending = mount.bucket.pending_requests();
    mount.bucket.finish(pending[0].id);
    (&mut first).now_or_never().unwrap().unwrap();
    assert!(waits_on.was_woken());
    assert!(waits_on.poll(&mut renaming).is_pending());
    // No further removal ends.
    mount.clock.advance(RENAME_WAIT_MAX / 2);
    fs.give_back_idle();
    assert!(waits_on.was_woken());
    let outcome = waits_on.poll(&mut renaming);
    assert!(
        matches!(&outcome, Poll::Ready(Err(FsError::Busy(text))) if text.starts_with("d: ")),
        "{outcome:?}"
    );
    drive(mount, second).unwrap();
    fs.release(file.handle);
    drive(mount, fs.rename(from, to, RenameMode::Replace, &never)).unwrap();
    assert_eq!(mount.bucket.keys(), ["e/s/log"]);
}

/// Polls an operation, and tells whether it was woken since.
struct Woken(Arc<AtomicBool>);

impl Woken {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn poll<T>(&mut self, operation: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
        struct Flag(Arc<AtomicBool>);
        impl Wake for Flag {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::Release);
            }
        }
        self.0.store(false, Ordering::Release);
        let waker = Waker::from(Arc::new(Flag(Arc::clone(&self.0))));
        Pin::new(operation).poll(&mut Context::from_waker(&waker))
    }

    fn was_woken(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
