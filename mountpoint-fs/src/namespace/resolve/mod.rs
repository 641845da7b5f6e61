//! Resolution of names: which requests a lookup sends, and how lookups share answers.
//!
//! `strategy` (pure) chooses the requests and never makes an answer; [`Resolver`] sends them. The
//! other files keep results for a short time: first bytes of files, and LISTs that answer many
//! lookups.

mod first_bytes;
mod lookup_batching;
mod prefix_listing;
mod probe;
mod resolver;
pub(super) mod strategy;

#[cfg(test)]
pub(crate) use first_bytes::FIRST_BYTES_FAILED_AGE;
pub(super) use lookup_batching::Gathering;
pub(super) use prefix_listing::{Below, Subtree};
pub(super) use probe::Answer;
#[cfg(test)]
pub(crate) use probe::FIRST_BYTES_LEN;
pub(super) use resolver::{LastKnown, Resolver};
#[cfg(test)]
pub(crate) use strategy::BATCH_LOOKUPS;
