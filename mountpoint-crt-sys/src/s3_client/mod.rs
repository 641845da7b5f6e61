//! The CRT's S3 client, and Mountpoint's changes inside it.

pub(crate) mod client;
pub(crate) mod hook;
pub(crate) mod idle_connections;
pub(crate) mod retry;
