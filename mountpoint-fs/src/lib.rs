//! Mountpoint: an S3 bucket as a local directory.
//!
//! Layers, each importing only those below it: helper commands ([`doctor`], [`bench_command`],
//! [`indexer`], [`cache_command`], [`staged_command`], [`stats_command`], [`warmer`]) → process
//! ([`mount`], [`cli`]) → kernel ([`fuse`]) → operations ([`fs`]) → names ([`namespace`]) and open
//! files ([`handle`]) → written files ([`file`]) → data ([`read`], [`write`], [`mutate`]) →
//! resources ([`memory`], [`index`], [`cache`], `journal`) → leaves ([`operation`], [`config`],
//! [`clock`], [`sync`], [`executor`]).

#![cfg_attr(
    any(test, fuzzing),
    expect(
        clippy::unwrap_used,
        reason = "a fuzz target panics if it finds a fault"
    )
)]

pub mod bench_command;
pub mod cache;
pub mod cache_command;
pub mod cli;
pub mod clock;
pub mod config;
mod disk_threads;
pub mod doctor;
pub mod executor;
pub mod file;
pub mod fs;
pub mod fuse;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod handle;
pub mod index;
pub mod indexer;
mod journal;
mod local_disk;
pub mod memory;
pub mod metrics;
pub mod mount;
pub mod mutate;
pub mod namespace;
pub mod operation;
pub mod read;
pub mod staged_command;
pub mod stats_command;
mod store_distance;
pub mod sync;
mod unix_connect;
pub mod warmer;
pub mod write;
