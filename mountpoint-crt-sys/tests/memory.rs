//! Memory that blocks no longer use. In a program of its own: the test measures the whole process.

#![cfg(target_env = "gnu")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use mountpoint_crt_sys::block::BlockPool;

const MIB: usize = 1 << 20;

/// Bytes of memory that the process has.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages = statm.split(' ').nth(1).unwrap();
    pages.parse::<usize>().unwrap() * 4096
}

#[test]
fn small_blocks_go_back_to_the_system() {
    let pool = BlockPool::new(8 * MIB);
    let full = |len: usize| {
        let mut fill = pool.allocate(len);
        fill.append(&vec![1; len]);
        fill
    };
    let mut blocks: Vec<_> = (0..2048).map(|_| full(64 << 10)).collect();
    let all = resident();
    // One in a hundred stays, so that little of the memory is at an end of the heap.
    let mut number = 0;
    blocks.retain(|_| {
        number += 1;
        number % 100 == 0
    });
    let left = resident();
    assert!(
        left + 100 * MIB < all,
        "{} of {} MiB",
        left / MIB,
        all / MIB
    );
    drop(blocks);
}
