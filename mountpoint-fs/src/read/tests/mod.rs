//! Readers of a simulated bucket: exact requests, bytes, waits, memory and failures.

mod failures;
mod hedging;
mod memory;
mod patterns;
mod requests;
mod shared_cache;
mod sharing;
mod sharing_gains;
mod sharing_mixed;
mod throughput;
mod waiting;

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::FutureExt as _;
use mountpoint_client::testing::sim::{
    Fault, FaultRule, Operation, PendingGet, SimClient, SimOptions, Time, When, pattern_bytes,
};
use mountpoint_client::types::Priority;
use mountpoint_client::{ErrorKind, ObjectClient};
use proptest::prelude::*;
use rand::prelude::{IndexedRandom as _, SeedableRng as _, SliceRandom as _, StdRng};

use super::{ReadContext, Reader};
use crate::cache::Caches;
use crate::clock::Clock;
use crate::config::ReadConfig;
use crate::operation::{FsError, ReadData};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const SEED: u64 = 7;

/// A bucket and the context that its readers share.
struct Bucket {
    client: Arc<SimClient>,
    context: Arc<ReadContext>,
    clock: Clock,
}

impl Bucket {
    fn new(time: Time) -> Self {
        Self::with(
            SimOptions {
                time,
                ..SimOptions::default()
            },
            ReadConfig::default(),
        )
    }

    fn with(options: SimOptions, config: ReadConfig) -> Self {
        let client = Arc::new(SimClient::new(options));
        let clock = Clock::manual();
        let context = ReadContext::new(
            Arc::clone(&client) as Arc<dyn ObjectClient>,
            config,
            Caches::default(),
            clock.clone(),
        );
        Self {
            client,
            context,
            clock,
        }
    }

    fn with_memory(time: Time, memory_max: u64) -> Self {
        let config = ReadConfig {
            memory_max,
            ..ReadConfig::default()
        };
        Self::with(
            SimOptions {
                time,
                ..SimOptions::default()
            },
            config,
        )
    }

    /// A reader of a new object with `size` bytes of the pattern.
    fn open(&self, size: u64) -> Reader {
        let object = self
            .client
            .put_pattern(&format!("object-{size}"), size, SEED);
        Reader::new(&self.context, object.key, object.etag, size)
    }

    /// The GETs in flight, as ranges in KiB, and whether a reader waits for each.
    fn pending(&self) -> Vec<(u64, u64, bool)> {
        let gets = self.client.pending_gets().into_iter();
        let is_foreground = |get: &PendingGet| get.priority == Priority::Foreground;
        gets.map(|get| {
            (
                get.range.start / KIB,
                get.range.end / KIB,
                is_foreground(&get),
            )
        })
        .collect()
    }

    /// Completes the GET that begins at `offset`.
    fn finish(&self, offset: u64) {
        let get = self.get_at(offset);
        assert!(self.client.finish(get.id));
    }

    fn get_at(&self, offset: u64) -> PendingGet {
        let mut gets = self.client.pending_gets().into_iter();
        gets.find(|get| get.range.start == offset)
            .expect("a GET begins there")
    }

    fn bytes_requested(&self) -> u64 {
        self.context.stats().bytes_requested
    }
}

#[track_caller]
fn assert_bytes(data: &ReadData, range: Range<u64>) {
    assert!(
        data.to_vec() == pattern_bytes(SEED, range.clone()),
        "wrong bytes in {range:?}"
    );
}

/// Reads from a store that answers at once, and compares the bytes.
#[track_caller]
fn read(reader: &Reader, offset: u64, len: u64) {
    let data = reader
        .read(offset, u32::try_from(len).unwrap())
        .now_or_never()
        .expect("nothing to wait for")
        .unwrap();
    assert_bytes(&data, offset..offset + len);
}

/// A read that is polled by hand.
struct Task<'a> {
    future: Pin<Box<dyn Future<Output = Result<ReadData, FsError>> + Send + 'a>>,
    wakes: Arc<Wakes>,
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl<'a> Task<'a> {
    /// A read that was polled once and has to wait.
    #[track_caller]
    fn start(reader: &'a Reader, offset: u64, len: u64) -> Self {
        let future = Box::pin(reader.read(offset, u32::try_from(len).unwrap()));
        let mut task = Self {
            future,
            wakes: Arc::default(),
        };
        assert!(task.poll().is_pending());
        task
    }

    fn poll(&mut self) -> Poll<Result<ReadData, FsError>> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::Relaxed)
    }

    #[track_caller]
    fn finish(mut self) -> Result<ReadData, FsError> {
        match self.poll() {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => panic!("still waiting"),
        }
    }
}
