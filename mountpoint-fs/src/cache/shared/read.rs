//! Bytes of a fetch from the shared bucket, or the knowledge that they are not there.

use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::types::{GetRequest, Priority};
use mountpoint_client::{ClientError, ErrorKind, GetObserver};
use mountpoint_crt_sys::block::BlockFill;

use super::extent::{Entrance, Presence, SearchGuard, SharedExtent};
use super::receive::{FillObserver, Received, Receiver};
use super::tier::{BlockSource, Tier};

/// A fetch that wants bytes of an extent.
pub(super) struct SharedRead {
    pub(super) tier: Arc<Tier>,
    pub(super) extent: Arc<SharedExtent>,
    pub(super) memory: Arc<dyn BlockSource>,
    /// Bytes of the object, within the extent.
    pub(super) range: Range<u64>,
    pub(super) priority: Priority,
    pub(super) reader: Arc<dyn FillObserver>,
}

/// The answer to a GET.
enum Answer {
    /// All bytes are there.
    Full,
    /// The bucket does not have the extent.
    Absent,
    /// The bucket has something else.
    Damaged,
    /// Nothing was learned.
    Nothing,
}

impl SharedRead {
    /// Fills `fill` as far as the bucket can. Returns it, and whether it is full.
    pub(super) async fn run(self, mut fill: BlockFill) -> (BlockFill, bool) {
        loop {
            let mut changed = pin!(self.extent.changed());
            changed.as_mut().enable();
            match self.extent.enter(self.tier.clock.now()) {
                Entrance::Leave => return (fill, false),
                Entrance::Search(guard) => return self.search(guard, fill).await,
                Entrance::Read => {
                    let answer;
                    (fill, answer) = self.get(fill).await;
                    return (fill, self.learn(&answer));
                }
                Entrance::Wait if !self.reader.is_awaited_here() => return (fill, false),
                Entrance::Wait => changed.await,
            }
        }
    }

    /// Remembers what a GET of an extent told that was known to be there. Returns whether the block
    /// is full.
    fn learn(&self, answer: &Answer) -> bool {
        match answer {
            Answer::Full => return true,
            Answer::Absent => self.extent.set(Presence::Absent(self.absent_until())),
            Answer::Damaged => self.extent.set(Presence::Damaged),
            Answer::Nothing => {}
        }
        false
    }

    fn absent_until(&self) -> Duration {
        self.tier.clock.now() + ABSENT_FOR
    }

    /// Looks for the extent, unless the bucket is left alone.
    async fn search(&self, guard: SearchGuard, mut fill: BlockFill) -> (BlockFill, bool) {
        let tier = &self.tier;
        if !tier.policy(|policy, now| policy.reads.is_on(now)) {
            guard.end(Presence::Absent(self.absent_until()));
            return (fill, false);
        }
        let answer;
        (fill, answer) = self.get(fill).await;
        match answer {
            Answer::Full => guard.end(Presence::Stored),
            Answer::Absent => guard.end(Presence::Absent(self.absent_until())),
            Answer::Damaged => {
                guard.end(Presence::Damaged);
                self.extent.set(Presence::Damaged);
            }
            // Another fetch may look.
            Answer::Nothing => {}
        }
        (fill, matches!(answer, Answer::Full))
    }

    /// Asks the bucket for what `fill` lacks.
    async fn get(&self, fill: BlockFill) -> (BlockFill, Answer) {
        let (tier, place) = (&self.tier, &self.extent.place);
        if !tier.policy(|policy, now| policy.reads.begins(now)) {
            return (fill, Answer::Nothing);
        }
        let missing = self.range.start + fill.filled() as u64..self.range.end;
        let stored = place.stored_range(&missing);
        let key = self.extent.name.key(&tier.prefix);
        let source = self.memory.block(stored.end - stored.start);
        let Some((key, source)) = key.zip(source) else {
            return (fill, Answer::Nothing);
        };
        let request = GetRequest {
            key,
            range: stored,
            if_match: None,
            object_size: Some(place.stored_len()),
            priority: self.priority,
        };
        let (receiver, received) = Receiver::new(
            &self.extent,
            missing,
            source.block(),
            fill,
            (Arc::clone(&self.reader), &tier.clock),
        );
        // Dropping the handle lets the GET finish: closing its connection costs more.
        drop(tier.client.get(
            request,
            source,
            Arc::clone(&receiver) as Arc<dyn GetObserver>,
        ));
        drop(receiver);
        self.judge(received.await.expect("sent when the receiver is dropped"))
    }

    /// Counts the end of a GET and says what it means.
    fn judge(&self, received: Received) -> (BlockFill, Answer) {
        let Received {
            fill,
            outcome,
            is_damaged,
            first_byte,
        } = received;
        let tier = &self.tier;
        let is_full = fill.filled() == fill.capacity();
        let answer = match outcome {
            Ok(_) if is_damaged || !is_full => Answer::Damaged,
            Ok(_) => Answer::Full,
            Err(error) if error.kind == ErrorKind::NotFound => Answer::Absent,
            Err(error) if is_another_object(&error) => Answer::Damaged,
            Err(_) if !self.reader.is_awaited_here() => Answer::Nothing,
            Err(error) => {
                tier.read_failed(&error);
                return (fill, Answer::Nothing);
            }
        };
        // An answer that came too late has counted as a failure.
        let is_in_time = !self.reader.is_late();
        match answer {
            Answer::Full | Answer::Absent if is_in_time => tier.answered(first_byte),
            _ => {}
        }
        match answer {
            Answer::Full => {
                let mut stats = tier.stats.lock();
                stats.hits += 1;
                stats.hit_bytes += self.range.end - self.range.start;
            }
            Answer::Damaged => {
                tier.sent_damage();
                let key = self.extent.name.key(&tier.prefix);
                let key = key.as_ref().map_or("", |key| key.as_str());
                tracing::warn!(
                    key,
                    "an object of the shared cache is damaged or foreign: its bytes come from S3"
                );
            }
            Answer::Absent | Answer::Nothing => {}
        }
        (fill, answer)
    }
}

/// Whether the bucket has another object under an extent's name: one of another size.
fn is_another_object(error: &ClientError) -> bool {
    error.kind == ErrorKind::InvalidResponse || error.status == Some(RANGE_NOT_SATISFIABLE)
}

const RANGE_NOT_SATISFIABLE: u16 = 416;

/// How long a miss is remembered while a file stays open: the node that missed it will store it.
const ABSENT_FOR: Duration = Duration::from_secs(10);
