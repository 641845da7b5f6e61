//! The cost of a cold path: requests, and sequential steps.

use std::pin::pin;

use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::Time;

use super::*;
use crate::namespace::bounds::{FIRST_BYTES_FAILED_AGE, FIRST_BYTES_LEN};

const ROOT: InodeNo = InodeNo::ROOT;

/// A bucket that answers all waiting requests together when no operation can proceed: a step.
struct Steps {
    mount: Mount,
    steps: usize,
}

impl Steps {
    fn new(options: SimOptions, keys: impl IntoIterator<Item = String>) -> Self {
        let options = SimOptions {
            time: Time::Manual,
            ..options
        };
        let mount = Mount::with_options(options, "", &[]);
        for key in keys {
            mount.bucket.put_object(&key, format!("content of {key}"));
        }
        Self { mount, steps: 0 }
    }

    fn run<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            if let Some(outcome) = future.as_mut().now_or_never() {
                return outcome;
            }
            self.steps += 1;
            assert!(self.mount.deliver_step() > 0, "something is asked");
        }
    }

    /// Steps and requests since the last call.
    fn counts(&mut self) -> (usize, usize) {
        self.mount.bucket.deliver_all();
        let requests = self.mount.bucket.take_log().records().len();
        (std::mem::take(&mut self.steps), requests)
    }

    fn stat(&mut self, path: &str) -> Result<InodeNo, FsError> {
        let fs = Arc::clone(&self.mount.fs);
        path.split('/').try_fold(ROOT, |parent, name| {
            let entry = self.run(fs.lookup_for(parent, OsStr::new(name), &Call(1)))?;
            Ok(entry.attributes.ino)
        })
    }

    /// Opens and reads a file as `cat` does. Returns its bytes, steps and requests.
    fn cat(&mut self, path: &str) -> (Vec<u8>, usize, usize) {
        let fs = Arc::clone(&self.mount.fs);
        let ino = self.stat(path).unwrap();
        let options = self.mount.read_by(ino, Call(1));
        let opened = self.run(fs.open(ino, options)).unwrap();
        let data = self
            .run(fs.read(opened.handle, 0, FIRST_BYTES_LEN, true))
            .unwrap();
        fs.release(opened.handle);
        let (steps, requests) = self.counts();
        (data.to_vec(), steps, requests)
    }
}

fn numbered(head: &str, tail: &str) -> impl Iterator<Item = String> {
    (0..1_200).map(move |number| format!("{head}{number:04}{tail}"))
}

fn directory_bucket() -> SimOptions {
    SimOptions {
        directory_bucket: true,
        ..SimOptions::default()
    }
}

/// Each name has more keys before it, or before its children, than any lookup shows.
#[test]
fn a_path_is_found_and_read_in_three_steps_or_four_with_awkward_neighbours() {
    let shapes: &[(&str, &[(&str, &str)])] = &[
        ("nothing", &[]),
        (
            "directories",
            &[("0", "/x"), ("a/0", "/x"), ("a/b/0", "/x")],
        ),
        (
            "files",
            &[("0", ".txt"), ("a/0", ".txt"), ("a/b/0", ".txt")],
        ),
        ("files without endings", &[("a/b/0", "")]),
        ("files without endings above", &[("a/0", ""), ("a/b/0", "")]),
        (
            "both",
            &[("0", ".txt"), ("0", "/x"), ("a/0", "/x"), ("a/b/0", "/x")],
        ),
        ("-", &[("a-", ""), ("a/b-", ""), ("a/b/c.txt-", "")]),
        ("-/", &[("a-", "/x"), ("a/b-", "/x"), ("a/b/c.txt-", "/x")]),
        (
            ".",
            &[("a.", ".gz"), ("a/b.", ".gz"), ("a/b/c.txt.", ".gz")],
        ),
        ("behind", &[("a/b/z", ".txt"), ("a/z", "/x"), ("z", "/x")]),
    ];
    for (shape, beside) in shapes {
        for more in [&[][..], &["a", "a/", "a/b", "a/b/"]] {
            for (kind, options) in [
                ("ordered", SimOptions::default()),
                ("directory bucket", directory_bucket()),
            ] {
                let beside = beside.iter().flat_map(|(head, tail)| numbered(head, tail));
                let more = more.iter().map(|key| (*key).to_owned());
                let keys = beside.chain(more).chain(["a/b/c.txt".to_owned()]);
                let mut bucket = Steps::new(options, keys);
                let (bytes, steps, requests) = bucket.cat("a/b/c.txt");
                assert_eq!(bytes, b"content of a/b/c.txt");
                // More than a page of keys that begin with the name of the first directory come
                // before those below it, which costs a step.
                let awkward = usize::from(["-", "-/", "."].contains(shape));
                assert!(
                    steps <= 3 + awkward && requests <= 5,
                    "{shape}, {kind}: {steps} steps, {requests} requests"
                );
            }
        }
    }
}

#[test]
fn a_path_in_a_small_bucket_is_a_listing_and_a_get() {
    let keys = ["a/b/c.txt", "a/b/d", "apple", "b"].map(str::to_owned);
    let mut bucket = Steps::new(SimOptions::default(), keys);
    let (_, steps, requests) = bucket.cat("a/b/c.txt");
    assert_eq!((steps, requests), (2, 2));
}

/// A name that looks like a directory and is a file, or does not exist.
#[test]
fn wrong_guesses_cost_a_request_once() {
    let keys = numbered("a/b/0", ".txt").chain(["a/b/README".to_owned()]);
    let mut bucket = Steps::new(SimOptions::default(), keys);
    bucket.stat("a/b").unwrap();
    bucket.counts();
    let b = bucket.stat("a/b").unwrap();
    let fs = Arc::clone(&bucket.mount.fs);
    let look = |bucket: &mut Steps, name: &str| {
        bucket.counts();
        let outcome = bucket.run(fs.lookup(b, OsStr::new(name)));
        (outcome.is_ok(), bucket.counts())
    };
    // A listing below it, then its first bytes.
    assert_eq!(look(&mut bucket, "README"), (true, (2, 2)));
    // Further lookups cost no more than in an unknown directory.
    assert_eq!(look(&mut bucket, "LICENSE"), (false, (1, 1)));
    assert_eq!(look(&mut bucket, "none.txt"), (false, (1, 2)));
}

/// Lookups without opens stop fetching first bytes after a while.
#[test]
fn programs_that_only_stat_fetch_next_to_nothing() {
    let keys = numbered("d/", ".txt");
    let mut bucket = Steps::new(SimOptions::default(), keys);
    let d = bucket.stat("d").unwrap();
    bucket.counts();
    let fs = Arc::clone(&bucket.mount.fs);
    for number in 1_000..1_006 {
        let name = format!("{number}.txt");
        bucket.run(fs.lookup(d, OsStr::new(&name))).unwrap();
    }
    let log = bucket.mount.bucket.take_log();
    let gets = log.count(Operation::GetObject);
    assert_eq!((gets, log.records().len()), (2, 2 + 6));
}

/// A server that cannot send first bytes is asked once in a while.
#[test]
fn first_bytes_that_cannot_be_had_are_not_asked_for_again() {
    let keys = numbered("d/", ".txt");
    let mut bucket = Steps::new(SimOptions::default(), keys);
    let d = bucket.stat("d").unwrap();
    bucket.counts();
    let (get, kind) = (Operation::GetObject, ErrorKind::InvalidResponse);
    bucket.mount.bucket.fail_next(get, 100, kind);
    let fs = Arc::clone(&bucket.mount.fs);
    let look = |bucket: &mut Steps, numbers: std::ops::Range<u32>| {
        for number in numbers {
            let name = format!("{number}.txt");
            bucket.run(fs.lookup(d, OsStr::new(&name))).unwrap();
        }
        bucket.mount.bucket.take_log().count(get)
    };
    assert_eq!(look(&mut bucket, 1_000..1_006), 1);
    bucket.mount.clock.advance(FIRST_BYTES_FAILED_AGE);
    assert_eq!(look(&mut bucket, 1_006..1_010), 1);
}

/// First bytes belong to the version that is opened, or are not used.
#[test]
fn first_bytes_are_of_the_version_that_is_opened() {
    let keys = numbered("d/", ".txt");
    let mut bucket = Steps::new(SimOptions::default(), keys);
    let fs = Arc::clone(&bucket.mount.fs);
    let ino = bucket.stat("d/1100.txt").unwrap();
    bucket.mount.bucket.put_object("d/1100.txt", "another");
    // The lookup is valid for the first open alone, and not for long.
    bucket
        .mount
        .clock
        .advance(std::time::Duration::from_millis(200));
    let opened = bucket.run(fs.open(ino, READ));
    assert!(matches!(opened, Err(FsError::Stale(_))), "{opened:?}");
    let (bytes, ..) = bucket.cat("d/1100.txt");
    assert_eq!(bytes, b"another");
}
