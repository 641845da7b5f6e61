//! Changes of names: removing, making directories, and what becomes of them on failures.

mod ambiguous_outcomes;
mod fault_matrix;
mod other_servers;
mod removing;

use super::*;
