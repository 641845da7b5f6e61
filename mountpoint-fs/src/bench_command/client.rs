//! Requests through the client alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mountpoint_client::ObjectClient;
use mountpoint_client::types::{GetRequest, Priority};
use mountpoint_crt_sys::block::BlockPool;
use tokio::task::JoinSet;

use super::figures::Figures;
use super::machine::CpuTicks;
use super::objects::Target;
use crate::clock::Clock;
use crate::mutate::fetch::begin_get;

/// The client, and what a step needs.
#[derive(Clone)]
pub(super) struct ClientBench {
    client: Arc<dyn ObjectClient>,
    pool: BlockPool,
    clock: Clock,
    step: Duration,
}

impl ClientBench {
    pub(super) fn new(client: Arc<dyn ObjectClient>, clock: Clock, step: Duration) -> Self {
        Self {
            client,
            pool: BlockPool::new(POOL_BYTES),
            clock,
            step,
        }
    }

    /// The client.
    pub(super) fn client(&self) -> &Arc<dyn ObjectClient> {
        &self.client
    }

    /// GETs of `len` bytes from `targets`, with `at_once` of them in flight. Each begins where the
    /// one before ended, over all objects and then again.
    pub(super) async fn get(&self, targets: &[Target], len: u64, at_once: usize) -> Figures {
        let ranges = Arc::new(Ranges::new(targets, len));
        let (begun, ticks) = (self.clock.now(), CpuTicks::now());
        let mut workers = JoinSet::new();
        for _ in 0..at_once {
            let (bench, ranges) = (self.clone(), Arc::clone(&ranges));
            workers.spawn(async move { bench.worker(&ranges, begun).await });
        }
        let mut figures = Figures::default();
        while let Some(worker) = workers.join_next().await {
            match worker {
                Ok(of_worker) => figures.add(of_worker),
                Err(error) => figures.failed(error.to_string()),
            }
        }
        figures.elapsed = self.clock.now().saturating_sub(begun);
        let after = CpuTicks::now();
        figures.busy = ticks.zip(after).and_then(|(a, b)| b.busy_since(a));
        figures
    }

    async fn worker(&self, ranges: &Ranges, begun: Duration) -> Figures {
        let mut figures = Figures::default();
        while self.clock.now().saturating_sub(begun) < self.step {
            let (sent, request) = (self.clock.now(), ranges.next());
            let len = request.range.end - request.range.start;
            match self.get_one(request, len).await {
                Ok(()) => figures.succeeded(len, self.clock.now().saturating_sub(sent)),
                Err(reason) => {
                    figures.failed(reason);
                    if figures.failures >= FAILURES_MAX {
                        break;
                    }
                }
            }
        }
        figures
    }

    async fn get_one(&self, request: GetRequest, len: u64) -> Result<(), String> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let (_get, outcome) = begin_get(&*self.client, request, self.pool.allocate(len));
        outcome.await.map_err(|error| error.to_string())
    }
}

/// Ranges to get, in turn.
#[derive(Debug)]
struct Ranges {
    requests: Vec<GetRequest>,
    next: AtomicUsize,
}

impl Ranges {
    fn new(targets: &[Target], len: u64) -> Self {
        let mut requests = Vec::new();
        for target in targets {
            let starts = (0..target.size).step_by(usize::try_from(len).unwrap_or(usize::MAX));
            let of_target = starts.map(|start| GetRequest {
                key: target.key.clone(),
                range: start..target.size.min(start + len),
                if_match: Some(target.etag.clone()),
                object_size: Some(target.size),
                priority: Priority::Foreground,
            });
            requests.extend(of_target.take(RANGES_MAX - requests.len()));
        }
        Self {
            requests,
            next: AtomicUsize::new(0),
        }
    }

    fn next(&self) -> GetRequest {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        self.requests[next % self.requests.len()].clone()
    }
}

/// Bytes of a GET that shows throughput.
pub(super) const GET_BYTES: u64 = 8 << 20;

/// Blocks that are kept for the next GET: those of 64 GETs.
const POOL_BYTES: usize = 512 << 20;

/// Ranges of all objects together.
const RANGES_MAX: usize = 100_000;

/// Failures in one worker that end its step.
const FAILURES_MAX: u64 = 3;
