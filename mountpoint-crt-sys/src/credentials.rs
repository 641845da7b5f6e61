//! Credentials that the CRT signs with, asked from Rust whenever it signs.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// One set of keys.
#[derive(Clone)]
pub struct Credentials {
    pub access_key_id: String,
    pub secret_access_key: String,
    pub session_token: Option<String>,
    pub expires: Option<SystemTime>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}

/// Asked by the CRT whenever it signs. May answer at once or later, on any thread; must not block.
/// The CRT caches nothing: the source does.
pub trait CredentialsSource: Send + Sync {
    /// Answers through `reply`.
    fn fetch(&self, reply: CredentialsReply);
}

/// The way to answer. Dropped unanswered it answers with an error.
#[derive(Debug)]
pub struct CredentialsReply {}

impl CredentialsReply {
    /// Answers. The text of an error is logged; the request fails with [`crate::ErrorKind::Credentials`].
    pub fn send(self, answer: Result<Credentials, String>) {
        let _ = answer;
        unimplemented!()
    }
}

/// How requests are signed.
#[derive(Clone)]
pub enum Signing {
    /// Not at all.
    Unsigned,
    /// AWS Signature Version 4.
    SigV4 {
        region: String,
        /// "s3" or "s3express".
        service: String,
        source: Arc<dyn CredentialsSource>,
    },
}

impl fmt::Debug for Signing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned => f.write_str("Unsigned"),
            Self::SigV4 {
                region, service, ..
            } => write!(f, "SigV4({region}, {service})"),
        }
    }
}
