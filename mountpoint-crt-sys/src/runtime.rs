//! The process-wide part of the CRT.

use crate::CrtError;

/// Settings of the [`Runtime`].
#[derive(Clone, Debug, Default)]
pub struct RuntimeOptions {
    /// Event loop threads. None: half the cores, at least 1.
    pub event_loop_threads: Option<u16>,
}

/// Event loops, resolver and bootstrap. Cheap to clone.
/// When the last clone and the last client are gone, everything is released and joined.
#[derive(Clone, Debug)]
pub struct Runtime {}

impl Runtime {
    /// Starts the library (once in the process) and a group of event loops.
    pub fn new(options: &RuntimeOptions) -> Result<Self, CrtError> {
        let _ = options;
        unimplemented!()
    }
}
