//! The room of a cache: what may be stored, and what goes to make room.
//!
//! [`policy`] decides; [`Room`] asks the disk and acts, on a thread of its own that gives way to
//! all others. Of all processes that share a directory one at a time counts and evicts; what each
//! stores and removes, they add up in [`Usage`](super::storage::Usage). No list of all entries is
//! ever made: they are listed shard by shard.
//!
//! Invariant: nothing is removed that is not an entry of the cache; an entry that is open is
//! served on, as its files stay open.

mod count;
mod evict;
mod ghosts;
mod policy;
mod room;

pub(super) use self::evict::Evictor;
pub(super) use self::policy::Demand;
pub(crate) use self::policy::RoomLimits;
pub(crate) use self::room::Room;

#[cfg(test)]
mod tests;
