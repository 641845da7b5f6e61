//! Whether the server encrypts as `--sse` says, found out before anything is stored.
//!
//! A server that ignores the headers stores the object all the same, in the place of the old one,
//! and only its answer tells. So the first request that would store a whole object waits for an
//! upload that is begun and aborted: the answer to the beginning tells as much, and nothing is
//! stored or replaced. Once proven, this costs nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Mutex;

use super::multipart::{create, give_up};
use crate::ClientError;
use crate::crt_client::core::Core;
use crate::types::{Key, ObjectHeaders};

/// What is known of it.
#[derive(Debug, Default)]
pub(in crate::crt_client) struct EncryptionProof {
    is_proven: AtomicBool,
    /// One request asks, and those that come meanwhile wait for its answer.
    turn: Mutex<()>,
}

impl EncryptionProof {
    /// An answer said that an object is encrypted as was asked for.
    pub(in crate::crt_client) fn proven(&self) {
        self.is_proven.store(true, Ordering::Relaxed);
    }

    fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }
}

/// An error if the server does not encrypt as was asked for, or if that cannot be found out. The
/// answer is one for `key`, which stays as it is.
pub(in crate::crt_client) async fn prove_encryption(
    core: &Arc<Core>,
    key: &Key,
) -> Result<(), ClientError> {
    let proof = &core.encryption;
    if !core.headers.asks_for_encryption() || proof.is_proven() {
        return Ok(());
    }
    let _turn = proof.turn.lock().await;
    if !proof.is_proven() {
        // The answer is looked at there, as that of every upload.
        let upload = create(core, key, ObjectHeaders::default(), None).await?;
        give_up(core, &upload).await;
    }
    Ok(())
}
