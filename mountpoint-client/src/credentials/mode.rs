//! Which credentials a client is told to use.

use std::fmt;

/// Where credentials come from.
#[derive(Clone, Debug)]
pub enum CredentialsMode {
    /// The chain of the AWS SDKs: environment, profile files, web identity, container, instance
    /// metadata.
    Default {
        /// Only this profile, instead of the whole chain.
        profile: Option<String>,
    },
    /// Requests are not signed.
    Unsigned,
    /// These keys.
    Static(StaticKeys),
}

/// Keys given by the caller. They are not renewed.
#[derive(Clone)]
pub struct StaticKeys {
    /// Public half.
    pub access_key_id: String,
    /// Secret half.
    pub secret_access_key: String,
    /// Token of temporary credentials.
    pub session_token: Option<String>,
}

impl fmt::Debug for StaticKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticKeys")
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}
