//! Everything that touches the C library, and every `unsafe` block of the workspace.
//!
//! Wraps the AWS Common Runtime, whose sources and raw bindings come from the registry crate
//! `mountpoint-s3-crt-sys`, in the few safe types that Mountpoint needs. Knows nothing of S3's meaning or of files.

#![expect(unsafe_code, reason = "this crate is the workspace's one place for it")]

pub mod block;
