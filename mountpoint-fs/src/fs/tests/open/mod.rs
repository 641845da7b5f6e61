//! Opening files and reading them: versions, proofs, prefetch.

mod copying;
mod lost;
mod opening;
mod sibling_prefetch;

use super::*;
