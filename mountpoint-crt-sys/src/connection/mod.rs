//! Connections of a client: endpoint, TLS, proxy, sockets, and the bounds of what they read.

pub(crate) mod body_stream;
pub(crate) mod endpoint;
pub(crate) mod head_limit;
mod message;
#[cfg(test)]
pub(crate) mod moved;
pub(crate) mod proxy;
pub(crate) mod proxy_tls;
pub(crate) mod socket;
pub(crate) mod socket_handler;
pub(crate) mod socket_table;
pub(crate) mod tls;
