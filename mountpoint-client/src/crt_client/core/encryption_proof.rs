//! The memory whether the server has proven that it encrypts as `--sse` demands.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Mutex, MutexGuard};

/// The proof, and the turn of the request that asks for it.
#[derive(Debug, Default)]
pub(in crate::crt_client) struct EncryptionProof {
    is_proven: AtomicBool,
    /// One request asks the server; later requests wait for the answer.
    turn: Mutex<()>,
}

impl EncryptionProof {
    /// An answer said that an object is encrypted as was asked for.
    pub(in crate::crt_client) fn proven(&self) {
        self.is_proven.store(true, Ordering::Relaxed);
    }

    pub(in crate::crt_client) fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }

    /// The turn to ask the server.
    pub(in crate::crt_client) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }
}
