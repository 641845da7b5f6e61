//! The journal over a simulated disk, and its policy in virtual time.

mod crash;
mod damage;
mod group;
mod kill;
mod policy;
