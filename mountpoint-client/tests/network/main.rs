//! How the client reaches S3 and comes by its credentials, over real sockets of this machine.
//!
//! The environment belongs to the process, so whatever depends on it happens in a child process ([`child`]), which is
//! this program again.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attempts;
mod bucket;
mod chain;
mod child;
mod expiry;
mod interfaces;
mod metadata;
mod proxies;
mod proxy_server;
mod services;
mod sso;
mod stub;
mod tls;
mod ways;
