//! Everyday programs on a mount.

mod data_programs;
mod more_programs;
mod programs;
mod staged_programs;
mod tools;
