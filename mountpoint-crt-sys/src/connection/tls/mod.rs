//! TLS between a socket of the C library and HTTP.

mod buffer;
pub(crate) mod client;
mod deadline;
pub(crate) mod failure;
mod record;
mod session;
pub(crate) mod wire;
