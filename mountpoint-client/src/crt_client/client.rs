//! The client itself: each operation of [`ObjectClient`] goes to its file.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use mountpoint_crt_sys::block::BlockFill;
use tokio::runtime::Handle;

use super::connect;
use super::control::{append, listing, multipart, object_head, objects, rename, session, upload};
use super::core::Core;
use super::get::first_bytes;
use super::options::CrtClientOptions;
use crate::crt_client::get::GetOperation;
use crate::object_client::{GetHandle, GetObserver, ObjectClient, Pending};
use crate::types::{
    AppendRequest, BucketInfo, Checksum, ChecksumAlgorithm, CopyHeaders, CopySource, DeleteFailure,
    ETag, FirstBytes, GetRequest, Key, ListOutput, ListRequest, ObjectDetails, ObjectHeaders,
    ObjectInfo, Part, PartNumber, PutCondition, PutOutput, PutRequest, Upload,
};
use crate::{ClientError, ErrorKind};

/// A bucket on S3 or a server that speaks its protocol. Cheap to clone.
#[derive(Clone)]
pub struct CrtClient(pub(super) Arc<Core>);

impl CrtClient {
    /// Finds region and credentials and starts the client. Sends nothing to the bucket.
    ///
    /// Requests that are not data run as tasks of `runtime`, and so do waits before retries; it
    /// must outlive the client. Fails with [`ErrorKind::Credentials`] where there are none, within
    /// a few seconds.
    pub async fn connect(options: CrtClientOptions, runtime: Handle) -> Result<Self, ClientError> {
        let task = runtime.spawn(connect::connect(options, runtime.clone()));
        match task.await {
            Ok(core) => Ok(Self(Arc::new(core?))),
            Err(error) => Err(ClientError::new(
                ErrorKind::Transient,
                format!("the client's start broke off: {error}"),
            )),
        }
    }

    /// The region that requests are signed for; `*` for all.
    #[must_use]
    pub fn region(&self) -> &str {
        &self.0.endpoint.signing_region
    }

    /// For what asks more of a server than [`ObjectClient`] does.
    pub(super) fn core(&self) -> &Core {
        &self.0
    }

    /// Where the credentials came from, as a short text without secrets; `None` if requests are not
    /// signed.
    #[must_use]
    pub fn credentials_source(&self) -> Option<String> {
        self.0.credentials.as_ref()?.source()
    }
}

impl fmt::Debug for CrtClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrtClient")
            .field("bucket", &self.0.bucket)
            .field("endpoint", &self.0.endpoint)
            .field("admission", &self.0.admission)
            .finish_non_exhaustive()
    }
}

impl ObjectClient for CrtClient {
    fn get(
        &self,
        request: GetRequest,
        into: BlockFill,
        observer: Arc<dyn GetObserver>,
    ) -> GetHandle {
        GetOperation::start(&self.0, request, into, observer)
    }

    fn parts_in_flight(&self) -> usize {
        self.0.parts_in_flight
    }

    fn is_throttled(&self) -> bool {
        self.0.is_throttled()
    }

    fn head(&self, key: &Key) -> Pending<ObjectInfo> {
        object_head::head(&self.0, key)
    }

    fn first_bytes(&self, key: &Key, len_max: u32) -> Pending<FirstBytes> {
        first_bytes::first_bytes(&self.0, key, len_max)
    }

    fn head_details(&self, key: &Key) -> Pending<ObjectDetails> {
        object_head::head_details(&self.0, key)
    }

    fn list(&self, request: ListRequest) -> Pending<ListOutput> {
        listing::list(&self.0, request)
    }

    fn lists_in_order(&self) -> bool {
        !self.0.is_directory_bucket
    }

    fn head_bucket(&self) -> Pending<BucketInfo> {
        objects::head_bucket(&self.0)
    }

    fn put(&self, request: PutRequest) -> Pending<PutOutput> {
        upload::put(&self.0, request)
    }

    fn appends(&self) -> bool {
        self.0.sessions.is_some()
    }

    fn append(&self, request: AppendRequest) -> Pending<PutOutput> {
        append::append(&self.0, request)
    }

    fn create_upload(
        &self,
        key: &Key,
        headers: ObjectHeaders,
        checksum: Option<ChecksumAlgorithm>,
    ) -> Pending<Upload> {
        multipart::create(&self.0, key, headers, checksum)
    }

    fn put_part(
        &self,
        upload: &Upload,
        number: PartNumber,
        body: Bytes,
        checksum: Option<Checksum>,
    ) -> Pending<Part> {
        upload::put_part(&self.0, upload, number, body, checksum)
    }

    fn copy_part(
        &self,
        upload: &Upload,
        number: PartNumber,
        source: CopySource,
        range: Range<u64>,
    ) -> Pending<Part> {
        multipart::copy_part(&self.0, upload, number, source, range)
    }

    fn complete_upload(
        &self,
        upload: &Upload,
        parts: Vec<Part>,
        condition: PutCondition,
    ) -> Pending<PutOutput> {
        multipart::complete(&self.0, upload, parts, condition)
    }

    fn abort_upload(&self, upload: &Upload) -> Pending<()> {
        multipart::abort(&self.0, upload)
    }

    fn list_parts(&self, upload: &Upload) -> Pending<Vec<Part>> {
        multipart::list_parts(&self.0, upload)
    }

    fn list_uploads(&self, prefix: &str) -> Pending<Vec<Upload>> {
        multipart::list_uploads(&self.0, prefix)
    }

    fn delete(&self, key: &Key, if_match: Option<ETag>) -> Pending<()> {
        objects::delete(&self.0, key, if_match)
    }

    fn delete_many(&self, objects: Vec<(Key, Option<ETag>)>) -> Pending<Vec<DeleteFailure>> {
        objects::delete_many(&self.0, objects)
    }

    fn copy(
        &self,
        source: CopySource,
        destination: &Key,
        condition: PutCondition,
        headers: CopyHeaders,
    ) -> Pending<PutOutput> {
        objects::copy(&self.0, source, destination, condition, headers)
    }

    fn rename(&self, source: &Key, destination: &Key, condition: PutCondition) -> Pending<()> {
        rename::rename(&self.0, source, destination, condition)
    }

    fn create_session(&self) -> Pending<()> {
        session::create(&self.0)
    }
}
