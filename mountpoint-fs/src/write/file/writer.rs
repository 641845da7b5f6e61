//! One open file that is being written.
//!
//! Takes bytes one after the other into a buffer, hands full parts to an [`Upload`], and makes the
//! object when the file is closed or synchronised. Invariants: bytes are taken whole writes at a
//! time, so that one that is given up while it waits has changed nothing; the first failure is
//! final; an object is made of everything that was taken.
//!
//! After its object was made a file may go on: a small one is put again as a whole, a large one is
//! made anew from a copy of itself on the server and what is new.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use futures::future::{Either, select};
use mountpoint_client::types::{
    Checksum, ChecksumAlgorithm, ETag, Key, ObjectHeaders, PutCondition,
};
use tokio::sync::Mutex as AsyncMutex;

use super::failure::Failure;
use super::reordering::Ahead;
use super::state::{BlockBytes, Carry, Filling, Front, Need, Stage, Way};
use crate::config::limits::{UPLOAD_PART_MAX, UPLOAD_PARTS_MAX, WRITE_SIZE_MAX};
use crate::operation::{FsError, Progress};
use crate::sync::Mutex;
use crate::write::background::{self, Settled};
use crate::write::context::WriteContext;
use crate::write::memory::buffers::least;
use crate::write::send::append::Growth;
use crate::write::send::multipart::Upload;
use crate::write::send::put::Adopts;
use crate::write::send::server_copy::copied_range::Copied;

/// What the bucket holds after an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The version.
    pub etag: ETag,
    /// Its size in bytes.
    pub size: u64,
}

/// What became of a file that was to be stored.
pub(in crate::write) enum Outcome {
    /// The bucket holds it.
    Stored(Stored),
    /// Another host's object stands for the file.
    Adopted(Stored),
}

/// How a file begins.
#[derive(Clone, Debug)]
pub enum Beginning {
    /// There is no object: one that somebody else makes meanwhile is not replaced.
    New,
    /// The same, and S3 was not asked before.
    NewUnasked,
    /// The object that is there, which was this version when it was opened, is replaced.
    Replace(ETag),
    /// The object that is there is empty: it is replaced if it still is when the file is stored.
    Fill(Stored),
    /// The object that is there stays, and bytes come behind it: S3 copies it.
    Append(Stored),
    /// The same where the server appends to the object, which has a checksum of this algorithm;
    /// this one, if it is that of all its bytes.
    Grow(Stored, Option<ChecksumAlgorithm>, Option<Checksum>),
    /// The same for an object that is too small to be copied into an upload: its bytes are told by
    /// [`Writer::preload`].
    Extend(Stored),
}

/// Who must know what becomes of a file. Called with no lock held but the file's own.
pub trait WriteObserver: Send + Sync {
    /// The file is written again after it was stored. An error if it cannot be; one that is stale
    /// is final.
    fn resumed(&self) -> Result<(), FsError>;
    /// The bucket holds the file as it was when it was closed or synchronised.
    fn stored(&self, stored: &Stored);
    /// The bucket holds the beginning of the file, by parts that were appended to it; more is on
    /// its way or to come.
    fn grown(&self, _stored: &Stored) {}
    /// Another host's object stands for the file: the observer refuses to resume its writer.
    fn adopted(&self);
    /// The file failed for good.
    fn failed(&self, error: &FsError);
}

/// An open file.
pub struct Writer {
    pub(in crate::write) context: Arc<WriteContext>,
    pub(in crate::write) key: Key,
    /// Whether S3 was not asked about the file before it was made.
    pub(in crate::write) is_unasked: bool,
    pub(in crate::write) progress: Arc<Progress>,
    pub(in crate::write) observer: Arc<dyn WriteObserver>,
    pub(in crate::write) failure: Arc<Failure>,
    /// What its object carries besides its bytes. The lock is a leaf.
    pub(in crate::write) headers: Mutex<ObjectHeaders>,
    pub(in crate::write) ahead: Ahead,
    /// That the file may be stored was shown before its first write, or not doubted.
    pub(in crate::write) is_permitted: AtomicBool,
    /// H of the order H, I, T; the only lock that is held while waiting.
    pub(in crate::write) front: AsyncMutex<Front>,
}

impl Writer {
    /// A file at `key`. Nothing is sent until a part is full or the file is closed.
    pub fn new(
        context: &Arc<WriteContext>,
        key: Key,
        beginning: Beginning,
        progress: Arc<Progress>,
        observer: Arc<dyn WriteObserver>,
    ) -> Arc<Self> {
        let is_unasked = matches!(beginning, Beginning::NewUnasked);
        let is_new = is_unasked || matches!(beginning, Beginning::New);
        let takes_gaps = is_new || matches!(beginning, Beginning::Replace(_) | Beginning::Fill(_));
        let (mut way, mut growth, mut end, mut replaced) = (context.way_of_new(), None, 0, None);
        let (condition, stage, base) = match beginning {
            Beginning::New | Beginning::NewUnasked => (PutCondition::Absent, Stage::Open, None),
            Beginning::Replace(old) => {
                replaced = Some(old);
                (PutCondition::None, Stage::Open, None)
            }
            Beginning::Grow(stored, algorithm, whole) => {
                way = Way::Growth;
                end = stored.size;
                growth = Some(Growth::at(stored.clone(), algorithm, whole));
                let unchanged = PutCondition::Match(stored.etag.clone());
                (unchanged, Stage::Stored(stored), None)
            }
            Beginning::Append(stored) => (
                PutCondition::Match(stored.etag.clone()),
                Stage::Stored(stored.clone()),
                Some(Copied::whole(&key, stored)),
            ),
            Beginning::Extend(stored) | Beginning::Fill(stored) => {
                way = context.way_behind();
                let unchanged = PutCondition::Match(stored.etag.clone());
                (unchanged, Stage::Stored(stored), None)
            }
        };
        let end = base.as_ref().map_or(end, Copied::len);
        let front = Front {
            end,
            written: end,
            len_set: 0,
            zeros: 0,
            takes_gaps,
            is_for_both: false,
            is_new,
            adopts: Adopts::Nothing,
            refused_len: None,
            filling: None,
            carry: None,
            written_at: 0,
            written_when: context.clock.now(),
            part_since: context.clock.now(),
            upload: None,
            parts: 0,
            base,
            way,
            growth,
            has_copies: false,
            is_dressed_late: false,
            is_timed: false,
            condition,
            replaced,
            stage,
        };
        let writer = Arc::new(Self {
            context: Arc::clone(context),
            headers: Mutex::new(context.headers(&key)),
            key,
            is_unasked,
            progress,
            failure: Arc::new(Failure::new(&observer)),
            observer,
            ahead: Ahead::default(),
            is_permitted: AtomicBool::new(false),
            front: AsyncMutex::new(front),
        });
        context.shortage.register(&writer);
        writer
    }

    /// What others see of it.
    #[must_use]
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// The next bytes of the object that the file begins with.
    pub async fn preload(&self, data: &[u8]) -> Result<(), FsError> {
        let mut front = self.front.lock().await;
        let filled = front.held();
        let part_size = self.part_size(&front).expect("it is the first part");
        let whole = part_size + WRITE_SIZE_MAX;
        if !front.has_room(data.len()) {
            let least = least(filled + data.len(), whole);
            let ask = self.ask(&front, least, least, whole);
            let memory = self.context.memory_for(&self.key, ask, front.end);
            let grant = memory.await?;
            self.install(&mut front, grant);
        }
        let filling = front.filling.as_mut().expect("it was installed");
        filling.fill.append(data);
        filling.checksum.update(data);
        front.end += data.len() as u64;
        front.written = front.end;
        Ok(())
    }

    /// The key of its object.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Takes `data` if that needs no waiting; `None` otherwise, and then nothing has changed.
    pub fn write_now(&self, offset: u64, data: &[u8]) -> Option<Result<(), FsError>> {
        let mut front = self.front.try_lock().ok()?;
        let waits = self.is_ahead(&front, offset) || !self.is_permitted();
        if waits && self.failure.get().is_none() {
            return None;
        }
        let need = match self.need(&mut front, offset, data.len()) {
            Ok(need) => need,
            Err(error) => return Some(Err(error)),
        };
        if self.is_base_unsettled(&front) {
            return None;
        }
        match need {
            Need::Nothing => {}
            Need::Memory(_) if front.upload.is_some() && !self.context.parts.has_room() => {
                return None;
            }
            Need::Memory(ask) => {
                let grant = self.context.memory.try_take(ask)?;
                self.install(&mut front, grant);
            }
            Need::Gap | Need::End(_) => return None,
        }
        Some(self.take(&mut front, data))
    }

    /// Takes `data`, when there is memory for it, from who has written nothing else that has not
    /// arrived. A gap before it is filled with zeros.
    pub async fn write(&self, offset: u64, data: &[u8]) -> Result<(), FsError> {
        self.write_in_order(offset, data, &|| false).await
    }

    /// The same, behind what was written before and has not arrived, if that may be: `goes_on` is
    /// asked where bytes are missing.
    pub async fn write_in_order(
        &self,
        offset: u64,
        data: &[u8],
        goes_on: &(dyn Fn() -> bool + Send + Sync),
    ) -> Result<(), FsError> {
        let mut front = self.in_order(offset, goes_on).await;
        self.prove(&mut front).await?;
        loop {
            match self.need(&mut front, offset, data.len())? {
                Need::Gap => self.fill_to(&mut front, offset).await?,
                Need::End(settled) => drop(settled.wait().await),
                Need::Nothing | Need::Memory(_) => break,
            }
        }
        self.take_in_turn(&mut front, offset, data).await
    }

    /// Takes `data` at the end, when there is memory for it.
    pub(in crate::write) async fn take_in_turn(
        &self,
        front: &mut Front,
        offset: u64,
        data: &[u8],
    ) -> Result<(), FsError> {
        self.settle_base(front, offset, data.len()).await?;
        self.make_room(front, offset, data.len()).await?;
        self.take(front, data)
    }

    /// Returns when there is room for `len` bytes at `offset`.
    pub(in crate::write) async fn make_room(
        &self,
        front: &mut Front,
        offset: u64,
        len: usize,
    ) -> Result<(), FsError> {
        loop {
            match self.need(front, offset, len)? {
                Need::Nothing => return Ok(()),
                Need::Gap => unreachable!("nobody else moves the end"),
                Need::Memory(ask) => {
                    if front.upload.is_some() {
                        self.context.parts.room().await;
                    }
                    if let Some(grant) = self.context.memory.try_take(ask) {
                        self.install(front, grant);
                        continue;
                    }
                    if self.settle_carry(front) {
                        continue;
                    }
                    // It gives up its place in the queue before what it holds is sent, and is
                    // nobody's to grow any more.
                    let granted = {
                        let memory = self.context.memory_for(&self.key, ask, front.end);
                        // It holds the lock: nobody else can have its part sent.
                        let told = self.context.shortage.told_to_send(self.can_send(front));
                        match select(pin!(memory), pin!(told)).await {
                            Either::Left((granted, _)) => Some(granted),
                            Either::Right(_) => None,
                        }
                    };
                    match granted {
                        Some(Ok(grant)) => self.install(front, grant),
                        Some(Err(error)) => {
                            self.fail(front, &error);
                            return Err(error);
                        }
                        None => {
                            self.send_held(front);
                        }
                    }
                }
                Need::End(settled) => drop(settled.wait().await),
            }
        }
    }

    /// Has the object made of everything that was taken, and returns when the bucket holds it.
    pub async fn store(&self) -> Result<Stored, FsError> {
        let settled = {
            let mut front = self.front.lock().await;
            match self.begin_storing(&mut front)? {
                Stage::Stored(stored) => return Ok(stored),
                Stage::Storing(settled) => settled,
                Stage::Open => unreachable!("it was begun"),
            }
        };
        settled.wait().await
    }

    /// Gives the file up: nothing of it appears, unless it was stored before.
    pub async fn abandon(&self, error: &FsError) {
        self.failure.set(error);
        let upload = self.front.lock().await.upload.take();
        if let Some(upload) = upload {
            upload.abort().await;
        }
    }

    /// The file has failed by itself: what was sent of it is taken back in the background.
    pub(in crate::write) fn fail(&self, front: &mut Front, error: &FsError) {
        self.failure.set(error);
        self.ahead.release_all();
        // Others may wait for the memory.
        front.let_go();
        if let Some(upload) = front.upload.take() {
            let pending = self.context.begin();
            background::run(async move {
                upload.abort().await;
                drop(pending);
            });
        }
    }

    /// Where it could send a part although that is not full: when it was written to last, as
    /// [`Shortage::moved`] counts.
    ///
    /// [`Shortage::moved`]: crate::write::memory::pressure::Shortage::moved
    pub(in crate::write) fn can_send_since(&self) -> Option<u64> {
        let front = self.front.try_lock().ok()?;
        (self.failure.get().is_none() && self.can_send(&front)).then_some(front.written_at)
    }

    /// Sends what it holds as a part of the upload, if that is long enough. Returns whether it did.
    pub(in crate::write) fn send_early(&self) -> bool {
        let Ok(mut front) = self.front.try_lock() else {
            return false;
        };
        self.failure.get().is_none() && self.send_held(&mut front)
    }

    /// Sends what is held as a part, full or not, if it is long enough. Returns whether it did.
    fn send_held(&self, front: &mut Front) -> bool {
        if !self.can_send(front) {
            return false;
        }
        if let Some(filling) = &mut front.filling {
            filling.part_size = filling.fill.filled();
        }
        self.send_part(front, &[]);
        true
    }

    /// Whether what is held can be sent before its part is full. What is appended may have any
    /// size; parts of an upload have the size that was asked for.
    pub(in crate::write) fn can_send(&self, front: &Front) -> bool {
        front.has_part() && (front.is_growing() || !self.context.plan.is_fixed())
    }

    /// Whether bytes were taken that the bucket does not hold, or nothing was stored at all.
    pub async fn is_open(&self) -> bool {
        let mut front = self.front.lock().await;
        self.look(&mut front);
        let is_stored = matches!(front.stage, Stage::Stored(_)) && front.end >= front.len_set;
        !is_stored && self.failure.get().is_none()
    }

    /// What the bucket holds of the file if what was written last is not stored, for the log.
    pub async fn what_stays(&self) -> &'static str {
        let mut front = self.front.lock().await;
        self.look(&mut front);
        front.what_stays()
    }

    /// The first failure, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<FsError> {
        self.failure.get()
    }

    /// Takes `data`, for which there is room.
    fn take(&self, front: &mut Front, data: &[u8]) -> Result<(), FsError> {
        if data.is_empty() {
            return Ok(());
        }
        self.resume(front)?;
        front.refused_len = None;
        self.take_bytes(front, data);
        self.ahead.reached(front.end);
        self.progress
            .advance(front.len(), self.context.clock.wall());
        Ok(())
    }

    /// Goes on behind what was stored.
    pub(in crate::write) fn resume(&self, front: &mut Front) -> Result<(), FsError> {
        if let Stage::Stored(stored) = &front.stage {
            if let Err(error) = self.observer.resumed() {
                // Who reads it hinders it for a while; a file that has not its name any more cannot
                // go on.
                if matches!(error, FsError::Stale(_)) {
                    self.fail(front, &error);
                }
                return Err(error);
            }
            front.condition = PutCondition::Match(stored.etag.clone());
            front.stage = Stage::Open;
        }
        self.untime(front);
        Ok(())
    }

    /// Takes `data`, for which there is room. Nothing is shown of it yet.
    pub(in crate::write) fn take_bytes(&self, front: &mut Front, data: &[u8]) {
        let is_growing = front.is_growing();
        let filling = front.filling.as_mut().expect("there is room");
        let end = filling.fill.filled() + data.len();
        if end > filling.part_size
            && (is_growing || !self.context.plan.is_fixed())
            && end as u64 <= UPLOAD_PART_MAX
            && self.context.memory.is_short(end - filling.part_size)
        {
            // The part takes all of the write, so that all of its memory comes back.
            filling.part_size = end;
        }
        let room = filling.part_size - filling.fill.filled();
        let (head, tail) = data.split_at(room.min(data.len()));
        for piece in head.chunks(COPY_PIECE) {
            filling.fill.append(piece);
            filling.checksum.update(piece);
        }
        filling.fill.append(tail);
        front.end += data.len() as u64;
        front.written = front.end;
        front.written_at = self.context.shortage.written(data.len() as u64);
        front.written_when = self.context.clock.now();
        if filling.fill.filled() >= filling.part_size {
            self.send_part(front, tail);
        }
    }

    /// Sends the part that is full. `tail` are the bytes in its buffer that are behind it.
    fn send_part(&self, front: &mut Front, tail: &[u8]) {
        let Filling {
            fill,
            lease,
            checksum,
            part_size,
        } = front.filling.take().expect("it is full");
        let block = fill.block();
        if !tail.is_empty() {
            let mut rest = self.running_checksum(front);
            rest.update(tail);
            front.carry = Some(Carry {
                bytes: BlockBytes {
                    block: block.clone(),
                    start: part_size,
                    end: fill.filled(),
                },
                lease,
                checksum: rest,
            });
        }
        let bytes = BlockBytes {
            block,
            start: 0,
            end: part_size,
        };
        if front.is_growing() {
            self.append(front, Bytes::from_owner(bytes), checksum.value());
            front.parts = front.parts.saturating_add(1).min(UPLOAD_PARTS_MAX);
            return;
        }
        self.upload(front, false)
            .put(Bytes::from_owner(bytes), checksum.value());
        front.parts += 1;
    }

    /// The upload, begun if there is none; what is to be copied is sent to it. `copies` are to
    /// follow.
    pub(in crate::write) fn upload(&self, front: &mut Front, copies: bool) -> Arc<Upload> {
        let upload = match &front.upload {
            Some(upload) => Arc::clone(upload),
            None => {
                front.has_copies = copies || front.base.is_some();
                front.is_dressed_late = false;
                let (context, key, failure) = (&self.context, &self.key, &self.failure);
                let upload = Upload::begin(context, key, failure, front.has_copies, self.headers());
                front.upload = Some(Arc::clone(&upload));
                upload
            }
        };
        if let Some(base) = front.base.take() {
            for part in base.parts(self.context.config.copy_limits.part_max) {
                upload.copy(part);
                front.parts += 1;
            }
        }
        upload
    }

    /// Begins to make the object, unless that was begun or done.
    fn begin_storing(&self, front: &mut Front) -> Result<Stage, FsError> {
        self.look(front);
        match &front.stage {
            Stage::Stored(stored) => {
                return match self.failure.get() {
                    Some(error) => Err(error),
                    None => Ok(Stage::Stored(stored.clone())),
                };
            }
            Stage::Storing(settled) => return Ok(Stage::Storing(settled.clone())),
            Stage::Open => {}
        }
        if let Some(error) = self.failure.get() {
            return Err(error);
        }
        self.check_whole(front)?;
        let adopts = front.adopts_now();
        front.is_new = false;
        let settled = Settled::new();
        if front.growth.is_some() {
            self.append_last(front);
            let growth = front.growth.as_ref().expect("there is one");
            let all = growth.all();
            self.run(settled.clone(), async { all.await.map(Outcome::Stored) });
        } else if front.upload.is_none() && front.base.is_none() {
            self.begin_whole(front, adopts, settled.clone());
        } else {
            self.upload(front, false);
            self.send_last_part(front);
            self.complete(front, settled.clone());
        }
        front.stage = Stage::Storing(settled.clone());
        Ok(Stage::Storing(settled))
    }

    pub(in crate::write) fn send_last_part(&self, front: &mut Front) {
        if let Some((bytes, checksum)) = front.take_held() {
            self.upload(front, false)
                .put(Bytes::from_owner(bytes), checksum.value());
            front.parts += 1;
        }
    }

    /// Runs what makes the object, tells of its end, and settles.
    pub(in crate::write) fn run(
        &self,
        settled: Settled<Result<Stored, FsError>>,
        work: impl Future<Output = Result<Outcome, FsError>> + Send + 'static,
    ) {
        let pending = self.context.begin();
        let (observer, failure) = (Arc::clone(&self.observer), Arc::clone(&self.failure));
        let (context, key) = (Arc::clone(&self.context), self.key.clone());
        background::run(async move {
            let outcome = match work.await {
                Ok(Outcome::Stored(stored)) => {
                    context.permission.stored(&key);
                    observer.stored(&stored);
                    Ok(stored)
                }
                Ok(Outcome::Adopted(there)) => {
                    observer.adopted();
                    Ok(there)
                }
                Err(error) => {
                    context.permission.failed(&key, &error);
                    failure.set(&error);
                    Err(error)
                }
            };
            settled.settle(outcome);
            drop(pending);
        });
    }
}

/// Bytes that are copied at once, so that the checksum finds them in the processor's cache.
const COPY_PIECE: usize = 32 << 10;

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("key", &self.key)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}
