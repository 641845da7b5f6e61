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
use mountpoint_client::types::{Key, ObjectHeaders, PutCondition};
use tokio::sync::Mutex as AsyncMutex;

use super::failure::Failure;
use super::reordering::Reordering;
use super::state::{BlockBytes, Filling, Need, Overflow, Sink, Stage, UploadMode};
use crate::config::limits::{UPLOAD_PART_MAX, UPLOAD_PARTS_MAX, WRITE_SIZE_MAX};
use crate::operation::{FsError, Progress};
use crate::sync::Mutex;
use crate::write::background::{self, SharedOutcome};
use crate::write::context::WriteContext;
use crate::write::memory::buffers::least;
use crate::write::send::append::AppendUpload;
use crate::write::send::copied_range::CopiedRange;
use crate::write::send::multipart::Upload;
use crate::write::send::put::Adopts;
use crate::write::types::{Beginning, Outcome, Stored, WriteObserver};

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
    pub(in crate::write) ahead: Reordering,
    /// That the file may be stored was shown before its first write, or not doubted.
    pub(in crate::write) is_permitted: AtomicBool,
    /// H of the order H, I, T; the only lock that is held while waiting.
    pub(in crate::write) sink: AsyncMutex<Sink>,
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
        let (mut mode, mut append, mut end, mut replaced) = (context.mode_of_new(), None, 0, None);
        let (condition, stage, base) = match beginning {
            Beginning::New | Beginning::NewUnasked => (PutCondition::Absent, Stage::Open, None),
            Beginning::Replace(old) => {
                replaced = Some(old);
                (PutCondition::None, Stage::Open, None)
            }
            Beginning::Grow(stored, algorithm, whole) => {
                mode = UploadMode::Append;
                end = stored.size;
                append = Some(AppendUpload::at(stored.clone(), algorithm, whole));
                let unchanged = PutCondition::Match(stored.etag.clone());
                (unchanged, Stage::Stored(stored), None)
            }
            Beginning::Append(stored) => (
                PutCondition::Match(stored.etag.clone()),
                Stage::Stored(stored.clone()),
                Some(CopiedRange::whole(&key, stored)),
            ),
            Beginning::Extend(stored) | Beginning::Fill(stored) => {
                mode = context.mode_behind();
                let unchanged = PutCondition::Match(stored.etag.clone());
                (unchanged, Stage::Stored(stored), None)
            }
        };
        let end = base.as_ref().map_or(end, CopiedRange::len);
        let sink = Sink {
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
            overflow: None,
            written_at: 0,
            written_when: context.clock.now(),
            part_since: context.clock.now(),
            upload: None,
            parts: 0,
            base,
            mode,
            append,
            has_copies: false,
            is_metadata_late: false,
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
            ahead: Reordering::default(),
            is_permitted: AtomicBool::new(false),
            sink: AsyncMutex::new(sink),
        });
        context.pressure.register(&writer);
        writer
    }

    /// What others see of it.
    #[must_use]
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// The next bytes of the object that the file begins with.
    pub async fn preload(&self, data: &[u8]) -> Result<(), FsError> {
        let mut sink = self.sink.lock().await;
        let filled = sink.held();
        let part_size = self.part_size(&sink).expect("it is the first part");
        let whole = part_size + WRITE_SIZE_MAX;
        if !sink.has_room(data.len()) {
            let least = least(filled + data.len(), whole);
            let request = self.buffer_request(&sink, least, least, whole);
            let memory = self.context.memory_for(&self.key, request, sink.end);
            let grant = memory.await?;
            self.install(&mut sink, grant);
        }
        let filling = sink.filling.as_mut().expect("it was installed");
        filling.fill.append(data);
        filling.checksum.update(data);
        sink.end += data.len() as u64;
        sink.written = sink.end;
        Ok(())
    }

    /// The key of its object.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Takes `data` if that needs no waiting; `None` otherwise, and then nothing has changed.
    pub fn write_now(&self, offset: u64, data: &[u8]) -> Option<Result<(), FsError>> {
        let mut sink = self.sink.try_lock().ok()?;
        let waits = self.is_ahead(&sink, offset) || !self.is_permitted();
        if waits && self.failure.get().is_none() {
            return None;
        }
        let need = match self.need(&mut sink, offset, data.len()) {
            Ok(need) => need,
            Err(error) => return Some(Err(error)),
        };
        if self.is_base_unsettled(&sink) {
            return None;
        }
        match need {
            Need::Nothing => {}
            Need::Memory(_) if sink.upload.is_some() && !self.context.parts.has_room() => {
                return None;
            }
            Need::Memory(request) => {
                let grant = self.context.memory.try_take(request)?;
                self.install(&mut sink, grant);
            }
            Need::Gap | Need::End(_) => return None,
        }
        Some(self.take(&mut sink, data))
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
        let mut sink = self.in_order(offset, goes_on).await;
        self.prove(&mut sink).await?;
        loop {
            match self.need(&mut sink, offset, data.len())? {
                Need::Gap => self.fill_to(&mut sink, offset).await?,
                Need::End(settled) => drop(settled.wait().await),
                Need::Nothing | Need::Memory(_) => break,
            }
        }
        self.take_in_turn(&mut sink, offset, data).await
    }

    /// Takes `data` at the end, when there is memory for it.
    pub(in crate::write) async fn take_in_turn(
        &self,
        sink: &mut Sink,
        offset: u64,
        data: &[u8],
    ) -> Result<(), FsError> {
        self.settle_base(sink, offset, data.len()).await?;
        self.make_room(sink, offset, data.len()).await?;
        self.take(sink, data)
    }

    /// Returns when there is room for `len` bytes at `offset`.
    pub(in crate::write) async fn make_room(
        &self,
        sink: &mut Sink,
        offset: u64,
        len: usize,
    ) -> Result<(), FsError> {
        loop {
            match self.need(sink, offset, len)? {
                Need::Nothing => return Ok(()),
                Need::Gap => unreachable!("nobody else moves the end"),
                Need::Memory(request) => {
                    if sink.upload.is_some() {
                        self.context.parts.room().await;
                    }
                    if let Some(grant) = self.context.memory.try_take(request) {
                        self.install(sink, grant);
                        continue;
                    }
                    if self.settle_overflow(sink) {
                        continue;
                    }
                    // It gives up its place in the queue before what it holds is sent, and is
                    // nobody's to grow any more.
                    let granted = {
                        let memory = self.context.memory_for(&self.key, request, sink.end);
                        // It holds the lock: nobody else can have its part sent.
                        let told = self.context.pressure.told_to_send(self.can_send(sink));
                        match select(pin!(memory), pin!(told)).await {
                            Either::Left((granted, _)) => Some(granted),
                            Either::Right(_) => None,
                        }
                    };
                    match granted {
                        Some(Ok(grant)) => self.install(sink, grant),
                        Some(Err(error)) => {
                            self.fail(sink, &error);
                            return Err(error);
                        }
                        None => {
                            self.send_held(sink);
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
            let mut sink = self.sink.lock().await;
            match self.begin_storing(&mut sink)? {
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
        let upload = self.sink.lock().await.upload.take();
        if let Some(upload) = upload {
            upload.abort().await;
        }
    }

    /// The file has failed by itself: what was sent of it is taken back in the background.
    pub(in crate::write) fn fail(&self, sink: &mut Sink, error: &FsError) {
        self.failure.set(error);
        self.ahead.release_all();
        // Others may wait for the memory.
        sink.let_go();
        if let Some(upload) = sink.upload.take() {
            let pending = self.context.begin();
            background::run(async move {
                upload.abort().await;
                drop(pending);
            });
        }
    }

    /// Where it could send a part although that is not full: when it was written to last, as
    /// [`MemoryPressure::moved`] counts.
    ///
    /// [`MemoryPressure::moved`]: crate::write::memory::pressure::MemoryPressure::moved
    pub(in crate::write) fn can_send_since(&self) -> Option<u64> {
        let sink = self.sink.try_lock().ok()?;
        (self.failure.get().is_none() && self.can_send(&sink)).then_some(sink.written_at)
    }

    /// Sends what it holds as a part of the upload, if that is long enough. Returns whether it did.
    pub(in crate::write) fn send_early(&self) -> bool {
        let Ok(mut sink) = self.sink.try_lock() else {
            return false;
        };
        self.failure.get().is_none() && self.send_held(&mut sink)
    }

    /// Sends what is held as a part, full or not, if it is long enough. Returns whether it did.
    fn send_held(&self, sink: &mut Sink) -> bool {
        if !self.can_send(sink) {
            return false;
        }
        if let Some(filling) = &mut sink.filling {
            filling.part_size = filling.fill.filled();
        }
        self.send_part(sink, &[]);
        true
    }

    /// Whether what is held can be sent before its part is full. What is appended may have any
    /// size; parts of an upload have the size that was asked for.
    pub(in crate::write) fn can_send(&self, sink: &Sink) -> bool {
        sink.has_part() && (sink.is_growing() || !self.context.plan.is_fixed())
    }

    /// Whether bytes were taken that the bucket does not hold, or nothing was stored at all.
    pub async fn is_open(&self) -> bool {
        let mut sink = self.sink.lock().await;
        self.look(&mut sink);
        let is_stored = matches!(sink.stage, Stage::Stored(_)) && sink.end >= sink.len_set;
        !is_stored && self.failure.get().is_none()
    }

    /// What the bucket holds of the file if what was written last is not stored, for the log.
    pub async fn what_stays(&self) -> &'static str {
        let mut sink = self.sink.lock().await;
        self.look(&mut sink);
        sink.what_stays()
    }

    /// The first failure, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<FsError> {
        self.failure.get()
    }

    /// Takes `data`, for which there is room.
    fn take(&self, sink: &mut Sink, data: &[u8]) -> Result<(), FsError> {
        if data.is_empty() {
            return Ok(());
        }
        self.resume(sink)?;
        sink.refused_len = None;
        self.take_bytes(sink, data);
        self.ahead.reached(sink.end);
        self.progress.advance(sink.len(), self.context.clock.wall());
        Ok(())
    }

    /// Goes on behind what was stored.
    pub(in crate::write) fn resume(&self, sink: &mut Sink) -> Result<(), FsError> {
        if let Stage::Stored(stored) = &sink.stage {
            if let Err(error) = self.observer.resumed() {
                // Who reads it hinders it for a while; a file that has not its name any more cannot
                // go on.
                if matches!(error, FsError::Stale(_)) {
                    self.fail(sink, &error);
                }
                return Err(error);
            }
            sink.condition = PutCondition::Match(stored.etag.clone());
            sink.stage = Stage::Open;
        }
        self.untime(sink);
        Ok(())
    }

    /// Takes `data`, for which there is room. Nothing is shown of it yet.
    pub(in crate::write) fn take_bytes(&self, sink: &mut Sink, data: &[u8]) {
        let is_growing = sink.is_growing();
        let filling = sink.filling.as_mut().expect("there is room");
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
        sink.end += data.len() as u64;
        sink.written = sink.end;
        sink.written_at = self.context.pressure.written(data.len() as u64);
        sink.written_when = self.context.clock.now();
        if filling.fill.filled() >= filling.part_size {
            self.send_part(sink, tail);
        }
    }

    /// Sends the part that is full. `tail` are the bytes in its buffer that are behind it.
    fn send_part(&self, sink: &mut Sink, tail: &[u8]) {
        let Filling {
            fill,
            lease,
            checksum,
            part_size,
        } = sink.filling.take().expect("it is full");
        let block = fill.block();
        if !tail.is_empty() {
            let mut rest = self.running_checksum(sink);
            rest.update(tail);
            sink.overflow = Some(Overflow {
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
        if sink.is_growing() {
            self.append(sink, Bytes::from_owner(bytes), checksum.value());
            sink.parts = sink.parts.saturating_add(1).min(UPLOAD_PARTS_MAX);
            return;
        }
        self.upload(sink, false)
            .put(Bytes::from_owner(bytes), checksum.value());
        sink.parts += 1;
    }

    /// The upload, begun if there is none; what is to be copied is sent to it. `copies` are to
    /// follow.
    pub(in crate::write) fn upload(&self, sink: &mut Sink, copies: bool) -> Arc<Upload> {
        let upload = match &sink.upload {
            Some(upload) => Arc::clone(upload),
            None => {
                sink.has_copies = copies || sink.base.is_some();
                sink.is_metadata_late = false;
                let (context, key, failure) = (&self.context, &self.key, &self.failure);
                let upload = Upload::begin(context, key, failure, sink.has_copies, self.headers());
                sink.upload = Some(Arc::clone(&upload));
                upload
            }
        };
        if let Some(base) = sink.base.take() {
            for part in base.parts(self.context.config.copy_limits.part_max) {
                upload.copy(part);
                sink.parts += 1;
            }
        }
        upload
    }

    /// Begins to make the object, unless that was begun or done.
    fn begin_storing(&self, sink: &mut Sink) -> Result<Stage, FsError> {
        self.look(sink);
        match &sink.stage {
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
        self.check_whole(sink)?;
        let adopts = sink.adopts_now();
        sink.is_new = false;
        let settled = SharedOutcome::new();
        if sink.append.is_some() {
            self.append_last(sink);
            let append = sink.append.as_ref().expect("there is one");
            let all = append.all();
            self.run(settled.clone(), async { all.await.map(Outcome::Stored) });
        } else if sink.upload.is_none() && sink.base.is_none() {
            self.begin_whole(sink, adopts, settled.clone());
        } else {
            self.upload(sink, false);
            self.send_last_part(sink);
            self.complete(sink, settled.clone());
        }
        sink.stage = Stage::Storing(settled.clone());
        Ok(Stage::Storing(settled))
    }

    pub(in crate::write) fn send_last_part(&self, sink: &mut Sink) {
        if let Some((bytes, checksum)) = sink.take_held() {
            self.upload(sink, false)
                .put(Bytes::from_owner(bytes), checksum.value());
            sink.parts += 1;
        }
    }

    /// Runs what makes the object, tells of its end, and settles.
    pub(in crate::write) fn run(
        &self,
        settled: SharedOutcome<Result<Stored, FsError>>,
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
