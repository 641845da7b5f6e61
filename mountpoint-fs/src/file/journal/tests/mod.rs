//! The journal over a simulated disk, and a killed one on a real disk.

mod crash;
mod damage;
mod group;
mod kill;
mod schedules;
