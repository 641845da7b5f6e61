//! A GET from the shared bucket: its bytes are compared chunk by chunk, and copied to the reader.
//!
//! The copy is the price of the comparison: nothing that was not compared may become visible in the
//! block of a fetch. Runs on the thread of the client that delivers bytes.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::types::GetOutput;
use mountpoint_client::{ClientError, ErrorKind, GetObserver};
use mountpoint_crt_sys::block::{Block, BlockFill};
use tokio::sync::oneshot;

use super::extent::SharedExtent;
use super::format::{CHUNK_LEN, FRAME_BYTES, Seed, open};
use crate::clock::Clock;
use crate::sync::Mutex;

/// The fetch whose block is filled.
pub(crate) trait FillObserver: Send + Sync {
    /// More bytes of the block are valid.
    fn filled_more(&self);

    /// Whether the bytes are still to come from here.
    fn is_awaited_here(&self) -> bool;

    /// Whether S3 was asked too, because the bytes are late.
    fn is_late(&self) -> bool;
}

/// The end of a GET.
pub(super) struct Received {
    pub(super) fill: BlockFill,
    pub(super) outcome: Result<GetOutput, ClientError>,
    /// Whether some chunk was not what it should be.
    pub(super) is_damaged: bool,
    /// Time until the first byte, or the answer without one.
    pub(super) first_byte: Duration,
}

/// Receives the stored form of a range.
pub(super) struct Receiver {
    extent: Arc<SharedExtent>,
    reader: Arc<dyn FillObserver>,
    clock: Clock,
    asked_at: Duration,
    state: Mutex<Option<Receiving>>,
}

struct Receiving {
    /// The stored form.
    source: Block,
    /// Bytes of it that were compared.
    compared: usize,
    /// The chunk that follows those, and where it begins in the object.
    number: u32,
    chunk_start: u64,
    seed: Seed,
    /// Bytes of the object that the block is for, and that are missing.
    missing: Range<u64>,
    fill: BlockFill,
    is_damaged: bool,
    first_byte: Option<Duration>,
    done: oneshot::Sender<Received>,
}

impl Receiver {
    /// A receiver of the bytes `missing` of `extent`, which `fill` lacks, into `source`.
    pub(super) fn new(
        extent: &Arc<SharedExtent>,
        missing: Range<u64>,
        source: Block,
        fill: BlockFill,
        (reader, clock): (Arc<dyn FillObserver>, &Clock),
    ) -> (Arc<Self>, oneshot::Receiver<Received>) {
        let (done, received) = oneshot::channel();
        let place = &extent.place;
        let first = (missing.start - place.range.start) / CHUNK_LEN;
        let receiving = Receiving {
            source,
            compared: 0,
            // An extent has a few hundred chunks.
            number: u32::try_from(first).unwrap_or(u32::MAX),
            chunk_start: place.range.start + first * CHUNK_LEN,
            seed: extent.name.seed,
            missing,
            fill,
            is_damaged: false,
            first_byte: None,
            done,
        };
        let receiver = Self {
            extent: Arc::clone(extent),
            reader,
            clock: clock.clone(),
            asked_at: clock.now(),
            state: Mutex::new(Some(receiving)),
        };
        (Arc::new(receiver), received)
    }

    fn elapsed(&self) -> Duration {
        self.clock.now().saturating_sub(self.asked_at)
    }

    /// Tells the end, once.
    fn end(&self, outcome: Result<GetOutput, ClientError>) {
        let Some(mut receiving) = self.state.lock().take() else {
            return;
        };
        let first_byte = receiving.first_byte.unwrap_or_else(|| self.elapsed());
        if receiving.advance() {
            self.reader.filled_more();
        }
        let Receiving {
            fill,
            is_damaged,
            done,
            ..
        } = receiving;
        let received = Received {
            fill,
            outcome,
            is_damaged,
            first_byte,
        };
        // Nobody waits only if the runtime has ended.
        drop(done.send(received));
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let what = "the client has given up a GET";
        self.end(Err(ClientError::new(ErrorKind::Transient, what)));
    }
}

impl Receiving {
    /// Compares the chunks that have come, and copies what is missing of them. Returns whether that
    /// is anything.
    fn advance(&mut self) -> bool {
        let before = self.fill.filled();
        while !self.is_damaged && self.compared < self.source.capacity() {
            let end = self.source.capacity().min(self.compared + FRAME_BYTES);
            if self.source.valid() < end {
                break;
            }
            let frame = self.source.bytes(self.compared..end);
            let Some(chunk) = open(&self.seed, self.number, frame) else {
                self.is_damaged = true;
                break;
            };
            let chunk_end = self.chunk_start + chunk.len() as u64;
            let from = self.missing.start.max(self.chunk_start) - self.chunk_start;
            let until = self
                .missing
                .end
                .min(chunk_end)
                .saturating_sub(self.chunk_start);
            let wanted = usize::try_from(from).ok().zip(usize::try_from(until).ok());
            if let Some(bytes) = wanted.and_then(|(from, until)| chunk.get(from..until)) {
                self.fill.append(bytes);
                self.missing.start += bytes.len() as u64;
            }
            (self.compared, self.chunk_start) = (end, chunk_end);
            self.number += 1;
        }
        self.fill.filled() > before
    }
}

impl GetObserver for Receiver {
    fn progressed(&self) {
        let has_more = {
            let mut state = self.state.lock();
            let Some(receiving) = state.as_mut() else {
                return;
            };
            receiving.first_byte.get_or_insert_with(|| self.elapsed());
            receiving.advance()
        };
        if has_more {
            self.extent.found();
            self.reader.filled_more();
        }
    }

    fn is_wanted(&self) -> bool {
        self.reader.is_awaited_here()
    }

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        self.end(outcome);
    }
}
