//! A thread that reads: files that never change, files that change behind the mount, and trees.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use mountpoint_client::testing::server::Server;
use rand::Rng as _;
use rand::rngs::StdRng;

use super::hot::{Hot, Seen, Version, equals};
use super::reading::Way;
use crate::harness::BUCKET;
use crate::soak::Soak;
use crate::soak::place::{Outcome, Place};

/// Sizes of the files that never change.
pub(in crate::soak) const SIZES: [u64; 12] = [
    0,
    1,
    4_096,
    100_000,
    131_072,
    131_073,
    1 << 20,
    3_000_000,
    8 << 20,
    20_000_000,
    40 << 20,
    100_000_000,
];

/// Directories of the tree, and the files of each.
const DIRECTORIES: u64 = 30;
const FILES: u64 = 40;

/// A small file whose content is known, for whoever needs one.
pub(in crate::soak) const KNOWN: (&str, u64) = ("data/3", SIZES[3]);

/// Stores what never changes.
pub(in crate::soak) fn store(server: &Server, seed: u64) {
    for (number, size) in SIZES.into_iter().enumerate() {
        let key = format!("data/{number}");
        server
            .store()
            .put_synthetic(BUCKET, &key, size, seed + number as u64);
    }
    for directory in 0..DIRECTORIES {
        for file in 0..FILES {
            let key = format!("tree/{directory}/{}/{file}", directory % 3);
            server
                .store()
                .put(BUCKET, &key, vec![7; usize::try_from(file).unwrap()]);
        }
    }
}

/// Reads until the run stops.
pub(in crate::soak) fn run(soak: &Soak, place: &Place, mut numbers: StdRng) {
    while !soak.is_stopped() {
        match numbers.random_range(0..100) {
            0..45 => constant(soak, place, &mut numbers),
            45..90 => hot(soak, place, &mut numbers),
            90..96 => many(soak, place, &mut numbers),
            _ => walk(soak, place),
        }
    }
}

/// Reads a file that never changes. Large ones are rare, because the machine is small.
fn constant(soak: &Soak, place: &Place, numbers: &mut StdRng) {
    let number = numbers
        .random_range(0..SIZES.len())
        .min(numbers.random_range(0..SIZES.len() + 4));
    let way = match (Way::any(numbers), SIZES[number]) {
        (Way::Mapped, 10_000_000..) => Way::Sequential(1 << 18),
        (way, _) => way,
    };
    let key = format!("data/{number}");
    let what = format!("reads {key}, {way:?}");
    let mut seen = Seen::default();
    let outcome = soak.call(place, &what, |root| way.read(&root.join(&key), &mut seen));
    let seed = soak.settings.seed + number as u64;
    for (at, bytes) in &seen.pieces {
        let range = *at..at + bytes.len() as u64;
        assert!(
            equals(seed, range.clone(), bytes),
            "{what}: other bytes in {range:?}"
        );
    }
    if let Outcome::Done(()) = outcome {
        assert!(
            seen.size.is_none_or(|size| size == SIZES[number]),
            "{what}: {:?}",
            seen.size
        );
        soak.tally
            .done(seen.pieces.iter().map(|(_, bytes)| bytes.len()).sum());
    }
}

/// Reads a file that another client replaces and deletes.
fn hot(soak: &Soak, place: &Place, numbers: &mut StdRng) {
    let number = Hot::any(numbers);
    let way = Way::any(numbers);
    let is_fresh = place.kind.is_fresh();
    let first = soak.hot.newest(number);
    let key = Hot::key(number);
    let what = format!("reads {key}, {way:?}");
    let mut seen = Seen::default();
    // A page of a mapping that is stale has no other error.
    let expected: &[i32] = match way {
        Way::Mapped => &[libc::ENOENT, libc::ESTALE, libc::EIO],
        _ => &[libc::ENOENT, libc::ESTALE],
    };
    let read = |root: &Path| way.read(&root.join(&key), &mut seen);
    let outcome = soak.call_expecting(place, &what, expected, read);
    let visible = soak.hot.visible(number, first, is_fresh);
    let context = || {
        format!(
            "{} {what}, versions from {}: {visible:?}",
            place.kind.name(),
            first.0
        )
    };
    let is_seen = |seen: &Seen| visible.iter().any(|version| version.fits(seen));
    assert!(
        seen.pieces.is_empty() || is_seen(&seen),
        "bytes of no version: {}",
        context()
    );
    match outcome {
        Outcome::Failed(error) if error.raw_os_error() == Some(libc::ENOENT) => {
            let is_deleted = visible.iter().any(Version::is_deleted);
            assert!(is_deleted, "no such file: {}", context());
        }
        Outcome::Failed(error) => {
            let is_replaced = visible.len() > 1 || soak.settings.is_harsh;
            assert!(is_replaced, "{error} without a replacement: {}", context());
        }
        Outcome::Done(()) => {
            assert!(
                is_seen(&seen),
                "a size of no version: {:?}, {}",
                seen.size,
                context()
            );
            soak.tally
                .done(seen.pieces.iter().map(|(_, bytes)| bytes.len()).sum());
        }
        Outcome::Cut => {}
    }
}

/// Opens many files at once, and reads them in turns.
fn many(soak: &Soak, place: &Place, numbers: &mut StdRng) {
    let directory = numbers.random_range(0..DIRECTORIES);
    let outcome = soak.call(place, "opens many files", |root| {
        let root = root.join(format!("tree/{directory}/{}", directory % 3));
        let open = |file| std::fs::File::open(root.join(format!("{file}")));
        let files: Vec<_> = (0..FILES).map(open).collect::<io::Result<_>>()?;
        let mut sizes = Vec::new();
        for mut file in files {
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut file, &mut bytes)?;
            sizes.push(bytes.len() as u64);
        }
        Ok(sizes)
    });
    if let Outcome::Done(sizes) = outcome {
        assert!(sizes == (0..FILES).collect::<Vec<_>>(), "{sizes:?}");
        soak.tally.done(0);
    }
}

/// Walks the tree, and compares names and sizes.
fn walk(soak: &Soak, place: &Place) {
    let outcome = soak.call(place, "walks the tree", |root| {
        let mut found = BTreeMap::new();
        visit(&root.join("tree"), "", &mut found)?;
        Ok(found)
    });
    let Outcome::Done(found) = outcome else {
        return;
    };
    let mut expected = BTreeMap::new();
    for directory in 0..DIRECTORIES {
        let names = (0..FILES).map(|file| (format!("/{directory}/{}/{file}", directory % 3), file));
        expected.extend(names);
    }
    assert!(
        found == expected,
        "the tree has {} files: {found:?}",
        found.len()
    );
    soak.tally.done(0);
}

/// The sizes of all files below a directory, by their paths.
pub(in crate::soak) fn visit(
    directory: &Path,
    path: &str,
    found: &mut BTreeMap<String, u64>,
) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let path = format!("{path}/{}", entry.file_name().display());
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            visit(&entry.path(), &path, found)?;
        } else {
            found.insert(path, metadata.len());
        }
    }
    Ok(())
}
