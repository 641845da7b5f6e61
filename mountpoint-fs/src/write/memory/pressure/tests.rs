//! Writers that find no memory: early parts, waiting writers, failing writers.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{Operation, Time};
use mountpoint_client::types::ChecksumAlgorithm;

use crate::config::WriteConfig;
use crate::operation::FsError;
use crate::write::tests::{Bench, MIB, now, pattern, write};
use crate::write::{Beginning, Stored, Writer};

/// Files with parts of 8 MiB: writers may hold 70 MiB, of which 10 are kept for whole parts.
fn in_turn(time: Time) -> Bench {
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
    for index in 0..20 {
        let writer = bench.writer_of(&format!("key-{index}"), Beginning::New);
        let mut at = 0;
        while at < content.len() {
            let end = content.len().min(at + MIB);
            let mut waiting = Box::pin(writer.write(at as u64, &content[at..end]));
            if (&mut waiting).now_or_never().is_none() {
                waits += 1;
                assert!(bench.context.pressure.look(), "somebody waits");
                now(waiting).unwrap();
            }
            at = end;
        }
        writers.push(writer);
    }
    assert!(waits > 6, "{waits}");
    assert!(!bench.context.pressure.look());
    for (index, writer) in writers.iter().enumerate() {
        now(writer.store()).unwrap();
        let object = bench.client.object(&format!("key-{index}")).unwrap();
        assert!(object.content.to_vec() == content, "{index}");
    }
}

#[test]
fn who_finds_no_memory_fails_when_nothing_moves_and_not_before() {
    let bench = in_turn(Time::Manual);
    let held: Vec<_> = (0..20)
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
        assert!(bench.context.pressure.look());
        bench.clock.advance(Duration::from_secs(seconds));
        assert!(bench.context.pressure.look());
        (&mut waiting).now_or_never()
    };
    // The first has room for a part, and keeps that while a write has hold of it.
    let busy = held[0].state.try_lock().unwrap();
    assert!(wait(59).is_none());
    drop(busy);
    // Somebody writes: it begins anew.
    let more = [b'x'; 64 << 10];
    let write = |at: usize, data: &[u8]| {
        let written = held[0].write_now(at as u64, data);
        written.expect("there is room").unwrap();
    };
    write(filled[0], &more);
    let busy = held[0].state.try_lock().unwrap();
    assert!(wait(59).is_none());
    drop(busy);
    // A line of a log is not enough for that.
    write(filled[0] + more.len(), b"a line");
    let _busy = held[0].state.try_lock().unwrap();
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
    assert!(!bench.context.pressure.look());
}

#[test]
fn nothing_is_sent_early_while_parts_are_on_their_way() {
    let bench = in_turn(Time::Manual);
    let busy = bench.writer_of("busy", Beginning::New);
    write(&busy, 0, &pattern(8 * MIB)).unwrap();
    let held: Vec<_> = (0..12)
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
        assert!(bench.context.pressure.look());
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

/// Each writer holds enough for a part and waits for a larger buffer; the writers that hold the
/// rest of the memory have stopped.
#[test]
fn writers_that_all_wait_send_what_they_hold() {
    let bench = in_turn(Time::Immediate);
    let content = pattern(20 * MIB);
    let first = bench.writer_of("idle", Beginning::New);
    assert_eq!(write_some(&first, &content[..3 * MIB]), 3 * MIB);
    let busy: Vec<_> = (0..3)
        .map(|index| bench.writer_of(&format!("busy-{index}"), Beginning::New))
        .collect();
    for writer in &busy {
        write(writer, 0, &content[..5 * MIB]).unwrap();
    }
    let mut idle = vec![(first, 3 * MIB)];
    while idle.last().is_some_and(|(_, filled)| *filled == 3 * MIB) {
        let writer = bench.writer_of(&format!("idle-{}", idle.len()), Beginning::New);
        let filled = write_some(&writer, &content[..3 * MIB]);
        idle.push((writer, filled));
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
        bench.context.pressure.look();
        bench.clock.advance(Duration::from_secs(1));
        ended
    });
    for (index, ended) in ended.expect("they end").into_iter().enumerate() {
        assert_eq!(ended.unwrap().size, 20 << 20);
        let object = bench.client.object(&format!("busy-{index}")).unwrap();
        assert!(object.content.to_vec() == content, "{index}");
    }
    for (writer, filled) in &idle {
        assert_eq!(now(writer.store()).unwrap().size, *filled as u64);
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
    let held: Vec<_> = (0..12)
        .map(|index| bench.writer_of(&format!("held-{index}"), Beginning::New))
        .collect();
    for writer in &held {
        write_some(writer, &pattern(7 * MIB));
    }
    let last = bench.writer_of("last", Beginning::New);
    let data = pattern(MIB);
    let mut waiting = Box::pin(last.write(0, &data));
    assert!((&mut waiting).now_or_never().is_none());
    assert!(bench.context.pressure.look(), "somebody waits");
    assert_eq!(bench.pending(), [], "no part is full");
    bench.clock.advance(Duration::from_secs(60));
    bench.context.pressure.look();
    let refused = now(waiting).unwrap_err();
    assert!(
        matches!(&refused, FsError::NoSpace(text) if text.contains("--write-part-size")),
        "{refused}"
    );
}

/// The mount ends: a file whose write waits is given up with the others.
#[test]
fn who_waits_does_not_hold_up_the_end_of_the_mount() {
    let bench = in_turn(Time::Manual);
    let content = pattern(4 * MIB);
    let mut held = Vec::new();
    let (last, filled) = loop {
        let writer = bench.writer_of(&format!("held-{}", held.len()), Beginning::New);
        let filled = write_some(&writer, &content);
        if filled < content.len() {
            break (writer, filled);
        }
        held.push(writer);
    };
    let mut waiting = Box::pin(last.write(filled as u64, &content[..MIB]));
    assert!((&mut waiting).now_or_never().is_none());
    assert!(last.is_open().now_or_never().is_none(), "its write has it");
    bench.context.end_waiting();
    now(waiting).unwrap_err();
    assert!(!now(last.is_open()));
}

/// Parts have a fixed size here, so what a write has too much stays behind.
#[test]
fn what_is_behind_a_sent_part_does_not_hold_its_memory() {
    let bench = Bench::manual(24 << 20);
    let content = pattern(6 * MIB);
    let odd = bench.writer_of("odd", Beginning::New);
    let mut at = 0;
    while at <= 5 * MIB {
        let end = at + 300_000;
        let written = odd.write_now(at as u64, &content[at..end]);
        written.expect("there is memory").unwrap();
        at = end;
    }
    let mut others = Vec::new();
    let stuck = loop {
        let other = bench.writer_of(&format!("other-{}", others.len()), Beginning::New);
        let filled = write_some(&other, &content[..2 * MIB]);
        if filled < 2 * MIB {
            break (other, filled);
        }
        others.push(other);
    };
    let (other, filled) = stuck;
    let mut first = Box::pin(other.write(filled as u64, &content[filled..filled + MIB]));
    assert!((&mut first).now_or_never().is_none());
    let mut second = Box::pin(odd.write(at as u64, &content[at..at + 300_000]));
    assert!((&mut second).now_or_never().is_none());
    for _ in 0..2 {
        for request in bench.client.pending_requests() {
            bench.client.finish(request.id);
        }
    }
    now(first).unwrap();
    drop((others, other));
    now(second).unwrap();
    // Reads lent something for what is behind the part.
    assert!(bench.budget.peak() <= 20 << 20);
}

/// Bytes behind a part of a fixed size: the part is sent, and its memory is not kept for them while
/// the file is left open.
#[test]
fn one_thread_leaves_bytes_behind_parts_of_a_fixed_size_in_many_files() {
    let config = WriteConfig {
        part_size: Some(8 << 20),
        ..WriteConfig::default()
    };
    let bench = Bench::with(Time::Immediate, 80 << 20, config);
    let content = pattern(8_400_000);
    let writers: Vec<_> = (0..20)
        .map(|index| {
            let writer = bench.writer_of(&format!("key-{index}"), Beginning::New);
            for (at, piece) in (0..).step_by(300_000).zip(content.chunks(300_000)) {
                let mut waiting = Box::pin(writer.write(at, piece));
                if (&mut waiting).now_or_never().is_none() {
                    assert!(bench.context.pressure.look(), "somebody waits");
                    now(waiting).unwrap();
                }
            }
            writer
        })
        .collect();
    assert!(!bench.context.pressure.look());
    for (index, writer) in writers.iter().enumerate() {
        now(writer.store()).unwrap();
        let object = bench.client.object(&format!("key-{index}")).unwrap();
        assert!(object.content.to_vec() == content, "{index}");
    }
}

/// Writes to as many files as there is memory for, `len` bytes to each, and begins one write that
/// waits.
fn fill(bench: &Bench, name: &str, len: usize) -> (Vec<Arc<Writer>>, Arc<Writer>, usize) {
    let content = pattern(len);
    let mut held = Vec::new();
    loop {
        let writer = bench.writer_of(&format!("{name}-{}", held.len()), Beginning::New);
        let filled = write_some(&writer, &content);
        if filled < len {
            return (held, writer, filled);
        }
        held.push(writer);
    }
}

/// The first of those small files that have waited got the room for a part, and is left open.
#[test]
fn idle_files_give_back_what_they_do_not_fill() {
    let bench = in_turn(Time::Manual);
    let (large, last, _) = fill(&bench, "large", 4 * MIB);
    let (small, first, _) = fill(&bench, "small", 4096);
    let mut writers = vec![first];
    writers.extend((0..3).map(|index| bench.writer_of(&format!("idle-{index}"), Beginning::New)));
    let waiting: Vec<_> = writers
        .iter()
        .map(|writer| {
            let mut waiting = Box::pin(writer.write(0, b"abc"));
            assert!((&mut waiting).now_or_never().is_none());
            waiting
        })
        .collect();
    drop((large, last));
    waiting
        .into_iter()
        .for_each(|waiting| now(waiting).unwrap());
    let held = bench.context.bytes_held();
    assert!(held > 9 << 20, "one has a whole part: {held}");
    let (more, stuck, filled) = fill(&bench, "more", 4 * MIB);
    let piece = pattern(MIB);
    let mut waiting = Box::pin(stuck.write(filled as u64, &piece));
    assert!((&mut waiting).now_or_never().is_none());
    assert!(bench.context.pressure.look());
    bench.clock.advance(Duration::from_secs(1));
    assert!(bench.context.pressure.look());
    now(waiting).unwrap();
    assert_eq!(bench.pending(), []);
    drop((more, stuck, small));
    // They go on in the buffers that were cut.
    for writer in &writers {
        writer.write_now(3, b"def").expect("there is room").unwrap();
    }
    for writer in &writers {
        let mut stored = Box::pin(writer.store());
        assert!((&mut stored).now_or_never().is_none());
        for request in bench.client.pending_requests() {
            bench.client.finish(request.id);
        }
        assert_eq!(now(stored).unwrap().size, 6);
        let object = bench.client.object(writer.key().as_str()).unwrap();
        assert_eq!(object.content.to_vec(), b"abcdef");
    }
}

/// Each waiting writer gets the room for a part; one that writes a line now and then never fills
/// it, and is never idle.
#[test]
fn a_slow_file_does_not_keep_a_part_that_others_wait_for() {
    let bench = in_turn(Time::Manual);
    let (mut large, last, _) = fill(&bench, "large", 4 * MIB);
    let (small, slow, _) = fill(&bench, "small", 4096);
    let mut first = Box::pin(slow.write(0, b"x"));
    assert!((&mut first).now_or_never().is_none());
    large.push(last);
    let has_part = |writer: &Arc<Writer>| {
        let state = writer.state.try_lock().unwrap();
        let filling = state.buffer.filling();
        filling.is_some_and(|it| it.lease.is_part())
    };
    drop(large.remove(large.iter().position(has_part).unwrap()));
    now(first).unwrap();
    assert!(has_part(&slow));
    drop(large);
    let (more, stuck, filled) = fill(&bench, "more", 4 * MIB);
    let piece = pattern(MIB);
    let mut waiting = Box::pin(stuck.write(filled as u64, &piece));
    assert!((&mut waiting).now_or_never().is_none());
    let mut at = 1;
    let served = (0..60).find_map(|_| {
        bench.clock.advance(Duration::from_millis(500));
        at += u64::from(slow.write_now(at, b"x").is_some());
        bench.context.pressure.look();
        (&mut waiting).now_or_never()
    });
    served.expect("it was served").unwrap();
    assert!(at > 2, "the slow file was not idle");
    drop(waiting);
    drop((more, stuck, small));
    let mut rest = Box::pin(slow.write(at, b"end"));
    (&mut rest).now_or_never().expect("there is room").unwrap();
}

/// A copy on the server may take hours, and gives no memory back.
#[test]
fn what_is_copied_on_the_server_is_not_waited_for() {
    let bench = in_turn(Time::Manual);
    let etag = bench.client.put_pattern("base", 64 << 20, 1).etag;
    let size = 64 << 20;
    let base = bench.writer_of("base", Beginning::Append(Stored { etag, size }));
    write(&base, 64 << 20, &pattern(8 * MIB)).unwrap();
    for operation in [Operation::CreateMultipartUpload, Operation::UploadPart] {
        let pending = bench.client.pending_requests();
        let request = pending.iter().find(|it| it.operation == operation);
        bench.client.finish(request.expect("it is sent").id);
    }
    assert_eq!(bench.pending(), [Operation::UploadPartCopy]);
    let (_held, stuck, filled) = fill(&bench, "held", 6 * MIB);
    let piece = pattern(MIB);
    let mut waiting = Box::pin(stuck.write(filled as u64, &piece));
    assert!((&mut waiting).now_or_never().is_none());
    assert!(bench.context.pressure.look());
    let sent = [Operation::UploadPartCopy, Operation::CreateMultipartUpload];
    assert_eq!(bench.pending(), sent, "one was sent early");
}

#[test]
fn a_file_that_failed_in_the_background_holds_no_memory_that_others_wait_for() {
    let bench = in_turn(Time::Manual);
    let failed = bench.writer_of("failed", Beginning::New);
    write(&failed, 0, &pattern(12 * MIB)).unwrap();
    let create = bench.client.pending_requests();
    bench.client.finish(create[0].id);
    let part = bench.client.pending_requests();
    bench.client.fail(part[0].id, ErrorKind::Denied);
    assert!(failed.failure().is_some());
    bench.context.believe();
    let (_held, stuck, filled) = fill(&bench, "held", 3 * MIB);
    let piece = pattern(MIB);
    let mut waiting = Box::pin(stuck.write(filled as u64, &piece));
    assert!((&mut waiting).now_or_never().is_none());
    assert!(bench.context.pressure.look());
    now(waiting).unwrap();
}
