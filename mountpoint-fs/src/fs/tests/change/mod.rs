//! Changes of names: removals, new directories, and the outcome of failures.

mod ambiguous_outcomes;
mod fault_matrix;
mod linking;
mod other_servers;
mod removing;

use super::*;
