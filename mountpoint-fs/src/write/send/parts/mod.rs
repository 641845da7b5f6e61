//! The parts of uploads: how long each is, and how many are in flight at once.

pub(in crate::write) mod part_sizes;
pub(in crate::write) mod parts_in_flight;
