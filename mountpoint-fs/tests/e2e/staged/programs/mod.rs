//! What doc/PROGRAMS.md says of programs on staged files.

mod data;
mod git_over_http;
mod in_place;
mod killed;

use super::{Staged, mount, staged, stored};
