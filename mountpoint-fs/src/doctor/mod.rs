//! `mount-s3 doctor [BUCKET [DIRECTORY]]`: can this machine mount this bucket, and with which
//! flags?
//!
//! Each area of checks is a file with facts and a pure `judge` from facts to findings; `machine`
//! and `server` gather the facts, from files under `/proc` and `/sys` and by requests that change
//! nothing. `write_trial` writes, if that is asked for. `recommendation` makes the command line.
//! Resolves flags as a mount does, but mounts nothing.
//!
//! Invariant: without `--check-writes` no request that writes is ever sent; every step has a time
//! limit, and the whole has one (`limits::DOCTOR_*`). Runs on the main thread of its own process.

mod abilities;
mod arguments;
mod bucket;
mod clock;
mod credentials;
mod error_text;
mod finding;
mod kernel;
mod machine;
mod memory;
mod mount_point;
mod mounting;
mod network;
mod object;
mod process_limits;
mod recommendation;
mod report;
mod run;
mod server;
mod write_checks;
mod write_trial;

pub use run::run;
