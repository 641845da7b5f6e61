//! Memory accounting.

mod budget;

pub use budget::{Budget, Purpose, Reservation, Reserve, Shortage};
