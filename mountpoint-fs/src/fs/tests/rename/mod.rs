//! Renames of files and directories, with everything that may happen meanwhile.

mod changes_during_rename;
mod changes_in_flight;
mod claims;
mod directories;
mod faults;
mod files;
mod meanwhile;
mod reads_during_rename;
mod waiting;

use super::*;
