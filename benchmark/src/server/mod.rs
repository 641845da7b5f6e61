//! The S3 server that a run measures on: the embedded one, or one whose address is given.
//!
//! Either is looked after by a child process. The embedded server runs in it, so that its CPU time
//! can be told from the client's; for a given one it puts the objects there and compares the
//! written ones. [`serve`] is the child: it prints the server's address, answers each line of
//! standard input with a line, and ends with its input, so it never outlives its parent.
//! [`ServerProcess`] is the parent's side.

mod child;
mod given;
mod network;
mod own;
mod process;
mod setup;
mod store;

use mountpoint_client::testing::server::Server;

pub(crate) use child::{Needs, serve};
pub(crate) use process::{ServerProcess, Servers};
pub(crate) use setup::{Access, Requests, Setup};

/// The authority that signed the embedded server's certificate, in PEM form.
pub(crate) const AUTHORITY: &str = Server::AUTHORITY;

/// Sets the counters to zero.
const CLEAR: &str = "clear";
/// Asks for the counters.
const COUNT: &str = "count";
/// Sets how it behaves; the conditions follow.
const BEHAVE: &str = "behave";
/// Compares the written objects with their expected content; the number of the set follows.
const CHECK: &str = "check";
/// Removes the written objects.
const REMOVE: &str = "remove";
