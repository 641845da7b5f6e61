//! Hundreds of files open for writing at once in little memory.
//!
//! Writers wait for memory, no write fails, and every byte is right.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use mountpoint_client::testing::server::{Server, synthetic_bytes};
use nix::unistd::close;

use crate::harness::{BUCKET, Mounted, server};
use crate::reads::memory::{OVERHEAD, resident_peak};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const FILES: usize = 500;

fn mount(server: &Server) -> Mounted {
    Mounted::new(server, &["--memory-target", "512"])
}

fn close_all(files: Vec<File>) {
    for file in files {
        close(file).expect("the file is stored");
    }
}

#[track_caller]
fn has_lived_within_the_target(mounted: &Mounted) {
    let peak = resident_peak(mounted);
    assert!(peak <= 512 * MIB as u64 + OVERHEAD, "{} MiB", peak >> 20);
}

/// A single thread cannot be made to wait: no other thread would free memory.
#[test]
fn one_thread_writes_to_500_open_files_in_turn() {
    const LEN: usize = 700 * KIB;
    let server = server();
    let content = synthetic_bytes(3, 0..LEN as u64);
    let mounted = mount(&server);
    let create = |number| File::create(mounted.join(&format!("new{number}"))).unwrap();
    let mut files: Vec<File> = (0..FILES).map(create).collect();
    let since = std::time::Instant::now();
    for piece in content.chunks(100 * KIB) {
        for file in &mut files {
            file.write_all(piece).unwrap();
        }
    }
    // A writer that waits in vain fails after a minute; none of these waited.
    assert!(since.elapsed() < Duration::from_secs(60));
    assert_eq!(
        server.store().keys(BUCKET).len(),
        0,
        "nothing is sent before"
    );
    close_all(files);
    for number in 0..FILES {
        let object = server.store().object(BUCKET, &format!("new{number}"));
        assert!(object.unwrap().bytes() == content, "new{number}");
    }
    has_lived_within_the_target(&mounted);
}

/// As many threads as files, and readers beside them. They wait for each other, and all finish.
#[test]
fn threads_that_write_to_500_files_and_readers_all_end() {
    const READERS: usize = 8;
    let server = server();
    // The store keeps the objects in memory, so most of them are small; the others have two parts.
    let len_of = |number| if number % 5 == 0 { 12 * MIB } else { 2 * MIB };
    let content = synthetic_bytes(4, 0..12 << 20);
    for number in 0..READERS {
        let store = server.store();
        store.put_synthetic(BUCKET, &format!("old{number}"), 64 << 20, 5);
    }
    let expected = synthetic_bytes(5, 0..64 << 20);
    let mounted = mount(&server);
    std::thread::scope(|scope| {
        for number in 0..READERS {
            let (mounted, expected) = (&mounted, &expected);
            scope.spawn(move || {
                let file = File::open(mounted.join(&format!("old{number}"))).unwrap();
                let mut buffer = vec![0; 256 * KIB];
                for (offset, part) in (0..).step_by(buffer.len()).zip(expected.chunks(256 * KIB)) {
                    file.read_exact_at(&mut buffer, offset).unwrap();
                    assert!(buffer == part, "old{number} at {offset}");
                }
            });
        }
        for number in 0..FILES {
            let (mounted, server, content) = (&mounted, &server, &content[..len_of(number)]);
            scope.spawn(move || {
                let name = format!("new{number}");
                let mut file = File::create(mounted.join(&name)).unwrap();
                // Odd lengths: parts and writes do not end together. Long ones: they are in memory
                // while they wait.
                let len = if number % 2 == 0 { 300_000 } else { MIB };
                for piece in content.chunks(len) {
                    file.write_all(piece).unwrap();
                }
                close(file).expect("the file is stored");
                let object = server.store().object(BUCKET, &name).unwrap();
                assert!(object.bytes() == content, "{name}");
                server.store().delete(BUCKET, &name);
            });
        }
    });
    has_lived_within_the_target(&mounted);
}
