//! Everything that touches the C library, and every `unsafe` block of the workspace.
//!
//! Wraps the AWS Common Runtime, whose sources and raw bindings come from the registry crate
//! `mountpoint-s3-crt-sys`, in the few safe types that Mountpoint needs. Knows nothing of S3's
//! meaning or of files.

#![expect(unsafe_code, reason = "this crate is the workspace's one place for it")]

mod allocator;
mod auth;
pub mod block;
mod c_string;
mod connection;
mod error;
mod ffi;
pub mod fuse_device;
mod log;
pub mod process;
mod request;
mod runtime;
mod s3_client;

#[cfg(test)]
mod tests;

pub use auth::credentials::{Credentials, CredentialsReply, CredentialsSource};
pub use auth::signing::Signing;
pub use connection::proxy::ProxyOptions;
pub use connection::tls::client::TlsOptions;
pub use error::{CrtError, ErrorKind};
pub use request::exchange::Cancel;
pub use request::header_text::{bytes_of_text, text_of_bytes};
pub use request::types::{
    Failure, GetHandler, Message, RangedGet, Refused, Response, ResponseHead, SendHandler,
};
pub use runtime::{Runtime, RuntimeOptions};
pub use s3_client::client::{Client, ClientOptions};
