//! Faults of servers and networks, and processes that are killed.

mod faults;
mod gateways;
mod kills;
mod kills_of_renames;
mod outages;
mod renaming_faults;
mod signals;
mod writing_faults;
