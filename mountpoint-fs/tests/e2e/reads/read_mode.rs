//! The path of replies to reads, observed by repeated GETs.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use mountpoint_client::testing::server::{Operation, Server, synthetic_bytes};

use crate::harness::{BUCKET, Mounted, PATIENCE, server, shell};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Size of a file that is large for this machine.
fn large() -> u64 {
    let memory = nix::sys::sysinfo::sysinfo().unwrap().ram_total();
    (memory / 32 + MIB).max(64 * MIB)
}

/// How often the byte at `offset` of an object was fetched. The kernel's read-ahead elsewhere may
/// still add GETs.
fn fetches(server: &Server, key: &str, offset: u64) -> usize {
    let done = server
        .log()
        .wait_until(Operation::GetObject, PATIENCE, |gets| gets.in_flight == 0);
    assert!(done, "GETs are in flight for ever");
    let gets = server.log().snapshot();
    gets.iter()
        .filter(|get| get.operation == Operation::GetObject && get.key == key && get.complete)
        .filter(|get| {
            get.range
                .as_ref()
                .is_none_or(|range| range.contains(&offset))
        })
        .count()
}

/// Whether bytes that were read twice were fetched twice.
fn is_direct(server: &Server, key: &str, file: &File) -> bool {
    let mut buffer = vec![0; 64 << 10];
    let offset = 3 * MIB + 256 * KIB;
    file.read_exact_at(&mut buffer, offset).unwrap();
    let before = fetches(server, key, offset);
    file.read_exact_at(&mut buffer, offset).unwrap();
    fetches(server, key, offset) != before
}

/// Reads the first 8 MiB in pieces.
fn read(mounted: &Mounted, name: &str, piece: u64) -> File {
    let file = File::open(mounted.join(name)).unwrap();
    let mut buffer = vec![0; usize::try_from(piece).unwrap()];
    for offset in (0..8 * MIB).step_by(buffer.len()) {
        file.read_exact_at(&mut buffer, offset).unwrap();
    }
    file
}

#[test]
fn a_flag_decides() {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", 8 * MIB, 1);
    for (mode, expected) in [("cached", false), ("direct", true), ("auto", false)] {
        let mounted = Mounted::unhedged(&server, &["--read-mode", mode]);
        let file = File::open(mounted.join("file")).unwrap();
        assert_eq!(is_direct(&server, "file", &file), expected, "{mode}");
    }
}

#[test]
fn large_files_of_programs_that_read_large_pieces_bypass_the_page_cache() {
    let server = server();
    for (name, seed) in [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)] {
        server.store().put_synthetic(BUCKET, name, large(), seed);
    }
    server.store().put_synthetic(BUCKET, "small", 16 * MIB, 6);
    let mounted = Mounted::unhedged(&server, &[]);
    let first = read(&mounted, "a", 256 * KIB);
    assert!(!is_direct(&server, "a", &first), "nothing was known");
    let second = read(&mounted, "b", 256 * KIB);
    assert!(
        is_direct(&server, "b", &second),
        "this program reads large pieces"
    );
    let small = read(&mounted, "small", 256 * KIB);
    assert!(!is_direct(&server, "small", &small), "it fits into memory");
    let again = File::open(mounted.join("b")).unwrap();
    assert!(!is_direct(&server, "b", &again), "two share the page cache");

    let third = read(&mounted, "c", 4 * KIB);
    assert!(
        is_direct(&server, "c", &third),
        "it has not read small pieces before"
    );
    let fourth = read(&mounted, "d", 4 * KIB);
    assert!(!is_direct(&server, "d", &fourth), "but it did then");
}

#[test]
fn a_file_with_direct_replies_can_be_mapped() {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", 16 * MIB, 7);
    let mounted = Mounted::new(&server, &["--read-mode", "direct"]);
    let script = "\
import hashlib, mmap
for flags in mmap.MAP_PRIVATE, mmap.MAP_SHARED:
    with open('file', 'rb') as file:
        pages = mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ)
        print(hashlib.sha256(pages).hexdigest())
";
    let printed = shell(
        mounted.path(),
        &format!("python3 -c \"{script}\"; sha256sum < file"),
    );
    let sums: Vec<&str> = printed
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(sums.len(), 3, "{printed}");
    assert!(sums.iter().all(|sum| *sum == sums[2]), "{printed}");
    let mut buffer = vec![0; 100];
    let file = File::open(mounted.join("file")).unwrap();
    file.read_exact_at(&mut buffer, 5 * MIB + 3).unwrap();
    assert_eq!(buffer, synthetic_bytes(7, 5 * MIB + 3..5 * MIB + 103));
}
