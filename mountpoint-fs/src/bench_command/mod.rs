//! `mount-s3 bench BUCKET[/PREFIX] [DIRECTORY]`: how fast is this bucket from this machine, through
//! the client alone and through a mount, and what bounds it?
//!
//! `objects` finds what can be read, or makes and removes temporary objects. `client` and `mount`
//! measure. Pure: `figures` (what was measured), `verdict` (what bounds it, and which flags would
//! help), `report` (tables). Runs on the main thread of its own process; the
//! mount is a process of its own.

mod arguments;
mod client;
mod figures;
mod machine;
mod mount;
mod objects;
mod report;
mod run;
mod temporary;
mod verdict;

use crate::cli::Helper;

/// The helper command `bench`.
pub const HELPER: Helper = Helper {
    name: "bench",
    command: arguments::command,
    run: run::run,
};
