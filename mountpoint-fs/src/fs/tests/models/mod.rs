//! Random operations against models, and many threads.

mod concurrent;
mod names;
mod schedules;
mod sharing;
mod simulation;
mod threads;

use super::*;

/// Whether the closing process has other descriptors of the file.
fn other_descriptors() -> proptest::sample::Select<OtherDescriptors> {
    proptest::sample::select(vec![
        OtherDescriptors::Held,
        OtherDescriptors::None,
        OtherDescriptors::Unknown,
    ])
}
