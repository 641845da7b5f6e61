//! The proof that the server encrypts as `--sse` demands, before the first store.
//!
//! A server that ignores the headers stores the object unencrypted, in the place of the old one,
//! and only its answer shows that. So the first store of a whole object waits for an upload that is
//! begun and aborted: its first answer shows the encryption, and no object is stored or replaced.
//! After the proof no further request is sent.

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
