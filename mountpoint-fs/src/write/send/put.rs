//! Small files, which one request stores, and new files that another host has made first.
//!
//! `open` with `O_CREAT` and without `O_EXCL` opens an existing file, also one of another host. So
//! a new file without bytes adopts the object that exists when the file is stored. That object does
//! not change, and no later write is taken: it would change an object that this open has not seen.

use bytes::Bytes;
use mountpoint_client::ClientError;
use mountpoint_client::types::{
    Checksum, Key, ObjectHeaders, PutCondition, PutOutput, PutRequest, WriteToken,
};

use super::context::SendContext;
use super::features::Uses;

use crate::mutate::conditions::{Conditional, Proof};
use crate::mutate::own_write::made_by;
use crate::operation::{FsError, PosixAttributes, WriteOptions};
use crate::write::failure::not_made;
use crate::write::types::{Outcome, Stored};

/// The objects of other hosts that may stand for a new file without bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adopts {
    /// None: the open makes the file, or fails.
    #[default]
    Nothing,
    /// An empty one: the open cuts the file to nothing.
    Empty,
    /// Any.
    Any,
}

impl Adopts {
    /// The objects that may stand for a file which an open with `options` makes.
    #[must_use]
    pub fn of(options: WriteOptions) -> Self {
        match options {
            WriteOptions {
                exclusive: true, ..
            } => Self::Nothing,
            WriteOptions { truncate: true, .. } => Self::Empty,
            WriteOptions { .. } => Self::Any,
        }
    }
}

/// Stores a whole object in one request, on a `condition` that is proven if it was not `is_seen`
/// just now that it holds.
pub(in crate::write) async fn put(
    context: &SendContext,
    key: &Key,
    (body, checksum): (Bytes, Option<Checksum>),
    (condition, is_seen): (PutCondition, bool),
    headers: ObjectHeaders,
) -> Result<Stored, FsError> {
    let size = body.len() as u64;
    let headers = headers.with_token();
    let proof = match &condition {
        PutCondition::None => Proof::None,
        PutCondition::Absent if is_seen => Proof::None,
        // Another program may be about to fill an empty file.
        PutCondition::Absent if size == 0 => Proof::Look,
        PutCondition::Absent if size > TRIAL_LEN_MAX => Proof::Look,
        PutCondition::Absent | PutCondition::Match(_) => Proof::Trial,
    };
    let send = |condition| put_on(context, key, (body.clone(), checksum), condition, &headers);
    let (on, wanted) = ((Conditional::Put, key), (&condition, proof));
    let client = &*context.client;
    let sent = context.mutator.conditions().make(client, on, wanted, send);
    let error = match sent.await {
        Ok(PutOutput { etag }) => return Ok(Stored { etag, size }),
        Err(error) => error,
    };
    let made = made_by(client, key, headers.token.as_ref(), &error).await;
    match made.map_err(FsError::from)? {
        Some(there) => Ok(Stored {
            etag: there.etag,
            size,
        }),
        None => Err(not_made(error, &condition, key)),
    }
}

/// Sends a whole object; without its checksum where the server takes none.
async fn put_on(
    context: &SendContext,
    key: &Key,
    (body, checksum): (Bytes, Option<Checksum>),
    condition: PutCondition,
    headers: &ObjectHeaders,
) -> Result<PutOutput, ClientError> {
    let wanted = context.features.reduce(Uses::checksum(checksum));
    let mut uses = wanted;
    loop {
        let request = PutRequest {
            key: key.clone(),
            body: body.clone(),
            condition: condition.clone(),
            checksum: uses.checksum,
            headers: headers.clone(),
        };
        match context.client.put(request).await {
            Ok(output) => {
                context.features.learn(wanted, uses);
                return Ok(output);
            }
            Err(error) => match context.features.without(uses, &error) {
                Some(reduced) => uses = reduced,
                None => return Err(error),
            },
        }
    }
}

/// The object at `key`, if it may stand for the file: another host's, or that of an earlier store
/// of the file, which had the same `token`.
pub(in crate::write) async fn adopt(
    context: &SendContext,
    key: &Key,
    adopts: Adopts,
    token: Option<&WriteToken>,
) -> Result<Outcome, FsError> {
    if adopts == Adopts::Nothing {
        return Err(FsError::Exists);
    }
    // The kind of an object that cannot be read is unknown.
    let there = context.client.head_details(key).await;
    let there = there.map_err(|_| FsError::Exists)?;
    let (etag, size) = (there.info.etag, there.info.size);
    if token.is_some() && there.token.as_ref() == token {
        return Ok(Outcome::Stored(Stored { etag, size }));
    }
    let special = PosixAttributes::of(&there.headers.metadata).special;
    if special.is_some() || (adopts == Adopts::Empty && size > 0) {
        return Err(FsError::Exists);
    }
    tracing::debug!(%key, size, "another host has made the file meanwhile, and nothing was written to it here");
    Ok(Outcome::Adopted(Stored { etag, size }))
}

/// Largest file that is sent once more to see whether the server refuses it then. One round trip,
/// few bytes.
const TRIAL_LEN_MAX: u64 = 128 << 10;
