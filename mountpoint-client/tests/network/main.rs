//! How the client reaches S3 and comes by its credentials, over real sockets of this machine.
//!
//! The environment belongs to the process, so whatever depends on it happens in a child process ([`support::child`]), which is
//! this program again.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attempts;
mod credentials;
mod interfaces;
mod proxies;
mod support;
mod tls;
