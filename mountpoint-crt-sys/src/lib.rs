//! Everything that touches the C library, and every `unsafe` block of the workspace.
//!
//! Wraps the AWS Common Runtime, whose sources and raw bindings come from the registry crate
//! `mountpoint-s3-crt-sys`, in the few safe types that Mountpoint needs. Knows nothing of S3's meaning or of files.

#![expect(unsafe_code, reason = "this crate is the workspace's one place for it")]

mod allocator;
pub mod block;
mod body_stream;
mod buffer_pool;
mod client;
mod credentials;
mod endpoint;
mod error;
mod exchange;
mod express;
mod ffi;
pub mod fuse_device;
pub mod fuse_ring;
mod get;
mod head_limit;
mod hook;
mod http;
mod kept;
mod log;
pub mod process;
mod proxy;
mod request;
mod retry;
mod runtime;
mod send;
mod signing;
mod socket;
mod tls;

#[cfg(test)]
mod tests;

pub use client::{Client, ClientOptions};
pub use credentials::{Credentials, CredentialsReply, CredentialsSource};
pub use error::{CrtError, ErrorKind};
pub use exchange::Cancel;
pub use proxy::ProxyOptions;
pub use request::{
    Failure, GetHandler, Message, RangedGet, Refused, Response, ResponseHead, SendHandler,
};
pub use runtime::{Runtime, RuntimeOptions};
pub use signing::Signing;
pub use tls::TlsOptions;
