//! The client's ways to S3 and to its credentials, over real sockets of this machine.
//!
//! The environment belongs to the process, so tests that depend on it run in a child process
//! ([`support::child`]), which is this program again.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attempts;
mod credentials;
mod interfaces;
mod proxies;
mod support;
mod tls;
