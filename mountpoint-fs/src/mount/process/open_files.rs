//! The limit of open files, which bounds connections.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files as far as this process may.
///
/// Most systems begin with 1,024 for programs that use `select`, which is less than the connections
/// that fill 100 Gbit/s, and allow 524,288.
pub(in crate::mount) fn raise_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        let wanted = hard.min(OPEN_FILES_MAX);
        if soft < wanted {
            setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)?;
        }
        Ok(soft.max(wanted))
    });
    match raised {
        Ok(limit) => tracing::debug!(limit, "limit of open files"),
        Err(error) => tracing::warn!(%error, "the limit of open files stays as it is"),
    }
}

/// More than all connections of eight interfaces.
///
/// Some systems allow a thousand million, and some libraries walk all descriptors.
const OPEN_FILES_MAX: u64 = 65_536;
