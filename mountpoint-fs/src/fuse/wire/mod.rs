//! FUSE messages as bytes: requests parsed, replies encoded, for protocol 7.26 to 7.45.
//!
//! Pure: no descriptor, no file system, no errno. Integers are in the machine's byte order, as the
//! kernel sends them. A message that cannot be understood is a value, never a panic.

mod abi;
mod directory;
mod fields;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod mutation;
mod notice;
mod reply;
mod request;
#[cfg(test)]
mod tests;
mod time;

pub(super) use abi::init_flags;
pub(super) use directory::DirectoryBuffer;
pub(super) use mutation::{AllocateRequest, CopyRangeRequest, Mutation};
pub(super) use notice::{forget_attributes, forget_name, forget_pages};
pub(super) use reply::{Fixed, InitReply, OUT_HEADER_LEN, ReplyHeader, open_flags_of};
pub(super) use request::{Header, InitRequest, Malformed, Operation, Request, Unsupported};
pub(super) use time::kept_for;
