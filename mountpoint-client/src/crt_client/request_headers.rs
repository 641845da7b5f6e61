//! Headers that the mount's settings put on requests: user agent, payer, bucket owner, encryption
//! key.
//!
//! One table for both ways to S3. Knows the operations' names and nothing else of a request.

use std::fmt;

use aws_sdk_s3::config::interceptors::BeforeTransmitInterceptorContextMut;
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::Metadata;

use super::encryption::{ServerSideEncryption, SseCustomerKey};
use super::options::CrtClientOptions;
use crate::endpoint::Endpoint;
use crate::{ClientError, ErrorKind};

/// Headers of each operation that the settings ask for.
#[derive(Clone)]
pub(super) struct RequestHeaders {
    user_agent: String,
    requester_pays: bool,
    expected_bucket_owner: Option<String>,
    sse: Option<ServerSideEncryption>,
    sse_customer_key: Option<SseCustomerKey>,
    keeps_encryption: bool,
}

type Header = (&'static str, String);

impl RequestHeaders {
    pub(super) fn new(options: &CrtClientOptions) -> Self {
        Self {
            user_agent: options.user_agent.clone(),
            requester_pays: options.requester_pays,
            expected_bucket_owner: options.expected_bucket_owner.clone(),
            sse: options.sse.clone(),
            sse_customer_key: options.sse_customer_key.clone(),
            // The objects of a directory bucket are encrypted as the bucket says.
            keeps_encryption: options.sse.is_none()
                && options.sse_customer_key.is_none()
                && !options.is_directory_bucket(),
        }
    }

    /// The headers of a client without such settings.
    pub(super) fn plain(options: &CrtClientOptions) -> Self {
        Self {
            user_agent: options.user_agent.clone(),
            requester_pays: false,
            expected_bucket_owner: None,
            sse: None,
            sse_customer_key: None,
            keeps_encryption: false,
        }
    }

    /// The headers that settings ask for, unless the bucket or the endpoint cannot take them.
    pub(super) fn checked(
        options: &CrtClientOptions,
        endpoint: &Endpoint,
    ) -> Result<Self, ClientError> {
        let refuse = |what: &str| {
            let what = format!("bucket {}: {what}", options.bucket);
            Err(ClientError::new(ErrorKind::InvalidRequest, what))
        };
        let is_express = endpoint.signing_service == "s3express";
        if is_express && options.sse_customer_key.is_some() {
            return refuse("directory buckets know no keys of customers (SSE-C)");
        }
        if is_express && matches!(options.sse, Some(ServerSideEncryption::KmsDsse { .. })) {
            return refuse("directory buckets know --sse AES256 and aws:kms only");
        }
        if options.sse_customer_key.is_some() && !endpoint.is_private() {
            return refuse(
                "an SSE-C key travels with each request: the endpoint must be https:// for that",
            );
        }
        let is_open = endpoint.origin.starts_with("http://");
        let proxy = options.proxy.for_url(&endpoint.origin);
        if options.sse_customer_key.is_some() && is_open && proxy.is_some() {
            return refuse(
                "an SSE-C key travels with each request, and the proxy would read it: \
                 the endpoint must be https:// or in no_proxy for that",
            );
        }
        Ok(Self::new(options))
    }

    /// The headers of an operation, called by S3's name of it.
    pub(super) fn of(&self, operation: &str) -> Vec<Header> {
        let mut headers = Vec::new();
        let is_copy = matches!(operation, "CopyObject" | "UploadPartCopy");
        if self.requester_pays {
            headers.push(("x-amz-request-payer", "requester".to_owned()));
        }
        if let Some(owner) = &self.expected_bucket_owner {
            headers.push(("x-amz-expected-bucket-owner", owner.clone()));
            if is_copy {
                headers.push(("x-amz-source-expected-bucket-owner", owner.clone()));
            }
        }
        // A customer's key is instead of S3's, not besides it.
        if let Some(key) = &self.sse_customer_key {
            if takes_customer_key(operation) {
                headers.extend(customer_key(CUSTOMER_KEY, key));
            }
            if is_copy {
                headers.extend(customer_key(COPY_SOURCE_CUSTOMER_KEY, key));
            }
        } else if let Some(sse) = &self.sse
            && begins_an_object(operation)
        {
            headers.push(("x-amz-server-side-encryption", sse.algorithm().to_owned()));
            if let Some(key_id) = sse.key_id() {
                let name = "x-amz-server-side-encryption-aws-kms-key-id";
                headers.push((name, key_id.to_owned()));
            }
        }
        headers
    }
}

impl RequestHeaders {
    /// Whether a new version of an object keeps the encryption that the object had: no setting says
    /// another one.
    pub(super) fn keeps_encryption(&self) -> bool {
        self.keeps_encryption
    }

    /// Whether S3 is to encrypt with a key of its own or of KMS.
    pub(super) fn asks_for_encryption(&self) -> bool {
        self.sse.is_some() && self.sse_customer_key.is_none()
    }

    /// An error if the answer reports another encryption than the request asked for. A server that
    /// ignores the headers stores the object in its own way.
    pub(super) fn check_encryption(
        &self,
        algorithm: Option<&str>,
        key_id: Option<&str>,
    ) -> Result<(), String> {
        let Some(sse) = self
            .sse
            .as_ref()
            .filter(|_| self.sse_customer_key.is_none())
        else {
            return Ok(());
        };
        let found = algorithm.unwrap_or("no encryption");
        if found != sse.algorithm() {
            let asked = sse.algorithm();
            return Err(format!(
                "{asked} was asked for, but the server answers {found}"
            ));
        }
        // An alias is answered by the key that it stands for.
        match sse.key_id().filter(|asked| asked.contains(":key/")) {
            Some(asked) if key_id != Some(asked) => Err(format!(
                "the key {asked} was asked for, but the server answers {}",
                key_id.unwrap_or("no key")
            )),
            _ => Ok(()),
        }
    }
}

/// Whether the request decides how an object is encrypted.
fn begins_an_object(operation: &str) -> bool {
    matches!(
        operation,
        "PutObject" | "CreateMultipartUpload" | "CopyObject"
    )
}

/// Whether the request reads or writes an object's bytes, or tells of them.
fn takes_customer_key(operation: &str) -> bool {
    begins_an_object(operation)
        || matches!(
            operation,
            "GetObject"
                | "HeadObject"
                | "UploadPart"
                | "UploadPartCopy"
                | "CompleteMultipartUpload"
                | "ListParts"
        )
}

fn customer_key(names: [&'static str; 3], key: &SseCustomerKey) -> [Header; 3] {
    let [algorithm, value, md5] = names;
    [
        (algorithm, "AES256".to_owned()),
        (value, key.base64()),
        (md5, key.md5_base64()),
    ]
}

const CUSTOMER_KEY: [&str; 3] = [
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-server-side-encryption-customer-key",
    "x-amz-server-side-encryption-customer-key-MD5",
];
const COPY_SOURCE_CUSTOMER_KEY: [&str; 3] = [
    "x-amz-copy-source-server-side-encryption-customer-algorithm",
    "x-amz-copy-source-server-side-encryption-customer-key",
    "x-amz-copy-source-server-side-encryption-customer-key-MD5",
];

/// Never the key.
impl fmt::Debug for RequestHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestHeaders")
    }
}

/// For the SDK: before it signs.
impl Intercept for RequestHeaders {
    fn name(&self) -> &'static str {
        "RequestHeaders"
    }

    fn modify_before_signing(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let operation = config.load::<Metadata>().map_or("", Metadata::name);
        let request = context.request_mut();
        // Some servers, and proxies before them, want a length of nothing, too: they answer 411.
        let has_length = request.headers().contains_key(CONTENT_LENGTH);
        let is_empty = request.body().content_length() == Some(0);
        let takes_body = matches!(request.method(), "PUT" | "POST");
        let headers = request.headers_mut();
        if takes_body && is_empty && !has_length {
            headers.try_insert(CONTENT_LENGTH, "0")?;
        }
        for (name, value) in self.of(operation) {
            headers.try_insert(name, value)?;
        }
        Ok(())
    }

    /// The user agent is not signed, and the SDK's own name for itself stays behind ours.
    fn modify_before_transmit(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let headers = context.request_mut().headers_mut();
        let sdk = headers.get(USER_AGENT).unwrap_or_default();
        let user_agent = format!("{} {sdk}", self.user_agent);
        headers.try_insert(USER_AGENT, user_agent)?;
        Ok(())
    }
}

const USER_AGENT: &str = "user-agent";
const CONTENT_LENGTH: &str = "content-length";

#[cfg(test)]
mod tests {
    use super::*;

    /// Names without what all of them begin with.
    fn names(headers: &[Header]) -> String {
        let short = |name: &str| {
            name.replace("x-amz-", "")
                .replace("server-side-encryption", "sse")
        };
        headers
            .iter()
            .map(|(name, _)| short(name))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[track_caller]
    fn check(change: fn(&mut CrtClientOptions), operation: &str, expected: &str) {
        let mut options = CrtClientOptions::new("b");
        change(&mut options);
        let headers = RequestHeaders::new(&options).of(operation);
        assert_eq!(names(&headers), expected, "{operation}");
    }

    #[test]
    fn each_operation_carries_what_concerns_it() {
        let none: fn(&mut CrtClientOptions) = |_| {};
        let account: fn(&mut CrtClientOptions) = |options| {
            options.requester_pays = true;
            options.expected_bucket_owner = Some("123456789012".to_owned());
        };
        let kms: fn(&mut CrtClientOptions) = |options| {
            let key_id = Some("arn:aws:kms:eu-west-1:1:key/k".to_owned());
            options.sse = Some(ServerSideEncryption::KmsDsse { key_id });
        };
        let s3: fn(&mut CrtClientOptions) = |options| {
            options.sse = Some(ServerSideEncryption::Aes256);
        };
        let customer: fn(&mut CrtClientOptions) = |options| {
            options.sse_customer_key = Some(SseCustomerKey::new([7; 32]));
        };
        let key = "sse-customer-algorithm sse-customer-key sse-customer-key-MD5";
        let source = "copy-source-sse-customer-algorithm copy-source-sse-customer-key copy-source-sse-customer-key-MD5";
        check(none, "PutObject", "");
        for operation in ["GetObject", "ListObjectsV2", "DeleteObjects", "HeadBucket"] {
            check(account, operation, "request-payer expected-bucket-owner");
            check(kms, operation, "");
        }
        let both = "request-payer expected-bucket-owner source-expected-bucket-owner";
        check(account, "CopyObject", both);
        check(account, "UploadPartCopy", both);
        for operation in ["PutObject", "CreateMultipartUpload", "CopyObject"] {
            check(kms, operation, "sse sse-aws-kms-key-id");
            check(s3, operation, "sse");
        }
        check(kms, "UploadPart", "");
        for operation in [
            "GetObject",
            "HeadObject",
            "PutObject",
            "UploadPart",
            "ListParts",
        ] {
            check(customer, operation, key);
        }
        for operation in ["CopyObject", "UploadPartCopy"] {
            check(customer, operation, &format!("{key} {source}"));
        }
        for operation in ["ListObjectsV2", "DeleteObject", "RenameObject"] {
            check(customer, operation, "");
        }
    }

    #[test]
    fn another_encryption_than_asked_for_is_noticed() {
        let key = "arn:aws:kms:eu-west-1:1:key/k";
        let alias = "arn:aws:kms:eu-west-1:1:alias/a";
        let kms = |key_id: Option<&str>| {
            let key_id = key_id.map(str::to_owned);
            Some(ServerSideEncryption::Kms { key_id })
        };
        for (sse, algorithm, key_id, wrong) in [
            (None, None, None, None),
            (None, Some("aws:kms"), Some(key), None),
            (
                Some(ServerSideEncryption::Aes256),
                Some("AES256"),
                None,
                None,
            ),
            (
                Some(ServerSideEncryption::Aes256),
                None,
                None,
                Some("answers no encryption"),
            ),
            (kms(Some(key)), Some("aws:kms"), Some(key), None),
            (kms(None), Some("aws:kms"), Some(key), None),
            (kms(Some(alias)), Some("aws:kms"), Some(key), None),
            (kms(Some(key)), Some("AES256"), None, Some("answers AES256")),
            (
                kms(Some(key)),
                Some("aws:kms:dsse"),
                Some(key),
                Some("answers aws:kms:dsse"),
            ),
            (
                kms(Some(key)),
                Some("aws:kms"),
                None,
                Some("answers no key"),
            ),
            (
                kms(Some(key)),
                Some("aws:kms"),
                Some("other"),
                Some("answers other"),
            ),
        ] {
            let mut options = CrtClientOptions::new("b");
            options.sse = sse;
            let found = RequestHeaders::new(&options).check_encryption(algorithm, key_id);
            match wrong {
                None => assert_eq!(found, Ok(()), "{options:?}"),
                Some(wrong) => assert!(found.unwrap_err().ends_with(wrong), "{options:?}"),
            }
        }
    }

    #[test]
    fn a_customer_key_is_sent_in_base64_and_never_shown() {
        let mut options = CrtClientOptions::new("b");
        options.sse_customer_key = Some(SseCustomerKey::new(*b"01234567890123456789012345678901"));
        let headers = RequestHeaders::new(&options);
        let values: Vec<_> = headers
            .of("GetObject")
            .into_iter()
            .map(|(_, value)| value)
            .collect();
        let key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
        assert_eq!(values, ["AES256", key, "KYvwGXoFFJ42a2u2GDWhwQ=="]);
        let shown = format!("{options:?} {headers:?}");
        assert!(
            !shown.contains("MDEy") && !shown.contains("48, 49") && !shown.contains("0123"),
            "{shown}"
        );
    }
}
