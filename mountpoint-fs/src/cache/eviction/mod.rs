//! The room of a cache: what may be stored, and what goes to make room.
//!
//! [`RoomLimits`] say how much goes and [`policy`] which entries; [`Room`] asks the disk and acts,
//! on a thread of its own that gives way to all others. Of all processes that share a directory one
//! at a time counts and evicts; bytes that each stores and removes are summed in
//! [`Usage`](super::storage::Usage). No list of all entries is ever made: they are listed shard by
//! shard.
//!
//! Invariant: nothing is removed that is not an entry of the cache; an entry that is open is
//! served on, as its files stay open.

mod count;
mod evict;
mod ghosts;
mod policy;
mod room;
mod room_limits;

pub(super) use self::evict::Evictor;
pub(crate) use self::evict::RemovedEntries;
pub(crate) use self::room::Room;
pub(super) use self::room_limits::Demand;
pub(crate) use self::room_limits::RoomLimits;

#[cfg(test)]
mod tests;
