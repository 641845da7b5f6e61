//! Credentials: where they come from, and one cache of them for both the SDK and the CRT.
//!
//! Knows no request. Never prints a secret.

mod cache;
mod chain;
mod endpoint_files;
mod error_text;
mod mode;
mod profile_files;
mod region;
mod renewal;
mod source;

pub use cache::CredentialsCache;
pub(crate) use chain::{ChainOptions, credentials_cache};
pub use endpoint_files::EndpointSettings;
pub(crate) use error_text::chain_text;
pub use mode::{CredentialsMode, StaticKeys};
#[cfg(any(test, fuzzing))]
pub(crate) use profile_files::problem;
pub(crate) use region::find_region;
