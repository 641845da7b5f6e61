//! `mount-s3 warm BUCKET/PREFIX --cache DIR`: objects in the cache of a mount before it reads them.
//!
//! `sources` finds the objects, `filler` fetches what the cache lacks of them, `tally` counts, and
//! `progress` shows that. Pure: `patterns`, `bandwidth`, `rate`. Knows neither the format of the
//! cache nor how a listing is cut.

mod arguments;
mod bandwidth;
mod filler;
mod patterns;
mod progress;
mod rate;
mod run;
mod sources;
mod tally;

pub use run::run;
