//! The one door to an object store.
//!
//! Object-safe: the file system holds an `Arc<dyn ObjectClient>` and has no client type parameter.
//! A client is bound to one bucket. Implementations retry what may be retried; an error that comes
//! out is final.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mountpoint_crt_sys::block::BlockFill;

use crate::ClientError;
use crate::pauses::PauseReason;
use crate::types::{
    AppendRequest, BucketInfo, ChecksumAlgorithm, CopyHeaders, CopySource, DeleteFailure, ETag,
    FirstBytes, GetOutput, GetRequest, Key, ListOutput, ListRequest, ObjectDetails, ObjectHeaders,
    ObjectInfo, Part, PartNumber, PutCondition, PutOutput, PutRequest, Upload,
};

/// A request in progress that owns all it needs.
pub type Pending<T> = Pin<Box<dyn Future<Output = Result<T, ClientError>> + Send + 'static>>;

/// Told of a GET's progress, on a thread of the client. Neither method may block or panic.
pub trait GetObserver: Send + Sync {
    /// More bytes of the block are valid than before. Not called for the last bytes if `finished`
    /// follows at once.
    fn progressed(&self);

    /// The GET is sent over this network interface. Called before the first byte, and again for
    /// each further attempt.
    fn sent_over(&self, _interface: usize) {}

    /// No attempt is sent for a while, for this reason. [`Self::sent_over`] ends it.
    fn paused(&self, _reason: PauseReason) {}

    /// Whether an attempt that failed is worth another. If not, the GET ends with the failure.
    fn is_wanted(&self) -> bool {
        true
    }

    /// Exactly once, last. After `Ok` the whole block is valid; after `Err` the bytes that became
    /// valid stay valid (they come from the version asked for) and no more will follow.
    fn finished(&self, outcome: Result<GetOutput, ClientError>);
}

/// A GET in flight. Dropping it lets the GET finish; cancelling costs the connection it runs on.
pub struct GetHandle(Option<Box<dyn FnOnce() + Send>>);

impl GetHandle {
    /// A handle whose `cancel` calls `cancel`.
    #[must_use]
    pub fn new(cancel: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(cancel)))
    }

    /// Ends the GET early: its observer's `finished` is called with
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled), unless it was done already.
    pub fn cancel(mut self) {
        if let Some(cancel) = self.0.take() {
            cancel();
        }
    }
}

impl fmt::Debug for GetHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GetHandle")
    }
}

/// A bucket.
pub trait ObjectClient: Send + Sync + fmt::Debug {
    /// One range into one block: `into.capacity()` equals the range's length. Bytes that `into` has
    /// already are not asked for. Starts at once and never blocks.
    ///
    /// Bytes are published in the block as they arrive, in order, and only once it is known that
    /// they come from the version of `if_match`. A retry continues behind the bytes that are valid
    /// already. Those of a small object that is asked for as a whole are published together, once
    /// they were compared with its checksum.
    fn get(
        &self,
        request: GetRequest,
        into: BlockFill,
        observer: Arc<dyn GetObserver>,
    ) -> GetHandle;

    /// Whether the server has said of late to slow down: then optional requests are left out.
    fn is_throttled(&self) -> bool {
        false
    }

    /// Parts of uploads that fill the network together; with more of them each only takes longer.
    fn parts_in_flight(&self) -> usize {
        PARTS_IN_FLIGHT
    }

    /// HeadObject.
    fn head(&self, key: &Key) -> Pending<ObjectInfo>;

    /// The first bytes of an object of unknown size, at most `len_max` of them and at least
    /// one: GetObject, which tells what HeadObject would. They are copied, so not for many.
    fn first_bytes(&self, key: &Key, len_max: u32) -> Pending<FirstBytes>;

    /// HeadObject, with all that it says.
    fn head_details(&self, key: &Key) -> Pending<ObjectDetails>;

    /// One page of ListObjectsV2.
    fn list(&self, request: ListRequest) -> Pending<ListOutput>;

    /// Whether listings are in the order of keys and can begin behind a key. Not on directory
    /// buckets.
    fn lists_in_order(&self) -> bool;

    /// HeadBucket.
    fn head_bucket(&self) -> Pending<BucketInfo>;

    /// PutObject.
    fn put(&self, request: PutRequest) -> Pending<PutOutput>;

    /// Whether bytes can be appended to objects: on directory buckets.
    fn appends(&self) -> bool;

    /// PutObject behind the end of an object, which carries what it carried before: directory
    /// buckets only, elsewhere [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) **without
    /// a request**, because a server that ignores the offset would put the bytes in the place of
    /// the object.
    fn append(&self, request: AppendRequest) -> Pending<PutOutput>;

    /// CreateMultipartUpload.
    fn create_upload(
        &self,
        key: &Key,
        headers: ObjectHeaders,
        checksum: Option<ChecksumAlgorithm>,
    ) -> Pending<Upload>;

    /// UploadPart. S3 wants at least 5 MiB in every part but the last.
    fn put_part(
        &self,
        upload: &Upload,
        number: PartNumber,
        body: bytes::Bytes,
        checksum: Option<crate::types::Checksum>,
    ) -> Pending<Part>;

    /// UploadPartCopy: `range` of another object becomes a part.
    fn copy_part(
        &self,
        upload: &Upload,
        number: PartNumber,
        source: CopySource,
        range: std::ops::Range<u64>,
    ) -> Pending<Part>;

    /// CompleteMultipartUpload. The object appears, or nothing has changed.
    fn complete_upload(
        &self,
        upload: &Upload,
        parts: Vec<Part>,
        condition: PutCondition,
    ) -> Pending<PutOutput>;

    /// AbortMultipartUpload: S3 forgets the parts.
    fn abort_upload(&self, upload: &Upload) -> Pending<()>;

    /// Every part of an upload that S3 holds, in order of number.
    fn list_parts(&self, upload: &Upload) -> Pending<Vec<Part>>;

    /// Every upload in progress under a prefix.
    fn list_uploads(&self, prefix: &str) -> Pending<Vec<Upload>>;

    /// DeleteObject. Deleting what is not there succeeds. With `if_match`, only that version.
    fn delete(&self, key: &Key, if_match: Option<ETag>) -> Pending<()>;

    /// DeleteObjects, at most 1000 objects, each only in the version that it names. Returns those
    /// that are still there; a server may ignore the versions.
    fn delete_many(&self, objects: Vec<(Key, Option<ETag>)>) -> Pending<Vec<DeleteFailure>>;

    /// CopyObject within the bucket.
    fn copy(
        &self,
        source: CopySource,
        destination: &Key,
        condition: PutCondition,
        headers: CopyHeaders,
    ) -> Pending<PutOutput>;

    /// RenameObject: directory buckets only, elsewhere
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) **without a request**, because a
    /// server that ignores `?renameObject` would empty the destination.
    fn rename(&self, source: &Key, destination: &Key, condition: PutCondition) -> Pending<()>;

    /// CreateSession: credentials for a directory bucket.
    fn create_session(&self) -> Pending<()>;
}

/// Where nobody knows: what the CRT opens for its default of 10 Gbit/s.
const PARTS_IN_FLIGHT: usize = 25;
