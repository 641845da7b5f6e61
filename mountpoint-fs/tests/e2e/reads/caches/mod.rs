//! Caches of contents: on a local disk, and in a bucket that mounts share.

mod disk;
mod disk_room;
mod listings;
mod shared;
