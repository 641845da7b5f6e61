//! A bucket whose names come from an index: no LIST and no HEAD of it is sent.
//!
//! GETs go to the bucket, each with the ETag of the index, and so does whatever else an index does
//! not know. The caller's thread answers from memory; a thread of the runtime waits for the
//! disk.

use std::ops::Range;
use std::sync::Arc;

use mountpoint_client::types::{
    AppendRequest, BucketInfo, Checksum, ChecksumAlgorithm, CopyHeaders, CopySource, DeleteFailure,
    ETag, FirstBytes, GetOutput, GetRequest, Key, ListOutput, ListRequest, ObjectDetails,
    ObjectHeaders, ObjectInfo, Part, PartNumber, PutCondition, PutOutput, PutRequest, Upload,
};
use mountpoint_client::{ClientError, ErrorKind, GetHandle, GetObserver, ObjectClient, Pending};
use mountpoint_crt_sys::block::BlockFill;
use tokio::runtime::Handle;

use super::file::DiskWait;
use super::{IndexError, IndexFile};

/// The bucket of `inner`, with the names of an index.
#[derive(Debug)]
pub struct IndexedClient {
    inner: Arc<dyn ObjectClient>,
    index: Arc<IndexFile>,
    runtime: Handle,
}

impl IndexedClient {
    /// The bucket of `inner`, whose names `index` has. Reads of the disk wait on `runtime`.
    #[must_use]
    pub fn new(inner: Arc<dyn ObjectClient>, index: Arc<IndexFile>, runtime: Handle) -> Self {
        Self {
            inner,
            index,
            runtime,
        }
    }

    /// The answer of `ask`, from the index.
    fn ask<T: Send + 'static>(
        &self,
        ask: impl Fn(&IndexFile, DiskWait) -> Result<T, IndexError> + Send + 'static,
    ) -> Pending<T> {
        match ask(&self.index, DiskWait::Refused) {
            Err(IndexError::NotInMemory) => {}
            outcome => {
                let outcome = outcome.map_err(|error| unusable(&self.index, &error));
                return Box::pin(std::future::ready(outcome));
            }
        }
        let index = Arc::clone(&self.index);
        let asked = self.runtime.spawn_blocking(move || {
            let outcome = ask(&index, DiskWait::Allowed);
            outcome.map_err(|error| unusable(&index, &error))
        });
        Box::pin(async move {
            asked.await.unwrap_or_else(|error| {
                let message = format!("the index was not read: {error}");
                Err(ClientError::new(ErrorKind::Cancelled, message))
            })
        })
    }

    /// The object called `key`, or that there is none.
    fn known(&self, key: &Key) -> Pending<ObjectInfo> {
        let name = key.clone();
        let found = self.ask(move |index, wait| index.find(name.as_str(), wait));
        let key = key.clone();
        Box::pin(async move {
            let message = || format!("{key} is not in the index");
            let absent = || ClientError::new(ErrorKind::NotFound, message());
            found.await?.ok_or_else(absent)
        })
    }
}

/// The error of an index that cannot be read.
fn unusable(index: &IndexFile, error: &IndexError) -> ClientError {
    let path = index.path().display();
    let message = format!("the index {path} cannot be read: {error}");
    ClientError::new(ErrorKind::InvalidResponse, message)
}

/// The error of an object that is another version than the index says, or gone.
fn outdated(index: &IndexFile, key: &Key, error: ClientError) -> ClientError {
    let path = index.path().display();
    let message = format!(
        "{key} was replaced or deleted after the index {path} was made: make the index anew with `mount-s3 index`. {}",
        error.message
    );
    ClientError { message, ..error }
}

/// Whether the object is not the version that was asked for.
fn is_outdated(error: &ClientError) -> bool {
    matches!(
        error.kind,
        ErrorKind::PreconditionFailed | ErrorKind::NotFound
    )
}

/// Tells a reader that the index is too old.
struct IndexedObserver {
    reader: Arc<dyn GetObserver>,
    index: Arc<IndexFile>,
    key: Key,
}

impl GetObserver for IndexedObserver {
    fn progressed(&self) {
        self.reader.progressed();
    }

    fn sent_over(&self, interface: usize) {
        self.reader.sent_over(interface);
    }

    fn is_wanted(&self) -> bool {
        self.reader.is_wanted()
    }

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        self.reader.finished(outcome.map_err(|error| {
            if is_outdated(&error) {
                outdated(&self.index, &self.key, error)
            } else {
                error
            }
        }));
    }
}

impl ObjectClient for IndexedClient {
    fn get(
        &self,
        request: GetRequest,
        into: BlockFill,
        observer: Arc<dyn GetObserver>,
    ) -> GetHandle {
        let observer = IndexedObserver {
            reader: observer,
            index: Arc::clone(&self.index),
            key: request.key.clone(),
        };
        self.inner.get(request, into, Arc::new(observer))
    }

    fn is_throttled(&self) -> bool {
        self.inner.is_throttled()
    }

    fn parts_in_flight(&self) -> usize {
        self.inner.parts_in_flight()
    }

    fn head(&self, key: &Key) -> Pending<ObjectInfo> {
        self.known(key)
    }

    /// None without a request: a look-up has the version without them.
    fn first_bytes(&self, key: &Key, _len_max: u32) -> Pending<FirstBytes> {
        let message = format!("{key} is looked up in the index");
        let error = ClientError::new(ErrorKind::Unsupported, message);
        Box::pin(std::future::ready(Err(error)))
    }

    /// A request: an index has neither headers nor metadata. They are of the version of the index.
    fn head_details(&self, key: &Key) -> Pending<ObjectDetails> {
        let (known, details) = (self.known(key), self.inner.head_details(key));
        let (index, key) = (Arc::clone(&self.index), key.clone());
        Box::pin(async move {
            let known = known.await?;
            match details.await {
                Ok(details) if details.info.etag.matches(&known.etag) => Ok(details),
                Ok(_) => {
                    let error = ClientError::new(ErrorKind::PreconditionFailed, "");
                    Err(outdated(&index, &key, error))
                }
                Err(error) if is_outdated(&error) => Err(outdated(&index, &key, error)),
                Err(error) => Err(error),
            }
        })
    }

    fn list(&self, request: ListRequest) -> Pending<ListOutput> {
        self.ask(move |index, wait| index.list(&request, wait))
    }

    /// Whatever the bucket's listings do, an index is in order.
    fn lists_in_order(&self) -> bool {
        true
    }

    fn head_bucket(&self) -> Pending<BucketInfo> {
        self.inner.head_bucket()
    }

    fn put(&self, request: PutRequest) -> Pending<PutOutput> {
        self.inner.put(request)
    }

    fn appends(&self) -> bool {
        self.inner.appends()
    }

    fn append(&self, request: AppendRequest) -> Pending<PutOutput> {
        self.inner.append(request)
    }

    fn create_upload(
        &self,
        key: &Key,
        headers: ObjectHeaders,
        checksum: Option<ChecksumAlgorithm>,
    ) -> Pending<Upload> {
        self.inner.create_upload(key, headers, checksum)
    }

    fn put_part(
        &self,
        upload: &Upload,
        number: PartNumber,
        body: bytes::Bytes,
        checksum: Option<Checksum>,
    ) -> Pending<Part> {
        self.inner.put_part(upload, number, body, checksum)
    }

    fn copy_part(
        &self,
        upload: &Upload,
        number: PartNumber,
        source: CopySource,
        range: Range<u64>,
    ) -> Pending<Part> {
        self.inner.copy_part(upload, number, source, range)
    }

    fn complete_upload(
        &self,
        upload: &Upload,
        parts: Vec<Part>,
        condition: PutCondition,
    ) -> Pending<PutOutput> {
        self.inner.complete_upload(upload, parts, condition)
    }

    fn abort_upload(&self, upload: &Upload) -> Pending<()> {
        self.inner.abort_upload(upload)
    }

    fn list_parts(&self, upload: &Upload) -> Pending<Vec<Part>> {
        self.inner.list_parts(upload)
    }

    fn list_uploads(&self, prefix: &str) -> Pending<Vec<Upload>> {
        self.inner.list_uploads(prefix)
    }

    fn delete(&self, key: &Key, if_match: Option<ETag>) -> Pending<()> {
        self.inner.delete(key, if_match)
    }

    fn delete_many(&self, objects: Vec<(Key, Option<ETag>)>) -> Pending<Vec<DeleteFailure>> {
        self.inner.delete_many(objects)
    }

    fn copy(
        &self,
        source: CopySource,
        destination: &Key,
        condition: PutCondition,
        headers: CopyHeaders,
    ) -> Pending<PutOutput> {
        self.inner.copy(source, destination, condition, headers)
    }

    fn rename(&self, source: &Key, destination: &Key, condition: PutCondition) -> Pending<()> {
        self.inner.rename(source, destination, condition)
    }

    fn create_session(&self) -> Pending<()> {
        self.inner.create_session()
    }
}
