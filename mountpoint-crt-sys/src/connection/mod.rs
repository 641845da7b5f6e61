//! Connections of a client: endpoint, TLS, proxy, sockets, and the bounds of what they read.

pub(crate) mod body_stream;
pub(crate) mod endpoint;
pub(crate) mod head_limit;
pub(crate) mod proxy;
pub(crate) mod socket;
pub(crate) mod tls;
