//! What a name is: what is known of it already, what S3 is asked, and with whom the answer is
//! shared.
//!
//! `strategy` (pure) decides what is asked, never what is answered. The rest remembers, for a
//! short time, what was asked and heard: absent names, first bytes, listings that answer many
//! lookups.

mod first_bytes;
mod lookup_batching;
mod negative;
mod prefix_listing;
pub(super) mod probe;
mod single_flight;
pub(super) mod strategy;

pub(super) use first_bytes::FirstBytesCache;
pub(super) use lookup_batching::{Gathering, LookupBatching};
pub(super) use negative::{Absence, NegativeCache};
pub(super) use prefix_listing::Subtree;
pub(super) use probe::Answer;
pub(super) use single_flight::SingleFlight;
