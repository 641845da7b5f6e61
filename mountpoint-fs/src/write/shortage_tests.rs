//! Writers that find no memory: what is sent early, who waits, and who fails.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use mountpoint_client::sim::{Operation, Time};
use mountpoint_client::types::ChecksumAlgorithm;

use super::tests::{Bench, MIB, now, pattern, write};
use super::{Beginning, Writer};
use crate::config::WriteConfig;
use crate::config::limits::{SHORTAGE_MAX, SHORTAGE_TICK, SHORTAGE_VAIN};
use crate::memory::Purpose;
use crate::operation::FsError;

/// Files with parts of 8 MiB, of which four can be held.
fn in_turn(time: Time) -> Bench {
    // Half of it for writers; two buffers of any size, two for whole parts.
    let config = WriteConfig {
        checksum: Some(ChecksumAlgorithm::Crc64Nvme),
        ..WriteConfig::default()
    };
    Bench::with(time, 80 << 20, config)
}

/// Writes as far as there is memory. Returns how far that was.
fn write_some(writer: &Writer, data: &[u8]) -> usize {
    let mut at = 0;
    for piece in data.chunks(MIB) {
        match writer.write_now(at as u64, piece) {
            Some(written) => written.unwrap(),
            None => break,
        }
        at += piece.len();
    }
    at
}

/// What `future` gives, if it does within `max`; itself otherwise.
fn within<F: Future + Unpin>(bench: &Bench, mut future: F, max: Duration) -> Result<F::Output, F> {
    let end = bench.clock.now() + max;
    loop {
        if let Some(output) = (&mut future).now_or_never() {
            return Ok(output);
        }
        if bench.clock.now() >= end {
            return Err(future);
        }
        bench.context.look();
        bench.clock.advance(SHORTAGE_TICK);
    }
}

/// One thread writes `len` bytes to each of `count` new files and closes none, until one fails.
fn hold(bench: &Bench, count: usize, len: usize) -> (Vec<Arc<Writer>>, Result<(), FsError>) {
    let content = pattern(len);
    let mut held = Vec::new();
    for index in 0..count {
        let writer = bench.writer_of(&format!("held-{index}"), Beginning::New);
        for (at, piece) in content.chunks(MIB).enumerate() {
            writer.written_by(THREAD);
            let write = Box::pin(writer.write((at * MIB) as u64, piece));
            let Ok(written) = within(bench, write, 2 * SHORTAGE_VAIN) else {
                panic!("{index}: it neither goes on nor fails");
            };
            if let Err(error) = written {
                return (held, Err(error));
            }
        }
        held.push(writer);
    }
    (held, Ok(()))
}

const THREAD: u32 = 7;

/// Of 256 MiB, writers may hold 224, of which a part and a write are kept for whole parts, and 5 MiB for buffers that shrink;
/// what is left over at the ends of the shares is less than ten buffers. Of 500 files, 512 MiB hold as much of each.
#[test]
fn one_thread_holds_many_small_files_open() {
    for (kib, expected) in [
        (1, 250..=250),
        (100, 250..=250),
        (250, 250..=250),
        (300, 250..=250),
        (400, 250..=250),
        (512, 250..=250),
        (840, 250..=250),
        (1024, 200..=211),
        (4096, 40..=53),
    ] {
        let bench = Bench::with(Time::Immediate, 256 << 20, WriteConfig::default());
        let begun = bench.clock.now();
        let (held, outcome) = hold(&bench, 250, kib << 10);
        let count = held.len();
        assert!(expected.contains(&count), "{kib} KiB: {count}, {outcome:?}");
        let took = bench.clock.now() - begun;
        assert!(took < 2 * SHORTAGE_VAIN, "{kib} KiB: {took:?}");
        let kept = bench.budget.try_reserve(32 << 20, Purpose::Demand);
        assert!(kept.is_some(), "{kib} KiB: reads have no memory");
        let is_refused = matches!(outcome, Err(FsError::NoSpace(_)));
        assert_eq!(is_refused, count < 250, "{kib} KiB: {outcome:?}");
        if kib == 400 {
            let content = pattern(kib << 10);
            for (index, writer) in held.iter().enumerate() {
                now(writer.store()).unwrap();
                let object = bench.client.object(&format!("held-{index}")).unwrap();
                assert!(object.content.to_vec() == content, "{index}");
            }
        }
        drop((held, kept));
        assert_eq!(bench.budget.used(), 0, "{kib} KiB");
    }
}

#[test]
fn who_fails_for_others_goes_on_when_one_is_closed() {
    let bench = in_turn(Time::Immediate);
    let (mut held, outcome) = hold(&bench, 1000, MIB);
    assert!(matches!(outcome, Err(FsError::NoSpace(_))), "{outcome:?}");
    for _ in 0..3 {
        // One is closed, and another one gets its memory.
        now(held.remove(0).store()).unwrap();
        let (more, outcome) = hold(&bench, 1, MIB);
        outcome.unwrap();
        held.extend(more);
    }
}

/// Each has sent a part, and holds little behind it in a buffer for a whole one.
#[test]
fn ends_of_many_large_files_are_held() {
    let bench = in_turn(Time::Immediate);
    let len = 8 * MIB + 100_000;
    let (held, outcome) = hold(&bench, 20, len);
    outcome.unwrap();
    for writer in &held {
        assert_eq!(now(writer.store()).unwrap().size, len as u64);
    }
}

/// Reads hold what writers may borrow: it comes back.
#[test]
fn who_waits_for_reads_does_not_fail_soon() {
    let bench = in_turn(Time::Immediate);
    let reads = bench.budget.try_reserve(48 << 20, Purpose::Demand).unwrap();
    let writers: Vec<_> = (0..64)
        .map(|index| bench.writer_of(&format!("new-{index}"), Beginning::New))
        .collect();
    let data = pattern(MIB);
    let stuck = writers.iter().find_map(|writer| {
        writer.written_by(THREAD);
        let write = Box::pin(writer.write(0, &data));
        within(&bench, write, 2 * SHORTAGE_VAIN).err()
    });
    let stuck = stuck.expect("there is no memory");
    drop(reads);
    assert!(matches!(within(&bench, stuck, SHORTAGE_VAIN), Ok(Ok(()))));
}

#[test]
fn one_thread_fills_many_files_in_turn() {
    let bench = in_turn(Time::Immediate);
    let content = pattern(6 * MIB + 5);
    let mut writers = Vec::new();
    let mut waits = 0;
    for index in 0..12 {
        let writer = bench.writer_of(&format!("key-{index}"), Beginning::New);
        let mut at = 0;
        while at < content.len() {
            let end = content.len().min(at + MIB);
            let mut waiting = Box::pin(writer.write(at as u64, &content[at..end]));
            if (&mut waiting).now_or_never().is_none() {
                waits += 1;
                assert!(bench.context.look(), "somebody waits");
                now(waiting).unwrap();
            }
            at = end;
        }
        writers.push(writer);
    }
    assert!(waits > 6, "{waits}");
    assert!(!bench.context.look());
    for (index, writer) in writers.iter().enumerate() {
        now(writer.store()).unwrap();
        let object = bench.client.object(&format!("key-{index}")).unwrap();
        assert!(object.content.to_vec() == content, "{index}");
    }
}

#[test]
fn who_finds_no_memory_fails_when_nothing_moves_and_not_before() {
    let bench = in_turn(Time::Manual);
    // Too little for a part, by threads that nobody sees.
    let data = pattern(4 * MIB - 100);
    let files: Vec<_> = (0..40)
        .map(|index| bench.writer_of(&format!("file-{index}"), Beginning::New))
        .collect();
    let stuck = files.iter().find_map(|writer| {
        let pieces = data.chunks(MIB).enumerate();
        pieces.into_iter().find_map(|(at, piece)| {
            let write = Box::pin(writer.write((at * MIB) as u64, piece));
            let waits = within(&bench, write, 2 * SHORTAGE_VAIN).err()?;
            Some((writer, waits))
        })
    });
    let (last, waiting) = stuck.expect("memory has an end");
    // Somebody writes: it begins anew.
    let second = Duration::from_secs(1);
    let Err(waiting) = within(&bench, waiting, SHORTAGE_MAX / 2) else {
        panic!("too early")
    };
    files[0]
        .write_now(data.len() as u64, b"x")
        .unwrap()
        .unwrap();
    let Err(waiting) = within(&bench, waiting, SHORTAGE_MAX - second) else {
        panic!("too early")
    };
    assert!(bench.pending().is_empty());
    let Ok(Err(error)) = within(&bench, waiting, 2 * second) else {
        panic!("it fails")
    };
    let text = error.to_string();
    assert!(matches!(error, FsError::NoSpace(_)), "{text}");
    assert!(
        text.contains(last.key().as_str()) && text.contains("--memory-target"),
        "{text}"
    );
    // For good, and what it held is free.
    now(last.store()).unwrap_err();
    assert!(!bench.context.look());
}

#[test]
fn nothing_is_sent_early_while_parts_are_on_their_way() {
    let bench = in_turn(Time::Manual);
    let busy = bench.writer_of("busy", Beginning::New);
    write(&busy, 0, &pattern(8 * MIB)).unwrap();
    let held: Vec<_> = (0..4)
        .map(|index| bench.writer_of(&format!("held-{index}"), Beginning::New))
        .collect();
    let filled: Vec<_> = held
        .iter()
        .map(|writer| write_some(writer, &pattern(6 * MIB)))
        .collect();
    let stuck = filled.iter().position(|filled| *filled < 6 * MIB).unwrap();
    let data = pattern(MIB);
    let mut waiting = Box::pin(held[stuck].write(filled[stuck] as u64, &data));
    assert!((&mut waiting).now_or_never().is_none());
    for _ in 0..3 {
        assert!(bench.context.look());
        bench.clock.advance(Duration::from_secs(100));
    }
    // One file has an upload: what the busy one sends gives the memory back.
    assert_eq!(bench.pending(), [Operation::CreateMultipartUpload]);
    for _ in 0..2 {
        for request in bench.client.pending_requests() {
            bench.client.finish(request.id);
        }
    }
    now(waiting).unwrap();
}

/// Each holds enough for a part and waits for a larger buffer; those who hold the rest of the memory have stopped.
#[test]
fn writers_that_all_wait_send_what_they_hold() {
    let bench = in_turn(Time::Immediate);
    let content = pattern(20 * MIB);
    let busy: Vec<_> = (0..3)
        .map(|index| bench.writer_of(&format!("busy-{index}"), Beginning::New))
        .collect();
    for writer in &busy {
        write(writer, 0, &content[..5 * MIB]).unwrap();
    }
    let idle: Vec<_> = (0..2)
        .map(|index| bench.writer_of(&format!("idle-{index}"), Beginning::New))
        .collect();
    for writer in &idle {
        assert_eq!(write_some(writer, &content[..3 * MIB]), 3 * MIB);
    }
    for writer in &busy {
        let next = writer.write_now(5 << 20, &content[..MIB]);
        assert!(next.is_none(), "there is memory");
    }
    let ends = busy.iter().map(async |writer| {
        for (index, piece) in content.chunks(MIB).enumerate().skip(5) {
            writer.write((index * MIB) as u64, piece).await?;
            // The others have their turn.
            tokio::task::yield_now().await;
        }
        writer.store().await
    });
    let mut all = Box::pin(join_all(ends));
    let ended = (0..1000).find_map(|_| {
        let ended = (&mut all).now_or_never();
        bench.context.look();
        bench.clock.advance(Duration::from_secs(1));
        ended
    });
    for (index, ended) in ended.expect("they end").into_iter().enumerate() {
        assert_eq!(ended.unwrap().size, 20 << 20);
        let object = bench.client.object(&format!("busy-{index}")).unwrap();
        assert!(object.content.to_vec() == content, "{index}");
    }
    for writer in &idle {
        assert_eq!(now(writer.store()).unwrap().size, 3 << 20);
    }
}

/// Some servers take no parts of other sizes than the first.
#[test]
fn parts_of_a_fixed_size_are_not_sent_early() {
    let config = WriteConfig {
        part_size: Some(8 << 20),
        ..WriteConfig::default()
    };
    let bench = Bench::with(Time::Manual, 80 << 20, config);
    let (held, outcome) = hold(&bench, 20, 7 * MIB);
    assert!(!held.is_empty());
    assert_eq!(bench.pending(), [], "no part is full");
    assert!(
        matches!(&outcome, Err(FsError::NoSpace(text)) if text.contains("--write-part-size")),
        "{outcome:?}"
    );
}
