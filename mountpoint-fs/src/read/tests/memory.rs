//! Memory of readers: the budget, idle files and closed files.

use super::*;

#[test]
fn a_dropped_reader_gives_back_everything() {
    let bucket = Bucket::new(Time::Manual);
    let reader = bucket.open(64 * MIB);
    drop(Task::start(&reader, 0, 256 * KIB));
    drop(reader);
    let stats = bucket.context.stats();
    assert_eq!((stats.streams, stats.readers_holding), (0, 0));
    assert!(stats.budget_used > 0, "GETs in flight keep their blocks");
    bucket.client.deliver_all();
    assert_eq!(
        (
            bucket.context.stats().budget_used,
            bucket.context.stats().block_bytes
        ),
        (0, 0)
    );
}

#[test]
fn replies_keep_their_share_of_the_memory() {
    let bucket = Bucket::new(Time::Immediate);
    let reader = bucket.open(64 * KIB);
    let data = reader.read(0, 64 * 1024).now_or_never().unwrap().unwrap();
    drop(reader);
    assert_eq!(bucket.context.stats().budget_used, 64 * KIB);
    assert_bytes(&data, 0..64 * KIB);
    drop(data);
    assert_eq!(bucket.context.stats().budget_used, 0);
}

#[test]
fn the_budget_holds_with_many_streams() {
    let bucket = Bucket::with_memory(Time::Manual, 16 * MIB);
    let readers: Vec<_> = (0..100).map(|n| bucket.open(2 * MIB + n)).collect();
    for step in 0..4 {
        let (offset, len) = (step * 256 * KIB, 256 * 1024);
        let mut reads: Vec<_> = readers
            .iter()
            .map(|reader| reader.read(offset, len).boxed())
            .collect();
        while !reads.is_empty() {
            let before = reads.len();
            reads.retain_mut(|read| match read.now_or_never() {
                Some(outcome) => {
                    assert_bytes(&outcome.unwrap(), offset..offset + u64::from(len));
                    false
                }
                None => true,
            });
            let delivered = bucket.client.deliver_all();
            assert!(
                delivered > 0 || reads.len() < before,
                "{} reads wait for ever",
                reads.len()
            );
        }
        bucket.clock.advance(Duration::from_millis(20));
    }
    let stats = bucket.context.stats();
    assert!(stats.budget_peak <= 16 * MIB, "{stats:?}");
    drop(readers);
    assert_eq!(bucket.context.stats().budget_used, 0);
}

#[test]
fn read_ahead_leaves_memory_for_demand() {
    let bucket = Bucket::with_memory(Time::Manual, 16 * MIB);
    let streams: Vec<_> = (0..64).map(|n| bucket.open(64 * MIB + n)).collect();
    let mut tasks: Vec<_> = Vec::new();
    for reader in &streams {
        tasks.push(reader.read(0, 128 * 1024).boxed());
        assert!(tasks.last_mut().unwrap().now_or_never().is_none());
    }
    let ahead: u64 = bucket
        .pending()
        .iter()
        .filter(|get| !get.2)
        .map(|get| get.1 - get.0)
        .sum();
    assert!(ahead * KIB <= 12 * MIB, "{ahead}");
    let foreground = bucket.pending().iter().filter(|get| get.2).count();
    assert!(foreground >= 15, "{foreground} of 64 reads at once");
    while !tasks.is_empty() {
        let before = tasks.len();
        let delivered = bucket.client.deliver_all();
        tasks.retain_mut(|task| task.now_or_never().is_none());
        assert!(
            delivered > 0 || tasks.len() < before,
            "{} reads wait for ever",
            tasks.len()
        );
    }
}

#[test]
fn idle_files_give_way_and_go_after_a_while() {
    let bucket = Bucket::with_memory(Time::Immediate, 16 * MIB);
    let idle: Vec<_> = (0..100).map(|n| bucket.open(64 * MIB + n)).collect();
    idle.iter().for_each(|reader| read(reader, 0, 4 * KIB));
    assert!(bucket.context.stats().budget_used > 12 * MIB);
    bucket.clock.advance(Duration::from_secs(1));
    // The reader needs more than is free: the files that were idle for longest give way, and can be
    // read again.
    let active = bucket.open(32 * MIB);
    for step in 0..32 {
        read(&active, step * MIB, MIB);
    }
    idle.iter()
        .for_each(|reader| read(reader, 4 * KIB, 4 * KIB));
    assert!(bucket.context.stats().budget_peak <= 16 * MIB);
    bucket.clock.advance(Duration::from_secs(11));
    bucket.context.give_back_idle();
    let stats = bucket.context.stats();
    assert_eq!(
        (stats.budget_used, stats.readers_holding, stats.streams),
        (0, 0, 0)
    );
    read(&active, 0, 4 * KIB);
}

#[test]
fn an_idle_reader_is_small() {
    assert!(crate::read::reader::idle_size() <= 400);
}
