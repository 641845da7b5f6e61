//! Questions of `mount-s3 staged` to the mount that uses a staging directory, and its answers.
//!
//! A socket in the directory, which only its owner can reach: one line with the request, one line
//! of JSON as the answer. The journal itself is of the mount alone as long as it lives.
//!
//! The socket answers from the moment at which all that an earlier mount has left is known. Until
//! then a client finds the directory in use and no answer, and waits.

mod client;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod messages;
mod server;

pub(crate) use client::ask;
pub(crate) use messages::{ControlRequest, PendingReport, PendingRow};
pub(super) use messages::{DamagedFiles, pending_id, text_of};
pub(super) use server::ControlServer;
