//! An object that one request makes, on the condition and with the precautions that it needs.

use bytes::Bytes;
use mountpoint_client::types::{Checksum, Key, ObjectHeaders, PutCondition};

use super::context::SendContext;
use super::put::{Adopts, adopt, put};
use crate::operation::FsError;
use crate::write::types::Outcome;

/// An object that one request makes.
pub(in crate::write) struct WholeObject {
    pub(in crate::write) key: Key,
    pub(in crate::write) body: Bytes,
    pub(in crate::write) checksum: Option<Checksum>,
    pub(in crate::write) condition: PutCondition,
    /// Whether S3 was not asked for the key, which probably has no object.
    pub(in crate::write) is_unasked: bool,
    /// The objects of other hosts that may stand for it.
    pub(in crate::write) adopts: Adopts,
    pub(in crate::write) headers: ObjectHeaders,
}

impl WholeObject {
    /// Makes the object, or finds another one that stands for it.
    pub(in crate::write) async fn put(self, context: &SendContext) -> Result<Outcome, FsError> {
        let _sending = context.pressure.sending();
        let Self {
            key,
            body,
            checksum,
            condition,
            is_unasked,
            adopts,
            headers,
        } = self;
        let token = headers.token.clone();
        let on = (condition, !is_unasked);
        match put(context, &key, (body, checksum), on, headers).await {
            Err(FsError::Exists) => adopt(context, &key, adopts, token.as_ref()).await,
            stored => stored.map(Outcome::Stored),
        }
    }
}
