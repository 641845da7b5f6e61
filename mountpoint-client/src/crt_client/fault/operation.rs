//! An operation of S3, as messages name it.

use super::hint;
use crate::types::Key;
use crate::{ClientError, ErrorKind};

/// One operation on one object or bucket.
#[derive(Clone, Debug)]
pub(in crate::crt_client) struct Operation {
    /// S3's name of it: `GetObject`, …
    pub(in crate::crt_client) name: &'static str,
    /// `s3://bucket/key`.
    pub(in crate::crt_client) target: String,
    /// Where the request goes.
    origin: String,
    /// Region that the request is signed for.
    pub(super) region: String,
}

impl Operation {
    pub(in crate::crt_client) fn on_key(name: &'static str, bucket: &str, key: &Key) -> Self {
        Self::on(name, format!("s3://{bucket}/{key}"))
    }

    pub(in crate::crt_client) fn on_bucket(name: &'static str, bucket: &str) -> Self {
        Self::on(name, format!("s3://{bucket}"))
    }

    fn on(name: &'static str, target: String) -> Self {
        Self {
            name,
            target,
            origin: String::new(),
            region: String::new(),
        }
    }

    pub(in crate::crt_client) fn at(mut self, origin: &str, region: &str) -> Self {
        origin.clone_into(&mut self.origin);
        region.clone_into(&mut self.region);
        self
    }

    /// Whether S3 says more than yes in the body of its answer.
    pub(in crate::crt_client) fn is_answered_with_body(&self) -> bool {
        !matches!(
            self.name,
            "HeadBucket"
                | "HeadObject"
                | "PutObject"
                | "UploadPart"
                | "DeleteObject"
                | "AbortMultipartUpload"
                | "RenameObject"
        )
    }

    /// No connection can be made.
    pub(in crate::crt_client) fn unreachable(&self, why: &str) -> ClientError {
        let hint = hint::for_unreachable(why);
        let what = format!("cannot reach {}: {why}; {hint}", self.origin);
        self.error(ErrorKind::Unreachable, &what)
    }

    /// An error of this operation with no HTTP answer behind it.
    pub(in crate::crt_client) fn error(&self, kind: ErrorKind, what: &str) -> ClientError {
        ClientError::new(kind, format!("{} {}: {what}", self.name, self.target))
    }
}
