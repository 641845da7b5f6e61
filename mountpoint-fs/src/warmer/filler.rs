//! Fetches the ranges that the cache lacks, several at once, and stores them.
//!
//! Each range is one GET with the version's ETag, in memory of the budget until it is on the disk:
//! a slow disk delays GETs and loses no bytes. An object that cannot be fetched is reported and
//! skipped. A full or failing disk ends the run.

use std::ops::Range;
use std::sync::Arc;

use mountpoint_client::types::{ETag, GetRequest, Key, Priority};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};
use mountpoint_crt_sys::block::BlockPool;
use smallvec::smallvec;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::{JoinError, JoinSet};

use super::bandwidth::TokenBucket;
use super::progress::Progress;
use super::sources::Target;
use super::tally::add;
use crate::cache::{CacheFill, FillError, ObjectFill};
use crate::clock::Clock;
use crate::memory::{Budget, Reservation};
use crate::mutate::fetch::begin_get;
use crate::namespace::Version;
use crate::sync::Mutex;

/// Fetches objects into a cache.
#[derive(Debug)]
pub(super) struct Filler {
    client: Arc<dyn ObjectClient>,
    cache: Arc<CacheFill>,
    progress: Arc<Progress>,
    clock: Clock,
    budget: Arc<Budget>,
    pool: BlockPool,
    part_size: u64,
    bandwidth: Option<Mutex<TokenBucket>>,
    /// Permits for opened objects and GETs in flight.
    requests: Arc<Semaphore>,
    /// Reason of an early end; `None` while the run continues.
    end: watch::Sender<Option<String>>,
}

/// The bounds of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct FillLimits {
    /// Memory for ranges that were fetched and are not stored yet.
    pub(super) memory_max: u64,
    /// Largest range of one GET.
    pub(super) part_size: u64,
    /// Largest number of bytes per second.
    pub(super) bandwidth: Option<u64>,
}

/// Reason why an object is not in the cache.
#[derive(Debug)]
enum Failure {
    /// The object cannot be fetched, for this reason.
    Object(String),
    /// The store has failed, for this reason.
    Store(String),
    /// The run is ending.
    Ended,
}

/// One range of an object to fetch.
struct Part {
    object: ObjectFill,
    request: GetRequest,
    memory: Reservation,
    permit: OwnedSemaphorePermit,
}

impl Filler {
    /// A run with the bucket of `client`.
    pub(super) fn new(
        client: Arc<dyn ObjectClient>,
        cache: Arc<CacheFill>,
        progress: Arc<Progress>,
        clock: Clock,
        limits: FillLimits,
    ) -> Arc<Self> {
        let bandwidth = limits.bandwidth.map(TokenBucket::new);
        let request_max = bandwidth.map_or(u64::MAX, |bucket| bucket.request_max());
        let part_size = limits.part_size.min(request_max.max(PART_MIN));
        let budget = Budget::new(limits.memory_max);
        cache.count_in(&budget);
        Arc::new(Self {
            client,
            cache,
            progress,
            clock,
            budget,
            pool: BlockPool::new(usize::try_from(limits.memory_max / 2).unwrap_or(usize::MAX)),
            // The cache has checksums of whole units of this size.
            part_size: (part_size / PART_MIN * PART_MIN).max(PART_MIN),
            bandwidth: bandwidth.map(Mutex::new),
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            end: watch::Sender::new(None),
        })
    }

    /// Fetches all `targets`, unless the run ends early.
    pub(super) async fn fill(self: Arc<Self>, mut targets: mpsc::Receiver<Target>) {
        let mut objects = JoinSet::new();
        loop {
            let next = async {
                let target = targets.recv().await?;
                let permit = Arc::clone(&self.requests).acquire_owned().await.ok()?;
                Some((target, permit))
            };
            let Some(Some((target, permit))) = self.unless_ended(next).await else {
                break;
            };
            objects.spawn(Arc::clone(&self).fill_object(target, permit));
            while objects.try_join_next().is_some() {}
        }
        drop(targets);
        while objects.join_next().await.is_some() {}
    }

    /// Ends the run when the ranges in flight are stored. Only the first reason is kept.
    pub(super) fn end(&self, reason: &str) {
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            if is_first {
                *end = Some(reason.to_owned());
            }
            is_first
        });
    }

    /// The reason of an early end.
    pub(super) fn ended_by(&self) -> Option<String> {
        self.end.borrow().clone()
    }

    /// The output of `future`; `None` if the run ends first.
    async fn unless_ended<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut end = self.end.subscribe();
        tokio::select! {
            biased;
            _ = end.wait_for(Option::is_some) => None,
            output = future => Some(output),
        }
    }

    async fn fill_object(self: Arc<Self>, target: Target, permit: OwnedSemaphorePermit) {
        let Target { key, version } = target;
        let mut missing = version.size;
        let outcome = self.try_fill(&key, &version, permit, &mut missing).await;
        match outcome {
            Ok(()) => add(&self.progress.tally.complete, 1),
            Err(Failure::Ended) => {}
            Err(Failure::Object(reason)) => self.progress.failed(key.as_str(), &reason, missing),
            Err(Failure::Store(reason)) => {
                self.progress.failed(key.as_str(), &reason, missing);
                if self.progress.is_hopeless() {
                    self.end("too many objects in a row could not be fetched");
                }
            }
        }
    }

    /// Fetches the missing ranges of an object. Subtracts fetched bytes from `missing`.
    async fn try_fill(
        self: &Arc<Self>,
        key: &Key,
        version: &Version,
        permit: OwnedSemaphorePermit,
        missing: &mut u64,
    ) -> Result<(), Failure> {
        let Version { size, etag, .. } = version;
        if *size == 0 {
            return Ok(());
        }
        if version.is_archived {
            let reason = "it is in an archive and has to be restored first";
            return Err(Failure::Object(reason.to_owned()));
        }
        let object = self.cache.object(key, etag, *size).await;
        let object = object.map_err(|error| self.cannot_store(&error))?;
        let gaps = object.missing();
        *missing = gaps.iter().map(|gap| gap.end - gap.start).sum();
        add(&self.progress.tally.present_bytes, *size - *missing);
        let ranges = gaps.iter().flat_map(|gap| parts_of(gap, self.part_size));
        let requests = ranges.map(|range| request(key, etag, *size, range));
        self.fetch_all(&object, requests, permit, missing).await?;
        if !object.missing().is_empty() {
            // The cache has evicted the object meanwhile.
            return Err(self.cannot_store(&FillError::NoRoom));
        }
        let finished = object.finish().await;
        finished.map_err(|error| self.cannot_store(&error))
    }

    /// Fetches ranges of an object, several at once. After a failure no further range begins, and
    /// those in flight are stored.
    async fn fetch_all(
        self: &Arc<Self>,
        object: &ObjectFill,
        requests: impl Iterator<Item = GetRequest>,
        permit: OwnedSemaphorePermit,
        missing: &mut u64,
    ) -> Result<(), Failure> {
        let mut permit = Some(permit);
        let mut parts: JoinSet<Result<u64, Failure>> = JoinSet::new();
        let mut outcome = Ok(());
        for request in requests {
            let Some(part) = self.part(object, request, permit.take()).await else {
                outcome = Err(Failure::Ended);
                break;
            };
            parts.spawn(Arc::clone(self).fetch(part));
            while let Some(ended) = parts.try_join_next() {
                let ended = part_outcome(ended, missing);
                outcome = outcome.and(ended);
            }
            if outcome.is_err() {
                break;
            }
        }
        drop(permit);
        while let Some(ended) = parts.join_next().await {
            let ended = part_outcome(ended, missing);
            outcome = outcome.and(ended);
        }
        outcome
    }

    /// Waits until a range may be fetched; `None` if the run ends first.
    async fn part(
        &self,
        object: &ObjectFill,
        request: GetRequest,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Option<Part> {
        let len = request.range.end - request.range.start;
        let waited = self.unless_ended(async {
            let permit = match permit {
                Some(permit) => permit,
                None => Arc::clone(&self.requests).acquire_owned().await.ok()?,
            };
            let memory = self.budget.reserve(len).await;
            if let Some(bandwidth) = &self.bandwidth {
                let wait = bandwidth.lock().grant(len, self.clock.now());
                tokio::time::sleep(wait).await;
            }
            Some((permit, memory))
        });
        let (permit, memory) = waited.await??;
        Some(Part {
            object: object.clone(),
            request,
            memory,
            permit,
        })
    }

    /// Fetches a range and stores it. Returns its length.
    async fn fetch(self: Arc<Self>, part: Part) -> Result<u64, Failure> {
        let Part {
            object,
            request,
            memory,
            permit,
        } = part;
        let range = request.range.clone();
        let len = range.end - range.start;
        let bytes = usize::try_from(len).unwrap_or(usize::MAX);
        let fill = self.pool.allocate_guarded(bytes, memory);
        let block = fill.block();
        let (_get, outcome) = begin_get(&*self.client, request, fill);
        let outcome = outcome.await;
        drop(permit);
        match outcome {
            Ok(()) => self.progress.succeeded(),
            Err(error) => return Err(self.cannot_fetch(&error)),
        }
        let stored = object.store(range, smallvec![(block, 0..bytes)]).await;
        stored.map_err(|error| self.cannot_store(&error))?;
        add(&self.progress.tally.fetched_bytes, len);
        Ok(len)
    }

    fn cannot_fetch(&self, error: &ClientError) -> Failure {
        match &error.kind {
            ErrorKind::NotFound => {
                Failure::Object(format!("it was deleted before it was fetched ({error})"))
            }
            ErrorKind::PreconditionFailed => {
                Failure::Object(format!("it was replaced before it was fetched ({error})"))
            }
            ErrorKind::Archived => Failure::Object(error.to_string()),
            ErrorKind::NoSuchBucket | ErrorKind::Credentials | ErrorKind::WrongRegion(_) => {
                self.end(&error.to_string());
                Failure::Ended
            }
            _ => Failure::Store(error.to_string()),
        }
    }

    fn cannot_store(&self, error: &FillError) -> Failure {
        match error {
            FillError::NoRoom => self.end(NO_ROOM),
            FillError::Disk(error) => self.end(&format!("the disk of the cache fails: {error}")),
        }
        Failure::Ended
    }
}

fn request(key: &Key, etag: &ETag, size: u64, range: Range<u64>) -> GetRequest {
    GetRequest {
        key: key.clone(),
        range,
        if_match: Some(etag.clone()),
        object_size: Some(size),
        // The client's limits of read-ahead apply, because no reader waits.
        priority: Priority::ReadAhead,
    }
}

/// The outcome of a finished part. Subtracts its bytes from `missing`.
fn part_outcome(
    ended: Result<Result<u64, Failure>, JoinError>,
    missing: &mut u64,
) -> Result<(), Failure> {
    let failed = |error| Err(Failure::Store(format!("a task has failed: {error}")));
    *missing -= ended.unwrap_or_else(failed)?;
    Ok(())
}

/// Divides `gap` at multiples of `part_size`.
fn parts_of(gap: &Range<u64>, part_size: u64) -> impl Iterator<Item = Range<u64>> + use<> {
    let Range { mut start, end } = *gap;
    std::iter::from_fn(move || {
        let part = start..((start / part_size + 1) * part_size).min(end);
        start = part.end;
        (!part.is_empty()).then_some(part)
    })
}

/// Smallest part, and the unit of parts: the cache has one checksum for this size.
const PART_MIN: u64 = 64 << 10;

/// Maximum of opened objects and GETs in flight: small objects at 20 ms each arrive at 12,000 per
/// second. The client sends as many as its connections carry.
const REQUESTS_MAX: usize = 256;

const NO_ROOM: &str = "the cache has no room for more: raise --max-cache-size, make room on its disk, or fetch less; \
                       what was stored is kept";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_end_at_multiples() {
        let parts = |gap: Range<u64>| parts_of(&gap, 100).collect::<Vec<_>>();
        assert_eq!(parts(0..250), [0..100, 100..200, 200..250]);
        assert_eq!(parts(30..150), [30..100, 100..150]);
        assert_eq!(parts(7..7), []);
    }
}
