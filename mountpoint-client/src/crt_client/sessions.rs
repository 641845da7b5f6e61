//! Sessions of a directory bucket: their keys sign every request, of the CRT and of the SDK.
//!
//! One cache holds one session for both and renews it before it expires, as it does with other
//! keys. An opener asks S3 for a session, signing with the user's own keys. The reason of a failure
//! is kept for the requests that could not be signed.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as ProvideCredentialsFuture;
use aws_credential_types::provider::{ProvideCredentials, Result as ProviderResult};
use aws_sdk_s3::config::Region;
use aws_sdk_s3::types::ServerSideEncryption as SdkEncryption;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::encryption::ServerSideEncryption;
use super::options::CrtClientOptions;
use super::request_headers::RequestHeaders;
use super::request_log::AttemptLog;
use super::sdk::sdk_config;
use crate::credentials::{CredentialsCache, chain_text};
use crate::crt_client::fault::of_sdk;
use crate::crt_client::fault::{Fault, Operation};
use crate::endpoint::{Endpoint, EndpointQuestion};
use crate::{ClientError, ErrorKind};

/// The sessions of one bucket.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    credentials: CredentialsCache,
    failure: Failure,
}

/// Why the last attempt to open a session failed; none if it succeeded. Held for a few
/// instructions.
type Failure = Arc<Mutex<Option<Fault>>>;

impl Sessions {
    /// No session is opened before the first request.
    pub(super) fn new(opener: Opener, runtime: Handle) -> Self {
        let failure = Arc::clone(&opener.failure);
        let keys = opener.keys.clone();
        Self {
            credentials: CredentialsCache::of_sessions(opener, keys, runtime),
            failure,
        }
    }

    /// The keys of a session that is open, whenever asked.
    pub(super) fn credentials(&self) -> CredentialsCache {
        self.credentials.clone()
    }

    /// The fault, or why there is no session if it says that there are no keys to sign with.
    pub(super) fn explain(&self, fault: Fault) -> Fault {
        let is_unsigned =
            fault.error.kind == ErrorKind::Credentials && fault.error.status.is_none();
        let reason = is_unsigned.then(|| self.failure.lock().clone()).flatten();
        reason.unwrap_or(fault)
    }

    /// A session is open, or the reason why there is none.
    pub(super) async fn ensure(&self, operation: &Operation) -> Result<(), Fault> {
        let opened = self.credentials.provide_credentials().await;
        let unsigned = |error: CredentialsError| {
            let error = operation.error(ErrorKind::Credentials, &chain_text(&error));
            Fault::from(error)
        };
        opened.map(drop).map_err(unsigned)
    }
}

/// Opens sessions.
pub(super) struct Opener {
    /// Signs with the user's keys.
    sdk: aws_sdk_s3::Client,
    keys: CredentialsCache,
    bucket: String,
    operation: Operation,
    sse: Option<ServerSideEncryption>,
    failure: Failure,
}

impl Opener {
    pub(super) async fn new(
        options: &CrtClientOptions,
        http: SharedHttpClient,
        region: &Region,
        keys: CredentialsCache,
    ) -> Result<Self, ClientError> {
        let question = EndpointQuestion {
            sessions: false,
            ..options.endpoint_question(region.as_ref())
        };
        let endpoint = Endpoint::resolve(&question).await?;
        let attempts = AttemptLog::new(&options.bucket, &endpoint);
        let config = sdk_config(
            http,
            region.clone(),
            &endpoint,
            attempts,
            Some(keys.clone()),
        )
        .interceptor(RequestHeaders::plain(options));
        let operation = Operation::on_bucket("CreateSession", &options.bucket);
        Ok(Self {
            sdk: aws_sdk_s3::Client::from_conf(config.build()),
            keys,
            bucket: options.bucket.clone(),
            operation: operation.at(&endpoint.origin, &endpoint.signing_region),
            sse: options.sse.clone(),
            failure: Failure::default(),
        })
    }

    async fn open(&self) -> ProviderResult {
        let generation = self.keys.generation();
        let mut opened = self.attempt().await;
        if opened.as_ref().is_err_and(|fault| fault.expired) {
            self.keys.invalidate(generation);
            opened = self.attempt().await;
        }
        let (answer, failure) = match opened {
            Ok(credentials) => (Ok(credentials), None),
            Err(fault) => {
                let error = CredentialsError::provider_error(fault.error.clone());
                (Err(error), Some(fault))
            }
        };
        *self.failure.lock() = failure;
        answer
    }

    /// Asks once. A request that hangs is given up, so that the requests that wait for the session
    /// come to their retries.
    async fn attempt(&self) -> Result<Credentials, Fault> {
        let opened = tokio::time::timeout(ATTEMPT_MAX, self.request()).await;
        opened.unwrap_or_else(|_| {
            let what = format!("no answer within {} s", ATTEMPT_MAX.as_secs());
            Err(self.operation.error(ErrorKind::Transient, &what).into())
        })
    }

    async fn request(&self) -> Result<Credentials, Fault> {
        let algorithm = self.sse.as_ref().map(ServerSideEncryption::algorithm);
        let key_id = self.sse.as_ref().and_then(ServerSideEncryption::key_id);
        let call = self
            .sdk
            .create_session()
            .bucket(&self.bucket)
            .set_server_side_encryption(algorithm.map(SdkEncryption::from))
            .set_ssekms_key_id(key_id.map(str::to_owned));
        let output = call.send().await;
        let output = output.map_err(|error| of_sdk(&self.operation, &error))?;
        let invalid = |what| Fault::from(self.operation.error(ErrorKind::InvalidResponse, what));
        let session = output
            .credentials()
            .ok_or_else(|| invalid("the answer has no credentials"))?;
        let expiry = SystemTime::try_from(*session.expiration())
            .map_err(|_| invalid("the session's expiration is not a possible time"))?;
        let token = Some(session.session_token().to_owned()).filter(|token| !token.is_empty());
        Ok(Credentials::new(
            session.access_key_id(),
            session.secret_access_key(),
            Some(token.ok_or_else(|| invalid("the session has no token"))?),
            Some(expiry),
            "s3express",
        ))
    }
}

impl ProvideCredentials for Opener {
    fn provide_credentials<'a>(&'a self) -> ProvideCredentialsFuture<'a>
    where
        Self: 'a,
    {
        ProvideCredentialsFuture::new(self.open())
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener")
            .field("bucket", &self.bucket)
            .finish_non_exhaustive()
    }
}

/// S3 answers within milliseconds. Two of these fit into what a look-up of keys may take.
const ATTEMPT_MAX: Duration = Duration::from_secs(5);
