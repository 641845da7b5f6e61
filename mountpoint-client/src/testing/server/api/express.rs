//! Directory buckets: every bucket whose name ends with `--x-s3`.
//!
//! Sessions, without which such a bucket answers nothing; a listing in no order and by whole
//! directories; RenameObject. Signatures of these buckets' requests are not verified, but their
//! scope, their keys and their session's token are.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::HeaderMap;
use parking_lot::Mutex;
use s3s::dto::{
    CreateSessionInput, CreateSessionOutput, PutObjectInput, PutObjectOutput, SessionCredentials,
    Timestamp,
};
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};

use crate::testing::server::clock;
use crate::testing::server::http::head::{Head, percent_decode};
use crate::testing::server::operation::Operation;
use crate::testing::server::store::buckets::{Store, is_directory_bucket};
use crate::testing::server::store::conditions::WriteConditions;

/// The sessions that a server has opened.
#[derive(Debug)]
pub(crate) struct Sessions {
    lifetime: Duration,
    /// By token. Held for a few instructions.
    open: Mutex<HashMap<String, Session>>,
}

#[derive(Debug)]
struct Session {
    bucket: String,
    access_key: String,
    ends: Instant,
}

impl Sessions {
    /// Most sessions that are kept; then all of them end at once.
    const OPEN_MAX: usize = 1024;

    pub(crate) fn new(lifetime: Duration) -> Self {
        Self {
            lifetime,
            open: Mutex::default(),
        }
    }

    /// Ends every session.
    pub(crate) fn end_all(&self) {
        self.open.lock().clear();
    }

    pub(crate) fn create(
        &self,
        request: S3Request<CreateSessionInput>,
    ) -> S3Result<S3Response<CreateSessionOutput>> {
        let bucket = request.input.bucket;
        if !is_directory_bucket(&bucket) {
            return Err(s3_error!(
                NotImplemented,
                "Only directory buckets have sessions"
            ));
        }
        let number = rand::random::<u64>();
        let (access_key, token) = (
            format!("SESSION{number:016x}"),
            format!("token-{number:016x}"),
        );
        let mut open = self.open.lock();
        if open.len() >= Self::OPEN_MAX {
            open.clear();
        }
        let session = Session {
            bucket,
            access_key: access_key.clone(),
            ends: clock::instant() + self.lifetime,
        };
        open.insert(token.clone(), session);
        drop(open);
        Ok(S3Response::new(CreateSessionOutput {
            credentials: SessionCredentials {
                access_key_id: access_key,
                secret_access_key: format!("secret-{number:016x}"),
                session_token: token,
                expiration: Timestamp::from(clock::now() + self.lifetime),
            },
            bucket_key_enabled: None,
            ssekms_encryption_context: None,
            ssekms_key_id: request.input.ssekms_key_id,
            server_side_encryption: request.input.server_side_encryption,
        }))
    }

    /// Whether the request may reach its bucket.
    pub(crate) fn check(&self, head: &Head, headers: &HeaderMap) -> S3Result<()> {
        if !is_directory_bucket(&head.bucket) || head.operation == Operation::CreateBucket {
            return Ok(());
        }
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let token = text("x-amz-s3session-token");
        let signature = text("authorization").unwrap_or_default();
        if !signature.contains("/s3express/aws4_request") {
            return Err(s3_error!(
                AccessDenied,
                "The signature is not for the service s3express"
            ));
        }
        match (head.operation, token) {
            (Operation::CreateSession, None) => Ok(()),
            (Operation::CreateSession, Some(_)) => {
                Err(s3_error!(AccessDenied, "A session opens no session"))
            }
            (_, None) => Err(s3_error!(AccessDenied, "There is no session token")),
            (_, Some(_)) if text("x-amz-security-token").is_some() => Err(s3_error!(
                AccessDenied,
                "The token of a session is not a security token"
            )),
            (_, Some(token)) => self.check_token(&head.bucket, token, signature),
        }
    }

    fn check_token(&self, bucket: &str, token: &str, signature: &str) -> S3Result<()> {
        let open = self.open.lock();
        let session = open
            .get(token)
            .filter(|session| session.ends > clock::instant() && session.bucket == bucket);
        let Some(session) = session else {
            return Err(expired());
        };
        let keys = format!(" Credential={}/", session.access_key);
        if !signature.contains(&keys) {
            return Err(s3_error!(
                AccessDenied,
                "The signature is not by the session's keys"
            ));
        }
        Ok(())
    }
}

fn expired() -> S3Error {
    let mut error = s3_error!(ExpiredToken, "The session has expired");
    error.set_status_code(hyper::StatusCode::FORBIDDEN);
    error
}

/// Where a name stands in a listing: anywhere, but always there.
pub(crate) fn listing_order(a: &str, b: &str) -> Ordering {
    let place = |name: &str| {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        hasher.finish()
    };
    (place(a), a).cmp(&(place(b), b))
}

/// The key to rename, if the request is a RenameObject in a directory bucket.
pub(crate) fn rename_source(request: &S3Request<PutObjectInput>) -> Option<String> {
    let renames = request
        .uri
        .query()?
        .split('&')
        .any(|name| name.trim_end_matches('=') == "renameObject");
    if !renames || !is_directory_bucket(&request.input.bucket) {
        return None;
    }
    let source = request.headers.get("x-amz-rename-source")?.to_str().ok()?;
    Some(percent_decode(source))
}

impl Store {
    pub(crate) fn rename_object(
        &self,
        source: &str,
        input: PutObjectInput,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let bucket = self.require_bucket(&input.bucket)?;
        let conditions = WriteConditions {
            matches: input.if_match,
            none_match: input.if_none_match,
        };
        let mut objects = bucket.objects.write();
        let object = objects.get(source).cloned();
        let object =
            object.ok_or_else(|| s3_error!(NoSuchKey, "The specified key does not exist."))?;
        let current = objects.get(&*input.key).map(Arc::as_ref);
        conditions.require(current)?;
        objects.remove(source);
        objects.insert(input.key.into(), object);
        Ok(S3Response::new(PutObjectOutput::default()))
    }
}
