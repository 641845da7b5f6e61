//! Who holds how much memory.

mod budget;

pub use budget::{Budget, Purpose, Reservation, Reserve, Shortage};
