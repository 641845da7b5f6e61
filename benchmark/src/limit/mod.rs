//! The limits of the parts alone: the kernel's side with no store behind it, the client with no
//! kernel before it.
//!
//! Each is a process of its own, as every system under test, so that its CPU time and memory are
//! counted apart.

mod client;
mod fuse;

pub(crate) use client::{ClientLimit, Found, run as run_client, takes as client_takes};
pub(crate) use fuse::{FuseLimit, run as run_fuse};
