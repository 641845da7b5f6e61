//! What signals do to a mount's process: none leaves a mount behind that nobody serves.

use std::ffi::c_int;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM,
    SIGXCPU, SIGXFSZ,
};
use signal_hook::flag;

/// Signals that unmount and end. `SIGXCPU` comes before a limit of processor time kills.
pub(in crate::mount) const ENDING: [c_int; 5] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU];

/// Has the signals do nothing that would end a process without a handler, but for [`ENDING`] and
/// those of faults. The log gives two of them a meaning.
///
/// Handlers rather than `SIG_IGN`: helper programs that this process starts inherit that.
pub(in crate::mount) fn outlive_signals() -> io::Result<()> {
    let named = [
        SIGUSR1,
        SIGUSR2,
        SIGALRM,
        SIGVTALRM,
        SIGPROF,
        SIGIO,
        SIGXFSZ,
        libc::SIGPWR,
        libc::SIGSTKFLT,
    ];
    for signal in named.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX()) {
        flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}
