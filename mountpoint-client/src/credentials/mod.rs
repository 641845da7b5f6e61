//! Credentials: where they come from, and one cache of them for both the SDK and the CRT.
//!
//! Knows no request. Never prints a secret.

mod cache;
mod chain;
mod endpoint_files;
mod mode;
mod region;
mod renewal;
mod source;

pub use cache::CredentialsCache;
pub(crate) use cache::chain_text;
pub(crate) use chain::{ChainOptions, credentials_cache};
pub use endpoint_files::EndpointSettings;
pub use mode::{CredentialsMode, StaticKeys};
pub(crate) use region::find_region;
