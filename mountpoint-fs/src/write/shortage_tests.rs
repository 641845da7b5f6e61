//! Writers that find no memory: what is sent early, who waits, and who fails.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use mountpoint_client::sim::{Operation, Time};
use mountpoint_client::types::ChecksumAlgorithm;

use super::tests::{Bench, MIB, now, pattern, write};
use super::{Beginning, Writer};
use crate::config::WriteConfig;
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
    let held: Vec<_> = (0..8)
        .map(|index| bench.writer_of(&format!("held-{index}"), Beginning::New))
        .collect();
    // Too little for a part.
    let filled: Vec<_> = held
        .iter()
        .map(|writer| write_some(writer, &pattern(4 * MIB)))
        .collect();
    let last = bench.writer_of("last", Beginning::New);
    let data = pattern(MIB);
    let mut at = 0;
    while let Some(written) = last.write_now(at, &data) {
        written.unwrap();
        at += data.len() as u64;
        assert!(at < 64 << 20, "memory has an end");
    }
    let mut waiting = Box::pin(last.write(at, &data));
    assert!((&mut waiting).now_or_never().is_none());
    let mut wait = |seconds: u64| {
        assert!(bench.context.look());
        bench.clock.advance(Duration::from_secs(seconds));
        assert!(bench.context.look());
        (&mut waiting).now_or_never()
    };
    assert!(wait(59).is_none());
    // Somebody writes: it begins anew.
    let (index, filled) = filled.iter().enumerate().max_by_key(|it| it.1).unwrap();
    held[index]
        .write_now(*filled as u64, b"x")
        .unwrap()
        .unwrap();
    assert!(wait(59).is_none());
    assert!(bench.pending().is_empty());
    let error = wait(1).expect("it fails").unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, FsError::NoSpace(_)), "{text}");
    assert!(
        text.contains("last") && text.contains("--memory-target"),
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
    let held: Vec<_> = (0..8)
        .map(|index| bench.writer_of(&format!("held-{index}"), Beginning::New))
        .collect();
    for writer in &held {
        write_some(writer, &pattern(7 * MIB));
    }
    let last = bench.writer_of("last", Beginning::New);
    let data = pattern(MIB);
    let mut waiting = Box::pin(last.write(0, &data));
    assert!((&mut waiting).now_or_never().is_none());
    assert!(bench.context.look(), "somebody waits");
    assert_eq!(bench.pending(), [], "no part is full");
    bench.clock.advance(Duration::from_secs(60));
    bench.context.look();
    let refused = now(waiting).unwrap_err();
    assert!(
        matches!(&refused, FsError::NoSpace(text) if text.contains("--write-part-size")),
        "{refused}"
    );
}
