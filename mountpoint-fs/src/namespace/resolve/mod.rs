//! What a name is: what is known of it already, what S3 is asked, and with whom the answer is
//! shared.
//!
//! `strategy` (pure) decides what is asked first, never what is answered. The rest remembers, for a
//! short time, what was asked and heard: absent names, first bytes, listings that answer many
//! lookups.

mod create_intent;
mod first_bytes;
mod lookup_batching;
mod negative;
mod prefix_listing;
mod probe;
#[expect(
    clippy::module_inception,
    reason = "the file does what the folder is for"
)]
mod resolve;
mod single_flight;
mod strategy;

pub(super) use create_intent::CreateIntent;
pub(super) use first_bytes::FirstBytesCache;
pub(super) use lookup_batching::LookupBatching;
pub(super) use negative::{Absence, NegativeCache};
pub(super) use prefix_listing::Subtree;
pub(super) use probe::Answer;
pub(super) use resolve::Gathering;
pub(super) use single_flight::SingleFlight;
pub(super) use strategy::Siblings;
