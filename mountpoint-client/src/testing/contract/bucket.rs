//! The means of a case: a bucket's prefix of its own, and helpers that make a case a few lines.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use mountpoint_crt_sys::block::BlockPool;

use crate::object_client::Pending;
use crate::types::{
    CopyHeaders, CopySource, ETag, GetOutput, GetRequest, Key, ListRequest, ObjectHeaders,
    ObjectInfo, Part, PartNumber, Priority, PutCondition, PutOutput, PutRequest, Upload,
};
use crate::{ClientError, ErrorKind, GetHandle, ObjectClient};

use super::capabilities::Capabilities;
use super::wait::{Watch, wait};

/// Pages of one listing: a server that never ends a listing fails a case.
const PAGES_MAX: usize = 5000;

/// Requests that [`Bucket::put_many`] has in flight at once.
const PUTS_IN_FLIGHT: usize = 32;

/// The client and server that the suite is run against.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The client, bound to a bucket that exists.
    pub client: Arc<dyn ObjectClient>,
    /// Where the cases write, for instance `contract-17/`: empty, or ending with `/`; nothing is
    /// there yet.
    pub prefix: String,
    /// The capabilities of the server behind it.
    pub capabilities: Capabilities,
}

/// Why a case failed, in words.
#[derive(Clone, Debug)]
pub struct Failure(String);

impl Failure {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self(format!("{error:?}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A case's own prefix in the subject's bucket.
#[derive(Debug)]
pub struct Bucket {
    pub(super) client: Arc<dyn ObjectClient>,
    pub(super) capabilities: Capabilities,
    pub(super) prefix: String,
    pool: BlockPool,
}

/// A GET in flight.
pub(super) struct Get {
    pub(super) handle: GetHandle,
    pub(super) watch: Arc<Watch>,
}

impl Get {
    /// The bytes, or why there are none; and that the observer was called as it should be.
    pub(super) fn bytes(&self) -> Result<(Vec<u8>, GetOutput), ClientError> {
        let outcome = self.watch.outcome();
        if let Some(wrong) = self.watch.wrong() {
            return Err(ClientError::new(ErrorKind::InvalidResponse, wrong));
        }
        let output = outcome?;
        let block = self.watch.block();
        Ok((block.bytes(0..block.capacity()).to_vec(), output))
    }
}

/// All pages of one listing, names without the bucket's prefix.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) objects: Vec<ObjectInfo>,
    pub(super) keys: Vec<String>,
    pub(super) prefixes: Vec<String>,
}

impl Bucket {
    pub(super) fn new(subject: Subject, case: &str) -> Self {
        let Subject {
            client,
            prefix,
            capabilities,
        } = subject;
        Self {
            client,
            capabilities,
            prefix: format!("{prefix}{case}/"),
            pool: BlockPool::new(0),
        }
    }

    /// The key of an object of this case.
    pub(super) fn key(&self, name: &str) -> Result<Key, Failure> {
        let key = Key::parse(&format!("{}{name}", self.prefix));
        key.ok_or_else(|| Failure::new(format!("no key can be made of {name:?}")))
    }

    pub(super) fn wait<T>(&self, pending: Pending<T>) -> Result<T, ClientError> {
        wait(pending)
    }

    pub(super) fn put(&self, name: &str, bytes: impl Into<Bytes>) -> Result<ETag, Failure> {
        Ok(self.put_if(name, bytes, PutCondition::None)??.etag)
    }

    /// The outer error is the case's mistake, the inner one the server's answer.
    pub(super) fn put_if(
        &self,
        name: &str,
        bytes: impl Into<Bytes>,
        condition: PutCondition,
    ) -> Result<Result<PutOutput, ClientError>, Failure> {
        let request = PutRequest {
            condition,
            ..self.put_request(name, bytes)?
        };
        Ok(wait(self.client.put(request)))
    }

    pub(super) fn put_request(
        &self,
        name: &str,
        bytes: impl Into<Bytes>,
    ) -> Result<PutRequest, Failure> {
        Ok(PutRequest {
            key: self.key(name)?,
            body: bytes.into(),
            condition: PutCondition::None,
            checksum: None,
            headers: ObjectHeaders::default(),
        })
    }

    /// Objects with their own names as content.
    pub(super) fn put_many<S: AsRef<str>>(&self, names: &[S]) -> Result<(), Failure> {
        for batch in names.chunks(PUTS_IN_FLIGHT) {
            let mut pending = Vec::with_capacity(batch.len());
            for name in batch {
                let bytes = name.as_ref().as_bytes().to_vec();
                pending.push(self.client.put(self.put_request(name.as_ref(), bytes)?));
            }
            for put in pending {
                wait(put)?;
            }
        }
        Ok(())
    }

    pub(super) fn start_get(
        &self,
        name: &str,
        range: Range<u64>,
        if_match: Option<&ETag>,
    ) -> Result<Get, Failure> {
        let len = usize::try_from(range.end - range.start)
            .map_err(|_| Failure::new("a range too large for memory"))?;
        let into = self.pool.allocate(len);
        let watch = Arc::new(Watch::new(into.block()));
        let request = GetRequest {
            key: self.key(name)?,
            range,
            if_match: if_match.cloned(),
            object_size: None,
            priority: Priority::Foreground,
        };
        let observer = Arc::clone(&watch);
        Ok(Get {
            handle: self.client.get(request, into, observer),
            watch,
        })
    }

    pub(super) fn get_all(
        &self,
        name: &str,
        range: Range<u64>,
    ) -> Result<(Vec<u8>, GetOutput), Failure> {
        Ok(self.start_get(name, range, None)?.bytes()?)
    }

    /// The object holds these bytes, and HEAD knows their number.
    pub(super) fn holds(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let info = self.head(name)??;
        same("size", info.size, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let (got, output) = self.get_all(name, 0..bytes.len() as u64)?;
        same_bytes(&got, bytes)?;
        ensure(
            output.etag.matches(&info.etag),
            "GET and HEAD name different ETags",
        )
    }

    /// The object is not there.
    pub(super) fn is_gone(&self, name: &str) -> Result<(), Failure> {
        refused(self.head(name)?, &[ErrorKind::NotFound])
    }

    pub(super) fn head(&self, name: &str) -> Result<Result<ObjectInfo, ClientError>, Failure> {
        Ok(wait(self.client.head(&self.key(name)?)))
    }

    pub(super) fn delete(
        &self,
        name: &str,
        if_match: Option<&ETag>,
    ) -> Result<Result<(), ClientError>, Failure> {
        Ok(wait(
            self.client.delete(&self.key(name)?, if_match.cloned()),
        ))
    }

    pub(super) fn copy(
        &self,
        source: &str,
        if_match: Option<&ETag>,
        destination: &str,
        condition: PutCondition,
    ) -> Result<Result<PutOutput, ClientError>, Failure> {
        let source = CopySource {
            key: self.key(source)?,
            if_match: if_match.cloned(),
        };
        Ok(wait(self.client.copy(
            source,
            &self.key(destination)?,
            condition,
            CopyHeaders::Same(ObjectHeaders::default()),
        )))
    }

    pub(super) fn create_upload(&self, name: &str) -> Result<Upload, Failure> {
        let key = self.key(name)?;
        Ok(wait(self.client.create_upload(
            &key,
            ObjectHeaders::default(),
            None,
        ))?)
    }

    pub(super) fn put_part(
        &self,
        upload: &Upload,
        number: u16,
        bytes: impl Into<Bytes>,
    ) -> Result<Part, ClientError> {
        wait(
            self.client
                .put_part(upload, PartNumber(number), bytes.into(), None),
        )
    }

    pub(super) fn complete(
        &self,
        upload: &Upload,
        parts: &[Part],
        condition: PutCondition,
    ) -> Result<PutOutput, ClientError> {
        wait(
            self.client
                .complete_upload(upload, parts.to_vec(), condition),
        )
    }

    /// All pages of the keys below `prefix` in this case, `max_keys` entries at a time.
    pub(super) fn list(
        &self,
        prefix: &str,
        delimiter: Option<&str>,
        max_keys: Option<u16>,
    ) -> Result<Listing, Failure> {
        self.list_all(ListRequest {
            prefix: prefix.to_owned(),
            delimiter: delimiter.map(str::to_owned),
            max_keys,
            ..ListRequest::default()
        })
    }

    /// All pages of a request whose names are relative to this case.
    pub(super) fn list_all(&self, mut request: ListRequest) -> Result<Listing, Failure> {
        request.prefix = format!("{}{}", self.prefix, request.prefix);
        request.start_after = request
            .start_after
            .map(|name| format!("{}{name}", self.prefix));
        let page_max = request.max_keys.map_or(1000, usize::from);
        let mut listing = Listing::default();
        for _ in 0..PAGES_MAX {
            let page = wait(self.client.list(request.clone()))?;
            let entries = page.objects.len() + page.common_prefixes.len();
            ensure(
                entries <= page_max,
                format!("{entries} entries in a page of {page_max}"),
            )?;
            for object in page.objects {
                listing.keys.push(self.relative(object.key.as_str())?);
                listing.objects.push(object);
            }
            for prefix in page.common_prefixes {
                listing.prefixes.push(self.relative(&prefix)?);
            }
            request.continuation_token = page.continuation_token;
            if request.continuation_token.is_none() {
                return Ok(listing);
            }
        }
        Err(Failure::new(format!(
            "a listing of more than {PAGES_MAX} pages"
        )))
    }

    fn relative(&self, name: &str) -> Result<String, Failure> {
        let rest = name.strip_prefix(&self.prefix);
        let rest = rest.ok_or_else(|| Failure::new(format!("{name:?} is not what was asked for")));
        rest.map(str::to_owned)
    }
}

/// Fails with `what` unless `is_so`.
pub(super) fn ensure(is_so: bool, what: impl Into<String>) -> Result<(), Failure> {
    if is_so {
        Ok(())
    } else {
        Err(Failure::new(what))
    }
}

/// Fails unless both are the same.
pub(super) fn same<T: PartialEq + fmt::Debug>(
    what: &str,
    got: T,
    expected: T,
) -> Result<(), Failure> {
    ensure(
        got == expected,
        format!("{what}: {got:?}, expected {expected:?}"),
    )
}

/// Fails unless both are the same, and says where they begin to differ.
pub(super) fn same_bytes(got: &[u8], expected: &[u8]) -> Result<(), Failure> {
    same("bytes", got.len(), expected.len())?;
    let differs = got.iter().zip(expected).position(|(a, b)| a != b);
    ensure(
        differs.is_none(),
        format!("bytes differ from offset {differs:?} on"),
    )
}

/// Fails unless the request failed with one of these.
pub(super) fn refused<T: fmt::Debug>(
    answer: Result<T, ClientError>,
    kinds: &[ErrorKind],
) -> Result<(), Failure> {
    match answer {
        Ok(output) => Err(Failure::new(format!("{output:?} instead of {kinds:?}"))),
        Err(error) if kinds.contains(&error.kind) => Ok(()),
        Err(error) => Err(Failure::new(format!("{error:?} instead of {kinds:?}"))),
    }
}
