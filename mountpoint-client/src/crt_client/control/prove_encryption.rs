//! Whether the server encrypts as `--sse` says, found out before anything is stored.
//!
//! A server that ignores the headers stores the object all the same, in the place of the old one,
//! and only its answer tells. So the first request that would store a whole object waits for an
//! upload that is begun and aborted: the answer to the beginning tells as much, and nothing is
//! stored or replaced. Once proven, this costs nothing.

use std::sync::Arc;

use super::multipart::{create, give_up};
use crate::ClientError;
use crate::crt_client::core::Core;
use crate::types::{Key, ObjectHeaders};

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
    let _turn = proof.turn().await;
    if !proof.is_proven() {
        // The answer is looked at there, as that of every upload.
        let upload = create(core, key, ObjectHeaders::default(), None).await?;
        give_up(core, &upload).await;
    }
    Ok(())
}
