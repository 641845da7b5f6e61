use std::thread;

use super::memory::SMALL_MAX;
use super::pool::BlockPool;
use super::recycler::Class;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

#[test]
fn classes_waste_at_most_a_quarter() {
    let mut last = Class::of(SMALL_MAX + 1);
    for len in (SMALL_MAX + 1..40 * MIB).step_by(4093) {
        let class = Class::of(len);
        assert!(class.size >= len, "{len}");
        assert!(class.size - len <= len / 4, "{len}: {}", class.size);
        assert!(class.size.is_multiple_of(4 * KIB), "{len}");
        assert_eq!(Class::of(class.size), class, "{len}");
        assert_eq!(class.size == last.size, class.index == last.index, "{len}");
        last = class;
    }
    for len in [96 * KIB, 128 * KIB, MIB, 5 * MIB, 8 * MIB] {
        assert_eq!(Class::of(len).size, len);
    }
}

#[test]
fn a_fresh_block_has_nothing_valid() {
    let pool = BlockPool::new(0);
    for len in [0, 1, 100, SMALL_MAX, SMALL_MAX + 1, 3 * MIB] {
        let fill = pool.allocate(len);
        assert_eq!((fill.capacity(), fill.filled()), (len, 0));
        assert_eq!(fill.block().bytes(0..0), b"");
    }
}

#[test]
fn appended_bytes_are_read_back() {
    let pool = BlockPool::new(0);
    let mut fill = pool.allocate(6);
    let block = fill.block();
    fill.append(b"abc");
    fill.append(b"");
    fill.append(b"def");
    assert_eq!(block.valid(), 6);
    assert_eq!(block.bytes(0..6), b"abcdef");
    drop(fill);
    assert_eq!(block.bytes(2..4), b"cd");
}

#[test]
fn bytes_that_nobody_wrote_are_zeros_in_new_memory() {
    let pool = BlockPool::new(0);
    for len in [10, SMALL_MAX, SMALL_MAX + 1, 1 << 20] {
        let mut fill = pool.allocate(len);
        fill.append(b"first");
        fill.append_unwritten(len - 5);
        let block = fill.block();
        assert_eq!(block.valid(), len);
        assert_eq!(block.bytes(0..5), b"first", "{len}");
        assert!(block.bytes(5..len).iter().all(|byte| *byte == 0), "{len}");
    }
}

#[test]
fn bytes_of_a_file_are_appended() {
    let path = std::env::temp_dir().join(format!("block-read-{}", std::process::id()));
    std::fs::write(&path, b"0123456789").unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut fill = BlockPool::new(0).allocate(12);
    let block = fill.block();
    fill.append(b"ab");
    assert_eq!(fill.read_from(&file, 2, 3).unwrap(), 3);
    assert_eq!(block.bytes(0..5), b"ab234");
    fill.withhold();
    assert_eq!(fill.read_from(&file, 8, 7).unwrap(), 2, "up to the end");
    assert_eq!((block.valid(), fill.bytes()), (5, &b"ab23489"[..]));
    fill.discard();
    assert_eq!(fill.read_from(&file, 10, 7).unwrap(), 0);
    assert_eq!(fill.read_from(&file, 0, 0).unwrap(), 0);
    let error = fill.read_from(&file, u64::MAX, 1).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert_eq!(fill.read_from(&file, 3, 7).unwrap(), 7);
    fill.release();
    assert_eq!(block.bytes(0..12), b"ab2343456789");
}

#[test]
fn a_block_that_grows_keeps_its_bytes() {
    // Small and mapped memory, within a class and beyond, below and above the size of huge pages.
    let sizes = [
        1,
        100,
        4 * KIB,
        SMALL_MAX,
        SMALL_MAX + 1,
        65 * KIB,
        300 * KIB,
        MIB,
        2 * MIB,
        3 * MIB,
        9 * MIB,
    ];
    for idle_max in [0, 64 * MIB] {
        let pool = BlockPool::new(idle_max);
        for _ in 0..2 {
            let mut fill = pool.allocate(sizes[0]);
            let mut expected = Vec::new();
            for (index, size) in sizes.into_iter().enumerate() {
                assert!(fill.grow(size), "{size}");
                assert_eq!(fill.capacity(), size);
                let more = vec![u8::try_from(index).unwrap() + 1; size - expected.len()];
                fill.append(&more);
                expected.extend(more);
                assert!(fill.block().bytes(0..size) == expected, "{size}");
                assert_eq!(pool.bytes_in_use(), Class::of(size).size);
            }
            drop(fill);
            assert_eq!(pool.bytes_in_use(), 0);
        }
    }
}

#[test]
fn a_block_that_shrinks_keeps_its_bytes_and_gives_the_rest_back() {
    for from in [100, SMALL_MAX + 1, 300 * KIB, 9 * MIB] {
        for len in [0, 1, 4 * KIB, SMALL_MAX, SMALL_MAX + 1, 2 * MIB, 9 * MIB] {
            if len > from {
                continue;
            }
            let pool = BlockPool::new(16 * MIB);
            let mut fill = pool.allocate(from);
            let content: Vec<_> = (0..len).map(pattern).collect();
            fill.append(&content);
            let block = fill.block();
            assert!(!fill.shrink(len), "somebody else has it");
            drop(block);
            assert!(fill.shrink(len));
            assert_eq!(fill.capacity(), len);
            let kept = BlockPool::memory_of(len);
            assert_eq!(pool.bytes_in_use(), kept, "{from} to {len}");
            assert!(fill.block().bytes(0..len) == content, "{from} to {len}");
            // It grows as one that was never longer.
            assert!(fill.grow(len + 3 * MIB));
            fill.append(&vec![7; 3 * MIB]);
            assert!(fill.block().bytes(0..len) == content, "{from} to {len}");
            drop(fill);
            assert_eq!(pool.bytes_in_use(), 0);
        }
    }
}

#[test]
fn a_block_that_others_have_does_not_grow() {
    let pool = BlockPool::new(0);
    let mut fill = pool.allocate_guarded(MIB, ());
    fill.append(b"abc");
    let block = fill.block();
    assert!(fill.is_shared());
    assert!(!fill.grow(2 * MIB));
    assert_eq!((fill.capacity(), block.capacity()), (MIB, MIB));
    drop(block);
    assert!(fill.grow(2 * MIB));
    assert_eq!(fill.block().bytes(0..3), b"abc");
}

#[test]
#[should_panic(expected = "range.end <= self.valid()")]
fn reading_beyond_what_is_valid_panics() {
    let mut fill = BlockPool::new(0).allocate(10);
    fill.append(b"abc");
    let _bytes = fill.block().bytes(0..4).len();
}

#[test]
#[should_panic(expected = "bytes.len() <= self.capacity() - filled")]
fn appending_too_much_panics() {
    let mut fill = BlockPool::new(0).allocate(3);
    fill.append(b"ab");
    fill.append(b"cd");
}

#[test]
fn memory_is_reused_within_its_class() {
    let pool = BlockPool::new(16 * MIB);
    let first = pool.allocate(MIB);
    let start = first.block().at_start();
    assert_eq!((pool.bytes_in_use(), pool.idle_bytes()), (MIB, 0));
    drop(first);
    assert_eq!((pool.bytes_in_use(), pool.idle_bytes()), (0, MIB));
    let second = pool.allocate(MIB - 1000);
    assert_eq!(second.block().at_start(), start);
    assert_eq!(second.filled(), 0);
    assert_eq!((pool.bytes_in_use(), pool.idle_bytes()), (MIB, 0));
}

#[test]
fn memory_lives_as_long_as_any_handle() {
    let pool = BlockPool::new(16 * MIB);
    let fill = pool.allocate(MIB);
    let block = fill.block();
    drop(fill);
    assert_eq!(pool.bytes_in_use(), MIB);
    drop(block);
    assert_eq!(pool.bytes_in_use(), 0);
}

#[test]
fn idle_memory_is_bounded_and_the_oldest_goes_first() {
    let pool = BlockPool::new(3 * MIB);
    let small: Vec<_> = (0..3).map(|_| pool.allocate(MIB)).collect();
    drop(small);
    assert_eq!(pool.idle_bytes(), 3 * MIB);
    drop(pool.allocate(2 * MIB));
    assert_eq!(pool.idle_bytes(), 3 * MIB);
    let start = {
        let fill = pool.allocate(2 * MIB);
        fill.block().at_start()
    };
    assert_eq!(
        pool.allocate(2 * MIB).block().at_start(),
        start,
        "the young one was kept"
    );
    drop(pool.allocate(4 * MIB));
    assert_eq!(
        pool.idle_bytes(),
        3 * MIB,
        "larger than the bound: not kept"
    );
    pool.trim();
    assert_eq!(pool.idle_bytes(), 0);
}

#[test]
fn large_memory_is_aligned_for_huge_pages() {
    let pool = BlockPool::new(0);
    for len in [2 * MIB, 5 * MIB, 8 * MIB] {
        assert_eq!(pool.allocate(len).block().at_start() % (2 * MIB), 0);
    }
}

#[test]
fn a_reader_sees_only_written_bytes_while_another_thread_appends() {
    const LEN: usize = if cfg!(miri) { 2 * KIB } else { MIB };
    let pool = BlockPool::new(0);
    let mut fill = pool.allocate(LEN);
    let block = fill.block();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut at = 0;
            for piece in (1..).map(|i| i * 37 % (LEN / 16)) {
                let piece = piece.min(LEN - at);
                let bytes: Vec<u8> = (at..at + piece).map(pattern).collect();
                fill.append(&bytes);
                at += piece;
                if at == LEN {
                    return;
                }
            }
        });
        let mut seen = 0;
        while seen < LEN {
            let valid = block.valid();
            assert!(valid >= seen);
            let fresh = block.bytes(seen..valid).iter().enumerate();
            assert!(
                fresh
                    .into_iter()
                    .all(|(i, byte)| *byte == pattern(seen + i))
            );
            seen = valid;
        }
    });
}

#[test]
fn many_threads_share_a_pool() {
    let (threads, rounds) = if cfg!(miri) { (3, 8) } else { (8, 500) };
    let pool = BlockPool::new(8 * MIB);
    thread::scope(|scope| {
        for thread in 0..threads {
            let pool = pool.clone();
            scope.spawn(move || {
                for round in 0..rounds {
                    let mut fill =
                        pool.allocate(70 * KIB + (thread * 131 + round * 977) % (200 * KIB));
                    fill.append(&[7; 100]);
                    assert_eq!(fill.block().bytes(0..100), [7; 100]);
                }
            });
        }
    });
    assert_eq!(pool.bytes_in_use(), 0);
    assert!(pool.idle_bytes() <= 8 * MIB);
}

fn pattern(at: usize) -> u8 {
    u8::try_from(at * 31 % 251).unwrap()
}

impl super::Block {
    fn at_start(&self) -> usize {
        self.bytes(0..0).as_ptr().addr()
    }
}
