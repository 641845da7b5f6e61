//! Files that find no memory: parts that are sent early, writes that wait, and writes that fail.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{Fault, FaultRule, Operation, Time, When};
use mountpoint_client::types::ChecksumAlgorithm;

use super::{MIB, Mount, now, pattern, wait, write, write_some};
use crate::config::WriteConfig;
use crate::file::StagedFile;
use crate::operation::FsError;

/// Files with parts of 8 MiB: writers may hold 70 MiB, of which 10 are kept for whole parts.
fn in_turn(time: Time) -> Mount {
    with_parts(time, None)
}

fn with_parts(time: Time, part_size: Option<u64>) -> Mount {
    let config = WriteConfig {
        checksum: Some(ChecksumAlgorithm::Crc64Nvme),
        part_size,
        ..WriteConfig::default()
    };
    Mount::new(time, 80 << 20, config)
}

type Waiting = BoxFuture<'static, Result<(), FsError>>;

fn begin(file: &StagedFile, offset: usize, data: &[u8]) -> Waiting {
    let (file, data) = (file.clone(), data.to_vec().into());
    async move { file.write(offset as u64, data).await }.boxed()
}

/// A write that finds no memory.
#[track_caller]
fn waits(file: &StagedFile, offset: usize, data: &[u8]) -> Waiting {
    let mut waiting = begin(file, offset, data);
    assert!((&mut waiting).now_or_never().is_none(), "there is memory");
    waiting
}

/// Files with `len` bytes each, as many as there is memory for, and one more, with the bytes that
/// it has got.
fn fill(mount: &Mount, len: usize) -> (Vec<StagedFile>, StagedFile, usize) {
    let (content, mut held) = (pattern(len), Vec::new());
    loop {
        let file = mount.new_file(&format!("held-{}", held.len()));
        let filled = write_some(&file, &content);
        if filled < len {
            return (held, file, filled);
        }
        held.push(file);
        assert!(held.len() < 100, "memory has an end");
    }
}

/// As [`fill`], where no file can give anything back.
fn fill_up(mount: &Mount, len: usize) -> (Vec<StagedFile>, StagedFile, usize) {
    let (content, (mut held, mut file, mut filled)) = (pattern(len), fill(mount, len));
    loop {
        while filled < len {
            let end = len.min(filled + MIB);
            let mut waiting = begin(&file, filled, &content[filled..end]);
            let mut written = (&mut waiting).now_or_never();
            for _ in 0..2 {
                mount.writing.relieve_once();
                mount.clock.advance(Duration::from_secs(1));
                written = written.or_else(|| (&mut waiting).now_or_never());
            }
            let Some(written) = written else {
                drop(waiting);
                assert!(!mount.writing.relieve_once());
                return (held, file, filled);
            };
            written.unwrap();
            filled = end;
        }
        let next = mount.new_file(&format!("held-{}", held.len() + 1));
        held.push(std::mem::replace(&mut file, next));
        filled = write_some(&file, &content);
        assert!(held.len() < 100, "memory has an end");
    }
}

/// With parts of a fixed size, the last bytes of each file are behind a whole part.
#[test]
fn one_thread_fills_many_files_in_turn() {
    for (part_size, len, piece) in [
        (None, 6 * MIB + 5, MIB),
        (Some(8 << 20), 8_400_000, 300_000),
    ] {
        let mount = with_parts(Time::Immediate, part_size);
        let content = pattern(len);
        let (mut files, mut waited) = (Vec::new(), 0);
        for index in 0..20 {
            let file = mount.new_file(&format!("key-{index}"));
            for (at, data) in (0..).step_by(piece).zip(content.chunks(piece)) {
                let mut waiting = file.write(at, data.to_vec().into()).boxed();
                let mut written = (&mut waiting).now_or_never();
                waited += usize::from(written.is_none());
                for _ in 0..5 {
                    if written.is_none() {
                        assert!(mount.writing.relieve_once(), "it waits");
                        wait(mount.writing.drained());
                        written = (&mut waiting).now_or_never();
                    }
                }
                written.expect("a part was sent").unwrap();
            }
            files.push(file);
        }
        assert!(waited > 3 || part_size.is_some(), "{waited}");
        assert!(!mount.writing.relieve_once());
        for (index, file) in files.iter().enumerate() {
            wait(file.store()).unwrap();
            let stored = mount.content(&format!("key-{index}"));
            assert!(stored.unwrap() == content, "{index}");
        }
        drop(files);
        assert_eq!((mount.budget.used(), mount.uploads()), (0, 0));
    }
}

#[test]
fn a_write_fails_when_nothing_moves_for_a_minute_and_not_before() {
    let mount = in_turn(Time::Manual);
    let data = pattern(4 * MIB);
    // Too little for a part.
    let (mut held, last, filled) = fill_up(&mount, 4 * MIB);
    let mut waiting = waits(&last, filled, &data[filled..]);
    let mut wait = |seconds: u64| {
        assert!(mount.writing.relieve_once());
        mount.clock.advance(Duration::from_secs(seconds));
        assert!(mount.writing.relieve_once());
        (&mut waiting).now_or_never()
    };
    assert!(wait(59).is_none());
    // A program writes what it has written once more: the minute begins anew.
    write(&held[0], 100, &[b'x'; 64 << 10]).unwrap();
    assert!(wait(59).is_none());
    // A line of a log is not enough for that.
    write(&held[0], 100, b"a line").unwrap();
    assert_eq!(mount.pending(), []);
    let error = wait(1).expect("it fails").unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, FsError::NoSpace(_)), "{text}");
    let key = last.key();
    assert!(
        text.contains(key.as_str()) && text.contains("--memory-target"),
        "{text}"
    );
    // The file has what was written before, and takes more when there is memory.
    assert!(!mount.writing.relieve_once());
    assert!(last.failure().is_none());
    assert_eq!(last.size(), filled as u64);
    drop(held.split_off(held.len() - 2));
    write(&last, filled, &data[filled..]).unwrap();
    let mut stored = last.store().boxed();
    assert!((&mut stored).now_or_never().is_none());
    mount.client.deliver_all();
    now(stored).unwrap();
    assert!(mount.content(key.as_str()).unwrap() == data);
    drop((held, last));
    assert_eq!(mount.budget.used(), 0);
}

#[test]
fn nothing_is_sent_early_while_parts_are_on_their_way() {
    let mount = in_turn(Time::Manual);
    let busy = mount.new_file("busy");
    write(&busy, 0, &pattern(8 * MIB)).unwrap();
    let (_held, stuck, filled) = fill(&mount, 6 * MIB);
    let waiting = waits(&stuck, filled, &pattern(MIB));
    for _ in 0..3 {
        assert!(mount.writing.relieve_once());
        mount.clock.advance(Duration::from_secs(100));
    }
    // One file has an upload: what the busy one sends gives the memory back.
    assert_eq!(mount.pending(), [Operation::CreateMultipartUpload]);
    mount.answer();
    assert_eq!(mount.pending(), [Operation::UploadPart]);
    mount.answer();
    mount.writing.relieve_once();
    now(waiting).unwrap();
}

/// Each of the busy files holds enough for a part and waits for more; those that hold the rest of
/// the memory are not written.
#[test]
fn files_that_all_wait_send_what_they_hold() {
    let mount = in_turn(Time::Immediate);
    let content = pattern(20 * MIB);
    let busy: Vec<_> = (0..3)
        .map(|index| mount.new_file(&format!("busy-{index}")))
        .collect();
    for file in &busy {
        write(file, 0, &content[..5 * MIB]).unwrap();
    }
    let mut idle = Vec::new();
    while idle.last().is_none_or(|(_, filled)| *filled == 3 * MIB) {
        let file = mount.new_file(&format!("idle-{}", idle.len()));
        let filled = write_some(&file, &content[..3 * MIB]);
        idle.push((file, filled));
    }
    let ends = busy.iter().map(async |file| {
        for (index, piece) in content.chunks(MIB).enumerate().skip(5) {
            file.write((index * MIB) as u64, piece.to_vec().into())
                .await?;
            // The others have their turn.
            tokio::task::yield_now().await;
        }
        file.store().await
    });
    let mut all = Box::pin(join_all(ends));
    let ended = (0..1000).find_map(|_| {
        let ended = (&mut all).now_or_never();
        mount.writing.relieve_once();
        mount.clock.advance(Duration::from_secs(1));
        ended
    });
    for (index, ended) in ended.expect("they end").into_iter().enumerate() {
        ended.unwrap();
        let stored = mount.content(&format!("busy-{index}"));
        assert!(stored.unwrap() == content, "{index}");
    }
    for (file, filled) in &idle {
        wait(file.store()).unwrap();
        let stored = mount.content(file.key().as_str());
        assert!(stored.unwrap() == content[..*filled]);
    }
    drop(all);
    drop((busy, idle));
    assert_eq!(mount.budget.used(), 0);
}

/// Two dozen programs, each with a file: memory has no room for the parts of all. A write that
/// fails loses nothing, and the program may close its file, or try again.
#[test]
fn more_files_than_there_is_memory_for_all_end() {
    for time in [Time::Immediate, Time::Manual] {
        let mount = in_turn(time);
        let content = pattern(8 * MIB);
        let ends = (0..24).map(async |index| {
            let file = mount.new_file(&format!("key-{index}"));
            let (mut at, mut failures) = (0, 0);
            while at < content.len() {
                let piece = content[at..at + MIB].to_vec().into();
                match file.write(at as u64, piece).await {
                    Ok(()) => at += MIB,
                    Err(FsError::NoSpace(_)) => {
                        failures += 1;
                        break;
                    }
                    Err(error) => panic!("{index}: {error}"),
                }
                tokio::task::yield_now().await;
            }
            file.store().await.unwrap();
            assert!(mount.content(file.key().as_str()).unwrap() == content[..at]);
            failures
        });
        let mut all = Box::pin(join_all(ends));
        let ended = (0..10_000).find_map(|_| {
            let ended = (&mut all).now_or_never();
            mount.answer();
            mount.writing.relieve_once();
            mount.clock.advance(Duration::from_secs(1));
            ended
        });
        let failures: usize = ended.expect("they end").into_iter().sum();
        assert!(failures < 24, "{failures}");
        drop(all);
        mount.client.deliver_all();
        assert_eq!((mount.budget.used(), mount.uploads()), (0, 0), "{time:?}");
    }
}

/// Some servers take no parts of other sizes than the first.
#[test]
fn parts_of_a_fixed_size_are_not_sent_early() {
    let mount = with_parts(Time::Manual, Some(8 << 20));
    let (_held, last, filled) = fill_up(&mount, 7 * MIB);
    let waiting = waits(&last, filled, &pattern(MIB));
    assert!(mount.writing.relieve_once(), "it waits");
    assert_eq!(mount.pending(), [], "no part is full");
    mount.clock.advance(Duration::from_secs(60));
    mount.writing.relieve_once();
    let refused = now(waiting).unwrap_err();
    assert!(
        matches!(&refused, FsError::NoSpace(text) if text.contains("--write-part-size")),
        "{refused}"
    );
}

/// A write that waits is given up with the mount, and so is each later one.
#[test]
fn who_waits_does_not_hold_up_the_end_of_the_mount() {
    let mount = in_turn(Time::Manual);
    let (_held, last, filled) = fill_up(&mount, 4 * MIB);
    let waiting = waits(&last, filled, &pattern(MIB));
    mount.writing.end_waiting();
    assert!(matches!(now(waiting), Err(FsError::NoSpace(_))));
    let later = last.write(filled as u64, pattern(MIB).into());
    assert!(matches!(now(later), Err(FsError::NoSpace(_))));
}

/// A program that writes a line now and then is never idle, and never fills its part.
#[test]
fn a_slow_file_does_not_keep_a_part_that_others_wait_for() {
    let mount = in_turn(Time::Manual);
    mount.client.put_pattern("slow", 4 << 20, 1);
    let slow = mount.over("slow");
    // Bytes behind a beginning are likely to fill their part.
    write(&slow, 4 * MIB, &pattern(MIB)).unwrap();
    let has_part = |mount: &Mount| mount.budget.used() >= 8 << 20;
    assert!(has_part(&mount));
    let (held, stuck, filled) = fill(&mount, 4 * MIB);
    let mut waiting = waits(&stuck, filled, &pattern(MIB));
    let mut at = 5 * MIB as u64;
    let served = (0..60).find_map(|_| {
        mount.clock.advance(Duration::from_millis(500));
        let written = slow.write_now(at, b"x");
        at += written.map_or(0, |written| written.map(|()| 1).unwrap());
        mount.writing.relieve_once();
        (&mut waiting).now_or_never()
    });
    served.expect("it was served").unwrap();
    assert_eq!(mount.pending(), []);
    drop((held, stuck));
    assert!(!has_part(&mount));
    slow.write_now(at, b"end")
        .expect("there is memory")
        .unwrap();
}

/// Stored bytes are still in memory for reads.
#[test]
fn a_stored_file_gives_its_memory_back_and_sends_nothing() {
    let mount = in_turn(Time::Immediate);
    let content = pattern(20 * MIB);
    let stored = mount.new_file("stored");
    write(&stored, 0, &content).unwrap();
    wait(stored.store()).unwrap();
    wait(mount.writing.drained());
    let held = mount.budget.used();
    assert!(held > 0);
    drop(mount.client.take_log());
    let (_held, last, filled) = fill(&mount, 4 * MIB);
    now(begin(&last, filled, &content[filled..4 * MIB])).unwrap();
    assert_eq!(mount.client.log().records(), []);
    assert!(wait(stored.read(0, 10, false)).unwrap().to_vec() == content[..10]);
}

/// A copy on the server may take hours, and gives no memory back.
#[test]
fn what_is_copied_on_the_server_is_not_waited_for() {
    let mount = in_turn(Time::Manual);
    mount.client.put_pattern("base", 64 << 20, 1);
    let base = mount.over("base");
    write(&base, 64 << 20, &pattern(MIB)).unwrap();
    let mut storing = base.store().boxed();
    assert!((&mut storing).now_or_never().is_none());
    assert_eq!(mount.pending(), [Operation::CreateMultipartUpload]);
    mount.answer();
    assert_eq!(mount.pending(), [Operation::UploadPartCopy]);
    let (_held, stuck, filled) = fill(&mount, 6 * MIB);
    let _waiting = waits(&stuck, filled, &pattern(MIB));
    assert!(mount.writing.relieve_once());
    let sent = [Operation::UploadPartCopy, Operation::CreateMultipartUpload];
    assert_eq!(mount.pending(), sent, "one was sent early");
}

/// The upload ends, and with it the only copy of some bytes: the others are of no use.
#[test]
fn a_file_that_failed_in_the_background_holds_no_memory_that_others_wait_for() {
    let mount = in_turn(Time::Immediate);
    let failed = mount.new_file("failed");
    let content = pattern(8 * MIB);
    let mut at = 0;
    while !failed.has_sent() {
        for piece in content.chunks(MIB) {
            wait(begin(&failed, at, piece)).unwrap();
            at += MIB;
        }
        wait(mount.writing.drained());
    }
    mount.client.add_fault(FaultRule {
        operation: Some(Operation::UploadPart),
        when: When::Next(1),
        fault: Fault::Fail(ErrorKind::Denied),
    });
    while wait(begin(&failed, at, &content[..MIB])).is_ok() {
        at += MIB;
        wait(mount.writing.drained());
    }
    assert!(failed.failure().is_some());
    let held = mount.budget.used();
    assert!(held > 0);
    mount.writing.believe();
    let small = pattern(3 * MIB);
    let mut others: Vec<StagedFile> = Vec::new();
    loop {
        let file = mount.new_file(&format!("other-{}", others.len()));
        let filled = write_some(&file, &small);
        others.push(file);
        if filled < small.len() {
            let file = others.last().unwrap();
            now(begin(file, filled, &small[filled..])).unwrap();
            break;
        }
    }
    assert!(matches!(now(failed.store()), Err(FsError::Denied(_))));
    drop((others, failed));
    assert_eq!((mount.budget.used(), mount.uploads()), (0, 0));
}
