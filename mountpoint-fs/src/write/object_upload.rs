//! One object that is brought in its order by a caller that has all of its bytes: by one request if
//! it is shorter than a part, else by a multipart upload.
//!
//! The caller fills a [`PartBuffer`], which becomes the body of a request as it is: its bytes are
//! neither copied nor summed again. One call at a time brings parts. A request that was begun goes
//! on if its caller stops waiting.

use std::fmt;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use mountpoint_client::types::{ChecksumAlgorithm, ETag, Key, ObjectHeaders, Part, PutCondition};
use mountpoint_crt_sys::block::BlockFill;

use super::background::{self, SharedOutcome};
use super::checksum::RunningChecksum;
use super::context::WriteContext;
use super::failure::Failure;
use super::send::append::append;
use super::send::checkpoint::UploadCheckpoint;
use super::send::copied_range::CopiedRange;
use super::send::multipart::Upload;
use super::send::put::Adopts;
use super::send::whole_object::WholeObject;
use super::types::{Outcome, Replaced, Stored};
use super::written_part::PartBody;
use crate::config::limits::{UPLOAD_PART_MIN, UPLOAD_PARTS_MAX, WRITE_SIZE_MAX};
use crate::memory::BufferRequest;
use crate::mutate::copy::copies_nothing;
use crate::operation::FsError;
use crate::sync::Mutex;

/// The object to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadTarget {
    /// Its key.
    pub key: Key,
    /// The object in its place.
    pub replaced: Replaced,
    /// Its headers and metadata.
    pub headers: ObjectHeaders,
}

/// An object that is being sent.
pub struct ObjectUpload {
    context: Arc<WriteContext>,
    target: UploadTarget,
    /// The objects of other hosts that may stand for an empty one.
    adopts: Adopts,
    /// The upload that an earlier attempt has begun, and that a later one continues, if one can.
    checkpoint: Option<Arc<UploadCheckpoint>>,
    /// Whether ranges are copied on the server: then no part has a checksum.
    has_copies: bool,
    failure: Arc<Failure>,
    upload: OnceLock<Arc<Upload>>,
    /// Parts that were sent, copies included.
    parts: AtomicU16,
    /// The bytes of an object that is shorter than a part. A leaf.
    whole: Mutex<Option<PartBody>>,
}

/// Memory for the bytes of one request, and what it has of them so far.
#[derive(Debug)]
pub struct PartBuffer {
    /// Holds its share of the memory for written data.
    fill: BlockFill,
    len: usize,
    checksum: RunningChecksum,
}

impl ObjectUpload {
    /// An upload of `target` that continues that of `checkpoint`, if there is one, and is left to a
    /// later attempt then if it fails for a while. Sends nothing.
    #[must_use]
    pub fn new(
        context: &Arc<WriteContext>,
        target: UploadTarget,
        adopts: Adopts,
        checkpoint: Option<&Arc<UploadCheckpoint>>,
        has_copies: bool,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            target,
            adopts,
            checkpoint: checkpoint.cloned(),
            has_copies,
            failure: Arc::default(),
            upload: OnceLock::new(),
            parts: AtomicU16::new(0),
            whole: Mutex::default(),
        }
    }

    /// Bytes of the next part.
    ///
    /// # Errors
    /// S3 takes no more parts.
    pub fn next_part_len(&self) -> Result<u64, FsError> {
        let number = self.parts.load(Ordering::Acquire) + 1;
        self.context.part_size(&self.target.key, number)
    }

    /// Waits for the memory of a part with up to `len` bytes, behind `at` bytes of the object. The
    /// part is shorter if memory is short and parts may differ.
    ///
    /// # Errors
    /// There will be no memory, or a part has failed.
    pub async fn part_buffer(&self, len: u64, at: u64) -> Result<PartBuffer, FsError> {
        self.part_room().await?;
        let shortest = match self.context.plan.is_fixed() {
            true => len,
            false => (len / 2).max(UPLOAD_PART_MIN).min(len),
        };
        let request = BufferRequest {
            held: 0,
            len,
            least: shortest,
            whole: len,
            shortest,
            is_large: true,
        };
        self.buffer(request, at).await
    }

    /// As [`Self::part_buffer`], for all `len` bytes.
    ///
    /// # Errors
    /// There will be no memory.
    pub async fn whole_buffer(&self, len: u64) -> Result<PartBuffer, FsError> {
        let whole = len.max(self.context.plan.first() + WRITE_SIZE_MAX as u64);
        let request = BufferRequest {
            held: 0,
            len,
            least: len,
            whole,
            shortest: whole,
            is_large: false,
        };
        self.buffer(request, 0).await
    }

    async fn buffer(&self, request: BufferRequest, at: u64) -> Result<PartBuffer, FsError> {
        let pressure = &self.context.pressure;
        let grant = pressure.memory_for(&self.target.key, request, at).await?;
        let len = usize::try_from(request.len).expect("a part fits into memory");
        let len = len.min(grant.len());
        let (fill, _) = grant.block();
        let checksum = RunningChecksum::new(self.context.send.config.checksum);
        Ok(PartBuffer {
            fill,
            len,
            checksum,
        })
    }

    /// Waits until one more part is sent at once.
    ///
    /// # Errors
    /// A part has failed.
    pub async fn part_room(&self) -> Result<(), FsError> {
        if self.upload.get().is_some() {
            self.context.send.parts.room().await;
        }
        // No more is read for an upload that has failed.
        self.failure.get().map_or(Ok(()), Err)
    }

    /// Sends the next part.
    pub fn send_part(&self, part: PartBody) -> PartOutcome {
        self.context.pressure.written(part.len());
        let upload = self.begin();
        self.parts.fetch_add(1, Ordering::AcqRel);
        PartOutcome(upload.put(part.bytes, part.checksum))
    }

    /// Sends part `number`, which counts from 1, once more, with other bytes. S3 has all parts
    /// ([`Self::arrived`]).
    pub fn send_again(&self, number: u16, part: PartBody) {
        self.context.pressure.written(part.len());
        self.begin().put_again(number, part.bytes, part.checksum);
    }

    /// Keeps the first `parts` parts alone. S3 has all of them ([`Self::arrived`]).
    pub fn cut(&self, parts: u16) {
        if let Some(upload) = self.upload.get() {
            upload.cut(parts);
            self.parts.store(parts, Ordering::Release);
        }
    }

    /// Parts that were sent or copied.
    #[must_use]
    pub fn parts(&self) -> u16 {
        self.parts.load(Ordering::Acquire)
    }

    /// Takes the bytes of an object that is shorter than a part.
    pub fn hold_whole(&self, whole: PartBody) {
        self.context.pressure.written(whole.len());
        *self.whole.lock() = Some(whole);
    }

    /// Whether the server can copy `source` as the next parts.
    #[must_use]
    pub fn takes_copy(&self, source: &CopiedRange) -> bool {
        let parts = source.parts(self.context.send.config.copy_limits.part_max);
        let parts = parts.count() + usize::from(self.parts.load(Ordering::Acquire));
        self.has_copies && source.is_a_part() && parts < usize::from(UPLOAD_PARTS_MAX)
    }

    /// Has the server copy `source` as the next parts. A server that has not copied before is
    /// waited for.
    ///
    /// # Errors
    /// The copy that was waited for was refused.
    pub async fn copy(&self, source: &CopiedRange) -> Result<(), FsError> {
        let features = &self.context.send.features;
        let upload = self.begin();
        for part in source.parts(self.context.send.config.copy_limits.part_max) {
            self.parts.fetch_add(1, Ordering::AcqRel);
            if features.copies_parts() == Some(true) {
                upload.copy(part);
                continue;
            }
            match upload.copy_awaited(part).wait().await {
                Ok(_) => features.learn_copies(true),
                Err(error) => {
                    if matches!(&error, FsError::Client(refusal) if copies_nothing(refusal)) {
                        features.learn_copies(false);
                    }
                    self.failure.set(&error);
                    return Err(error);
                }
            }
        }
        self.context.pressure.moved();
        Ok(())
    }

    /// The multipart upload, begun if there is none.
    fn begin(&self) -> &Arc<Upload> {
        self.upload.get_or_init(|| {
            let (context, key) = (&self.context.send, &self.target.key);
            let beginning = (self.has_copies, self.target.headers.clone());
            let checkpoint = self.checkpoint.clone();
            let upload = Upload::begin(context, key, &self.failure, beginning, checkpoint);
            self.context.register(&upload);
            upload
        })
    }

    /// Returns when S3 has all parts that were sent, or has refused one.
    pub async fn arrived(&self) {
        if let Some(upload) = self.upload.get() {
            upload.answered().await;
        }
    }

    /// Makes the object of what was brought.
    ///
    /// # Errors
    /// [`FsError::Exists`] and [`FsError::Stale`] if another client has changed it.
    pub async fn finish(&self) -> Result<Outcome, FsError> {
        if let Some(error) = self.failure.get() {
            return Err(error);
        }
        let outcome = SharedOutcome::new();
        let (settled, pending) = (outcome.clone(), self.context.send.begin());
        let (context, key) = (Arc::clone(&self.context.send), self.target.key.clone());
        let failure = Arc::clone(&self.failure);
        let made = self.make();
        background::run(async move {
            let result = made.await;
            match &result {
                Ok(Outcome::Stored(_)) => context.permission.stored(&key),
                Ok(Outcome::Adopted(_)) => {}
                Err(error) => {
                    context.permission.failed(&key, error);
                    failure.set(error);
                }
            }
            settled.settle(result);
            drop(pending);
        });
        outcome.wait().await
    }

    /// Puts `part` behind the end of `before`, the version of the object that the bucket has, whose
    /// checksum is of `algorithm`.
    ///
    /// # Errors
    /// [`FsError::Stale`] if another client has changed it.
    pub async fn append(
        &self,
        (before, algorithm): (Stored, Option<ChecksumAlgorithm>),
        part: PartBody,
    ) -> Result<Outcome, FsError> {
        self.context.pressure.written(part.len());
        let outcome = SharedOutcome::new();
        let (settled, pending) = (outcome.clone(), self.context.send.begin());
        let (context, key) = (Arc::clone(&self.context.send), self.target.key.clone());
        background::run(async move {
            let checksum = part.checksum_of(algorithm);
            let appended = append(&context, &key, before, part.bytes, checksum).await;
            match &appended {
                Ok(_) => context.permission.stored(&key),
                Err(error) => context.permission.failed(&key, error),
            }
            settled.settle(appended.map(Outcome::Stored));
            drop(pending);
        });
        outcome.wait().await
    }

    /// The request that makes the object.
    fn make(&self) -> impl Future<Output = Result<Outcome, FsError>> + Send + use<> {
        let upload = self.upload.get().cloned();
        let condition = self.target.replaced.condition();
        let whole = self.whole.lock().take();
        let (body, checksum) = match whole {
            Some(whole) => (whole.bytes, whole.checksum),
            None => {
                let nothing = RunningChecksum::new(self.context.send.config.checksum);
                (Bytes::new(), nothing.value())
            }
        };
        let object = WholeObject {
            key: self.target.key.clone(),
            adopts: match body.is_empty() {
                true => self.adopts,
                false => Adopts::Nothing,
            },
            body,
            checksum,
            condition: condition.clone(),
            is_unasked: self.target.replaced == Replaced::NothingUnasked,
            headers: self.target.headers.clone(),
        };
        let context = Arc::clone(&self.context.send);
        async move {
            match upload {
                Some(upload) => upload.complete(condition).await.map(Outcome::Stored),
                None => object.put(&context).await,
            }
        }
    }

    /// The first failure, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<FsError> {
        self.failure.get()
    }

    /// Ends the attempt behind `error`: its upload is aborted, unless another attempt may continue
    /// it.
    pub async fn give_up(&self, error: &FsError) {
        self.failure.set(error);
        self.whole.lock().take();
        if let Some(upload) = self.upload.get() {
            upload.give_up(error).await;
        }
    }
}

impl Replaced {
    /// The condition of the request that makes the object.
    pub(crate) fn condition(&self) -> PutCondition {
        match self {
            Self::Nothing | Self::NothingUnasked => PutCondition::Absent,
            Self::Any => PutCondition::None,
            Self::Version(version) => PutCondition::Match(ETag::clone(version)),
        }
    }
}

impl PartBuffer {
    /// Bytes that it is to have.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// Whether it is to have no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Has `append` add bytes, and sums them while they are in the processor's cache: callers add
    /// up to [`SUMMED_AT_ONCE`] of them.
    ///
    /// # Errors
    /// That of `append`.
    pub fn append<E>(
        &mut self,
        append: impl FnOnce(&mut BlockFill) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.fill.filled();
        append(&mut self.fill)?;
        self.checksum.update(&self.fill.bytes()[before..]);
        Ok(())
    }

    /// The whole buffer, as the body of a request.
    #[must_use]
    pub fn into_body(self) -> PartBody {
        assert_eq!(self.fill.filled(), self.len, "all bytes were brought");
        PartBody {
            bytes: Bytes::from_owner(Filled(self.fill)),
            checksum: self.checksum.value(),
        }
    }
}

/// The end of the sending of a part.
#[derive(Debug)]
pub struct PartOutcome(SharedOutcome<Result<Part, FsError>>);

impl PartOutcome {
    /// Returns whether S3 has the part.
    pub async fn has_arrived(&self) -> bool {
        self.0.wait().await.is_ok()
    }
}

/// A whole buffer, as the body of a request.
struct Filled(BlockFill);

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl fmt::Debug for ObjectUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectUpload")
            .field("target", &self.target)
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}
