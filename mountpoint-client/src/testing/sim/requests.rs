//! [`ObjectClient`] for [`SimClient`]: each method names its log record and the work of the store.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use mountpoint_crt_sys::block::BlockFill;

use crate::object_client::Pending;
use crate::types::{
    AppendRequest, BucketInfo, Checksum, ChecksumAlgorithm, CopyHeaders, CopySource, DeleteFailure,
    ETag, FirstBytes, GetRequest, Key, ListOutput, ListRequest, ObjectDetails, ObjectHeaders,
    ObjectInfo, Part, PartNumber, PutCondition, PutOutput, PutRequest, Upload,
};
use crate::{ClientError, ErrorKind, GetHandle, GetObserver, ObjectClient};

use super::client::SimClient;
use super::request_log::{Operation, RequestRecord};

impl ObjectClient for SimClient {
    fn get(
        &self,
        request: GetRequest,
        into: BlockFill,
        observer: Arc<dyn GetObserver>,
    ) -> GetHandle {
        self.start_get(request, into, observer)
    }

    fn is_throttled(&self) -> bool {
        self.shared
            .is_throttled
            .load(std::sync::atomic::Ordering::Relaxed)
    }

    fn head(&self, key: &Key) -> Pending<ObjectInfo> {
        let key = key.clone();
        let record = RequestRecord::new(Operation::HeadObject, key.as_str());
        self.submit(record, move |store| store.head(&key))
    }

    fn first_bytes(&self, key: &Key, len_max: u32) -> Pending<FirstBytes> {
        let key = key.clone();
        let record = RequestRecord::new(Operation::GetObject, key.as_str())
            .with_range(0..u64::from(len_max));
        self.submit(record, move |store| store.first_bytes(&key, len_max))
    }

    fn head_details(&self, key: &Key) -> Pending<ObjectDetails> {
        let key = key.clone();
        let record = RequestRecord::new(Operation::HeadObject, key.as_str());
        self.submit(record, move |store| store.head_details(&key))
    }

    fn list(&self, request: ListRequest) -> Pending<ListOutput> {
        let record = RequestRecord::new(Operation::ListObjectsV2, &request.prefix);
        self.submit(record, move |store| store.list(&request))
    }

    fn lists_in_order(&self) -> bool {
        !self.shared.options.directory_bucket
    }

    fn head_bucket(&self) -> Pending<BucketInfo> {
        let record = RequestRecord::new(Operation::HeadBucket, "");
        self.submit(record, |store| Ok(store.head_bucket()))
    }

    fn put(&self, request: PutRequest) -> Pending<PutOutput> {
        let record = RequestRecord::new(Operation::PutObject, request.key.as_str())
            .with_bytes(request.body.len());
        self.submit(record, move |store| store.put(request))
    }

    fn appends(&self) -> bool {
        self.shared.options.directory_bucket
    }

    fn append(&self, request: AppendRequest) -> Pending<PutOutput> {
        if !self.appends() {
            return unsupported("only directory buckets append to an object");
        }
        let end = request.offset + request.body.len() as u64;
        let record = RequestRecord::new(Operation::PutObject, request.key.as_str())
            .with_range(request.offset..end)
            .with_bytes(request.body.len());
        self.submit(record, move |store| store.append(&request))
    }

    fn create_upload(
        &self,
        key: &Key,
        headers: ObjectHeaders,
        checksum: Option<ChecksumAlgorithm>,
    ) -> Pending<Upload> {
        let key = key.clone();
        let record = RequestRecord::new(Operation::CreateMultipartUpload, key.as_str());
        self.submit(record, move |store| {
            store.create_upload(key, headers, checksum)
        })
    }

    fn put_part(
        &self,
        upload: &Upload,
        number: PartNumber,
        body: Bytes,
        checksum: Option<Checksum>,
    ) -> Pending<Part> {
        let upload = upload.clone();
        let record =
            RequestRecord::new(Operation::UploadPart, upload.key.as_str()).with_bytes(body.len());
        self.submit(record, move |store| {
            store.put_part(&upload, number, body, checksum)
        })
    }

    fn copy_part(
        &self,
        upload: &Upload,
        number: PartNumber,
        source: CopySource,
        range: Range<u64>,
    ) -> Pending<Part> {
        let upload = upload.clone();
        let record = RequestRecord::new(Operation::UploadPartCopy, upload.key.as_str())
            .with_range(range.clone());
        self.submit(record, move |store| {
            store.copy_part(&upload, number, &source, range)
        })
    }

    fn complete_upload(
        &self,
        upload: &Upload,
        parts: Vec<Part>,
        condition: PutCondition,
    ) -> Pending<PutOutput> {
        let upload = upload.clone();
        let record = RequestRecord::new(Operation::CompleteMultipartUpload, upload.key.as_str());
        self.submit(record, move |store| {
            store.complete_upload(&upload, &parts, &condition)
        })
    }

    fn abort_upload(&self, upload: &Upload) -> Pending<()> {
        let upload = upload.clone();
        let record = RequestRecord::new(Operation::AbortMultipartUpload, upload.key.as_str());
        self.submit(record, move |store| store.abort_upload(&upload))
    }

    fn list_parts(&self, upload: &Upload) -> Pending<Vec<Part>> {
        let upload = upload.clone();
        let record = RequestRecord::new(Operation::ListParts, upload.key.as_str());
        self.submit(record, move |store| store.list_parts(&upload))
    }

    fn list_uploads(&self, prefix: &str) -> Pending<Vec<Upload>> {
        let prefix = prefix.to_owned();
        let record = RequestRecord::new(Operation::ListMultipartUploads, &prefix);
        self.submit(record, move |store| Ok(store.list_uploads(&prefix)))
    }

    fn delete(&self, key: &Key, if_match: Option<ETag>) -> Pending<()> {
        let key = key.clone();
        let record = RequestRecord::new(Operation::DeleteObject, key.as_str());
        self.submit(record, move |store| store.delete(&key, if_match.as_ref()))
    }

    fn delete_many(&self, objects: Vec<(Key, Option<ETag>)>) -> Pending<Vec<DeleteFailure>> {
        let record = RequestRecord::new(Operation::DeleteObjects, "");
        self.submit(record, move |store| store.delete_many(&objects))
    }

    fn copy(
        &self,
        source: CopySource,
        destination: &Key,
        condition: PutCondition,
        headers: CopyHeaders,
    ) -> Pending<PutOutput> {
        let destination = destination.clone();
        let record = RequestRecord::new(Operation::CopyObject, destination.as_str());
        self.submit(record, move |store| {
            store.copy(&source, &destination, &condition, headers)
        })
    }

    fn rename(&self, source: &Key, destination: &Key, condition: PutCondition) -> Pending<()> {
        if !self.shared.options.directory_bucket {
            return unsupported("RenameObject is for directory buckets");
        }
        let (source, destination) = (source.clone(), destination.clone());
        let record = RequestRecord::new(Operation::RenameObject, destination.as_str());
        self.submit(record, move |store| {
            store.rename(&source, &destination, &condition)
        })
    }

    fn create_session(&self) -> Pending<()> {
        if !self.shared.options.directory_bucket {
            return unsupported("CreateSession is for directory buckets");
        }
        self.submit(RequestRecord::new(Operation::CreateSession, ""), |_| Ok(()))
    }
}

/// Refused without a request, as the trait demands.
fn unsupported<T: Send + 'static>(what: &str) -> Pending<T> {
    Box::pin(std::future::ready(Err(ClientError::new(
        ErrorKind::Unsupported,
        what,
    ))))
}
