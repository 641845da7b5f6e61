//! Everything that touches the C library, and every `unsafe` block of the workspace.
//!
//! Wraps the AWS Common Runtime, whose sources and raw bindings come from the registry crate
//! `mountpoint-s3-crt-sys`, in the few safe types that Mountpoint needs. Knows nothing of S3's meaning or of files.

#![expect(unsafe_code, reason = "this crate is the workspace's one place for it")]

pub mod block;
mod client;
mod credentials;
mod error;
pub mod fuse_device;
pub mod process;
mod request;
mod runtime;

pub use client::{Client, ClientOptions, TlsOptions};
pub use credentials::{Credentials, CredentialsReply, CredentialsSource, Signing};
pub use error::{CrtError, ErrorKind};
pub use request::{
    Cancel, Failure, GetHandler, Message, RangedGet, Refused, Response, ResponseHead, SendHandler,
};
pub use runtime::{Runtime, RuntimeOptions};
