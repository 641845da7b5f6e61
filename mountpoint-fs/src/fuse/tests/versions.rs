//! Objects that are replaced while Linux knows them: what applications see, and what it costs.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};

use mountpoint_client::testing::sim::Operation;

use super::mount::Mounted;
use crate::clock::Clock;
use crate::config::limits::FILE_TTL;

impl Mounted {
    /// GETs, HEADs and LISTs since the last call.
    fn requests(&self) -> [usize; 3] {
        let log = self.client.take_log();
        [
            Operation::GetObject,
            Operation::HeadObject,
            Operation::ListObjectsV2,
        ]
        .map(|operation| log.count(operation))
    }
}

#[test]
fn an_open_sees_the_newest_version_at_once() {
    let mounted = Mounted::new();
    let path = mounted.path().join("f");
    for round in 0..300usize {
        let content = format!("{round}:").repeat(1 + (round * 7919) % 5000);
        mounted.client.put_object("f", content.clone());
        assert!(
            fs::read(&path).unwrap() == content.as_bytes(),
            "round {round}"
        );
    }
    assert_eq!(mounted.requests()[0], 300);
    mounted.end();
}

#[test]
fn an_open_file_stays_the_version_that_was_opened() {
    let mounted = Mounted::new();
    let path = mounted.path().join("f");
    mounted.client.put_object("f", "a long first version");
    let open = fs::File::open(&path).unwrap();
    let mut bytes = [0; 20];
    open.read_exact_at(&mut bytes, 0).unwrap();

    mounted.client.put_object("f", "short");
    assert_eq!(fs::read(&path).unwrap(), b"short");
    assert_eq!(fs::metadata(&path).unwrap().size(), 5);
    assert_eq!(open.metadata().unwrap().size(), 20);
    // Its pages are in the page cache, and are not those of the new version.
    open.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"a long first version");
    drop(open);
    mounted.end();
}

#[test]
fn a_file_that_is_gone_or_became_a_directory() {
    let mounted = Mounted::new();
    let path = mounted.path().join("f");
    mounted.client.put_object("f", "file");
    assert_eq!(fs::read(&path).unwrap(), b"file");
    mounted.client.remove("f");
    assert_eq!(fs::read(&path).unwrap_err().kind(), ErrorKind::NotFound);
    mounted.client.put_object("f", "file");
    assert_eq!(fs::read(&path).unwrap(), b"file");
    mounted.client.put_object("f/g", "below");
    mounted.client.remove("f");
    assert!(fs::File::open(&path).unwrap().metadata().unwrap().is_dir());
    assert_eq!(fs::read(path.join("g")).unwrap(), b"below");
    mounted.end();
}

#[test]
fn files_of_a_listing_are_read_at_their_newest_version() {
    let mounted = Mounted::new();
    let put_all = |content: &'static str| {
        for number in 0..200 {
            mounted.client.put_object(&format!("d/{number}"), content);
        }
    };
    put_all("one");
    let directory = mounted.path().join("d");
    let clock = Clock::monotonic();
    let entries = fs::read_dir(&directory).unwrap().map(Result::unwrap);
    let paths: Vec<_> = entries
        .map(|entry| (entry.metadata().unwrap().len(), entry.path()))
        .collect();
    assert_eq!(paths.len(), 200);
    assert!(paths.iter().all(|(size, _)| *size == 3));
    assert_eq!(mounted.requests(), [0, 0, 2], "one lookup, one page");
    put_all("newer");
    for (_, path) in &paths {
        assert_eq!(fs::read(path).unwrap(), b"newer");
    }
    // One request asks for the listed version, and is refused; one asks for the newest. A late open
    // looks up first.
    let is_in_time = clock.now() < FILE_TTL;
    let gets = mounted.requests()[0];
    let expected = if is_in_time { 400..=400 } else { 200..=400 };
    assert!(expected.contains(&gets), "{gets}");
    // Unchanged bytes are in the page cache: one HEAD for each open, and no GET.
    for (_, path) in &paths {
        assert_eq!(fs::read(path).unwrap(), b"newer");
    }
    assert_eq!(mounted.requests()[0], 0);
    mounted.end();
}

/// Each version is one byte over and over, and its size follows from that byte.
fn version(byte: u8) -> Vec<u8> {
    vec![byte; 1000 + usize::from(byte) * 997]
}

#[test]
fn versions_never_mix_however_fast_they_change() {
    const READERS: usize = 3;
    let mounted = Mounted::new();
    let path = mounted.path().join("f");
    mounted.client.put_object("f", version(0));
    let (mut whole, mut stale) = (0, 0);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|_| scope.spawn(|| (0..300).map(|_| fs::read(&path)).collect::<Vec<_>>()))
            .collect();
        let mut byte = 0u8;
        while readers.iter().any(|reader| !reader.is_finished()) {
            byte = byte.wrapping_add(1);
            mounted.client.put_object("f", version(byte));
            std::thread::yield_now();
        }
        for outcome in readers
            .into_iter()
            .flat_map(|reader| reader.join().unwrap())
        {
            match outcome {
                Ok(bytes) => {
                    assert!(
                        bytes == version(bytes[0]),
                        "{} bytes from {}",
                        bytes.len(),
                        bytes[0]
                    );
                    whole += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::StaleNetworkFileHandle);
                    stale += 1;
                }
            }
        }
    });
    assert_eq!(whole + stale, READERS * 300);
    mounted.end();
}
