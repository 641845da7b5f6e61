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

#[cfg(test)]
mod tests {
    use mountpoint_client::ErrorKind;
    use mountpoint_client::testing::sim::{Content, Operation, SimObject};
    use mountpoint_client::types::ObjectHeaders;

    use super::*;
    use crate::write::Beginning;
    use crate::write::tests::{Bench, now, write};

    /// A change of a new file before it is stored.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Done {
        Nothing,
        Touched,
        Described,
        Written,
        Lengthened,
    }

    /// Stores a new file where another host's object has the bytes `theirs` by then.
    #[track_caller]
    fn check(adopts: Adopts, done: Done, theirs: &'static str, is_adopted: bool) {
        for beginning in [Beginning::New, Beginning::NewUnasked] {
            let case = format!("{adopts:?} {done:?} {theirs:?} {beginning:?}");
            let bench = Bench::immediate();
            let writer = bench.writer(beginning);
            writer.may_adopt(adopts);
            let metadata = |metadata: &[(&str, &str)]| {
                let owned =
                    |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
                metadata.iter().map(owned).collect()
            };
            let described = match done {
                Done::Touched => metadata(&[("mtime", "7.5"), ("ctime", "7.5")]),
                Done::Described => metadata(&[("mtime", "7"), ("ctime", "7.5")]),
                Done::Nothing | Done::Written | Done::Lengthened => Vec::new(),
            };
            let change = |headers: &mut ObjectHeaders| {
                headers.metadata = described;
                Ok(())
            };
            assert!(now(writer.change_metadata(change)).unwrap());
            match done {
                Done::Written => write(&writer, 0, b"mine").unwrap(),
                Done::Lengthened => now(writer.set_len(9)).unwrap(),
                Done::Nothing | Done::Touched | Done::Described => {}
            }
            let there = bench.client.put_object("key", theirs);
            let stored = now(writer.store());
            if is_adopted {
                let (etag, size) = (there.etag, theirs.len() as u64);
                let expected = Stored { etag, size };
                assert_eq!(stored.unwrap(), expected, "{case}");
                assert_eq!(now(writer.finish()).unwrap(), expected, "{case}");
                assert_eq!(bench.told(), ["adopted"], "{case}");
                assert!(!now(writer.is_open()), "{case}");
            } else {
                assert!(matches!(stored, Err(FsError::Exists)), "{case}: {stored:?}");
                assert_eq!(bench.told(), ["failed"], "{case}");
            }
            assert_eq!(bench.content().unwrap(), theirs.as_bytes(), "{case}");
        }
    }

    #[test]
    fn what_another_host_has_made_stands_for_a_file_that_nothing_was_written_to() {
        use Done::{Described, Lengthened, Nothing, Touched, Written};
        check(Adopts::Any, Nothing, "theirs", true);
        check(Adopts::Any, Nothing, "", true);
        check(Adopts::Any, Touched, "theirs", true);
        check(Adopts::Any, Described, "theirs", false);
        check(Adopts::Any, Written, "theirs", false);
        check(Adopts::Any, Written, "", false);
        check(Adopts::Any, Lengthened, "theirs", false);
        check(Adopts::Empty, Nothing, "", true);
        check(Adopts::Empty, Nothing, "theirs", false);
        check(Adopts::Nothing, Nothing, "", false);
        check(Adopts::Nothing, Nothing, "theirs", false);
    }

    /// An object that this mount may not read may be a symbolic link as well.
    #[test]
    fn what_is_no_file_or_cannot_be_looked_at_stands_for_none() {
        let link = ObjectHeaders {
            metadata: vec![("mode".to_owned(), "41471".to_owned())],
            ..ObjectHeaders::default()
        };
        for (headers, denied) in [(link, 0), (ObjectHeaders::default(), 1)] {
            let bench = Bench::immediate();
            let writer = bench.writer(Beginning::New);
            writer.may_adopt(Adopts::Any);
            bench.client.insert(SimObject {
                headers,
                ..SimObject::new(writer.key().clone(), Content::bytes("theirs"))
            });
            let kind = ErrorKind::Denied;
            bench.client.fail_next(Operation::HeadObject, denied, kind);
            assert!(matches!(now(writer.store()), Err(FsError::Exists)));
        }
    }
}
