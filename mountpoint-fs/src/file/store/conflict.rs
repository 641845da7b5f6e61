//! The end of a file whose object another client has changed since it was opened.
//!
//! A store never replaces a version that it is not based on. If that is refused, the user's policy
//! decides: the file may be stored beside the object, or replace it after all. Both need all bytes
//! of the file; bytes of a base that is gone, and that are not local, are lost for them.

use std::sync::Arc;
use std::time::SystemTime;

use mountpoint_client::types::Key;
use mountpoint_client::{ClientError, ErrorKind};
use time::OffsetDateTime;

use super::recognise::{self, Recognised};
use super::request::StoreRequest;
use super::store_file::store;
use crate::config::ConflictPolicy;
use crate::file::context::StagingContext;
use crate::mutate::conditions::look;
use crate::operation::FsError;
use crate::write::{Adopts, CheckpointFound, Outcome, Replaced, Stored};

/// The outcome of a store under the user's policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::file) enum Resolved {
    /// The bucket has the version under the file's own key.
    Stored {
        version: Stored,
        /// This store has sent it: it was not found there.
        is_sent: bool,
    },
    /// The bucket has an earlier version of this number, whose store was not known to be done: the
    /// file is based on that.
    Sent(Stored, u64),
    /// The bucket has a later version of the file, which a process before has stored.
    Superseded(Stored),
    /// Another host's object stands for the file.
    Adopted,
    /// The object was left alone, and the bucket has the file under this key, in this version.
    Beside(Key, Stored),
}

/// Whether a store failed because another client changed the object.
pub(in crate::file) fn is_conflict(error: &FsError) -> bool {
    matches!(
        error,
        FsError::Exists | FsError::Stale(_) | FsError::NotFound
    )
}

/// Stores the file, by the user's policy if another client changed the object meanwhile.
pub(in crate::file) async fn resolve(
    context: &Arc<StagingContext>,
    request: &StoreRequest,
) -> Result<Resolved, FsError> {
    if let Some(found) = find_completed(context, request).await? {
        return Ok(found);
    }
    let error = match store(context, request).await {
        Ok(Outcome::Stored(version)) => {
            return Ok(Resolved::Stored {
                version,
                is_sent: true,
            });
        }
        Ok(Outcome::Adopted(_)) => return Ok(Resolved::Adopted),
        Err(error) => error,
    };
    if !is_conflict(&error) {
        return Err(error);
    }
    if let Some(found) = recognise(context, request).await? {
        return Ok(found);
    }
    if !is_borne_out(context, request).await? {
        return Err(contradicted(request, &error));
    }
    match context.config.on_conflict {
        ConflictPolicy::Fail => Err(error),
        // There is nothing beside a directory's marker.
        ConflictPolicy::KeepBoth if request.key.is_marker() => Err(error),
        ConflictPolicy::KeepBoth => store_beside(context, request).await,
        ConflictPolicy::Overwrite => overwrite(context, request, error).await,
    }
}

/// Whether the bucket shows another client's change: a gateway, or a server that repeats a request,
/// may refuse a condition that holds.
async fn is_borne_out(
    context: &Arc<StagingContext>,
    request: &StoreRequest,
) -> Result<bool, FsError> {
    let client = &**context.writing.client();
    match look(client, &request.key, &request.replaced.condition()).await {
        Ok(()) => Ok(false),
        Err(error) => match error.kind {
            // What may be neither looked at nor listed is believed.
            ErrorKind::PreconditionFailed | ErrorKind::NotFound | ErrorKind::Denied => Ok(true),
            _ => Err(error.into()),
        },
    }
}

/// The failure of a store whose condition the server refused although it holds. The store is tried
/// again as behind any refusal.
fn contradicted(request: &StoreRequest, refusal: &FsError) -> FsError {
    let what = format!(
        "the server contradicts itself: it refuses the upload of {} ({refusal}), and the bucket has what was \
         asked for",
        request.key
    );
    FsError::Client(ClientError::new(ErrorKind::InvalidResponse, what))
}

/// The object of an upload that an attempt before had begun, and that is gone: its completion was
/// done, and was not noted.
async fn find_completed(
    context: &Arc<StagingContext>,
    request: &StoreRequest,
) -> Result<Option<Resolved>, FsError> {
    if request.early.is_some() {
        // The upload is this process's own, and in progress.
        return Ok(None);
    }
    match context.writing.confirm(&request.checkpoint).await? {
        CheckpointFound::Nothing | CheckpointFound::Continues => Ok(None),
        CheckpointFound::Gone => recognise(context, request).await,
    }
}

/// Whether the object is this file's own.
async fn recognise(
    context: &Arc<StagingContext>,
    request: &StoreRequest,
) -> Result<Option<Resolved>, FsError> {
    match recognise::recognise(context, request).await? {
        None => Ok(None),
        Some((version, Recognised::Whole)) => Ok(Some(Resolved::Stored {
            version,
            is_sent: false,
        })),
        Some((there, Recognised::Earlier(number))) => Ok(Some(Resolved::Sent(there, number))),
        Some((there, Recognised::Later)) => Ok(Some(Resolved::Superseded(there))),
    }
}

/// Stores the file as `KEY.conflict-HOST-TIME`, or in the place of such a copy that it has made.
async fn store_beside(
    context: &Arc<StagingContext>,
    request: &StoreRequest,
) -> Result<Resolved, FsError> {
    let (key, replaced) = match &request.beside {
        Some((key, version)) => (key.clone(), Replaced::Version(version.etag.clone())),
        None => {
            let now = context.clock.wall();
            let key = conflict_key(&request.key, &context.config.host, now)?;
            (key, Replaced::Nothing)
        }
    };
    let beside = StoreRequest {
        key: key.clone(),
        replaced,
        adopts: Adopts::Nothing,
        early: None,
        grows: None,
        ..request.clone()
    };
    let Outcome::Stored(version) = store(context, &beside).await? else {
        return Ok(Resolved::Adopted);
    };
    tracing::warn!(
        key = %request.key,
        "another client changed the file since it was opened here: its version is left alone, and the one of this \
         host is stored as {key}"
    );
    Ok(Resolved::Beside(key, version))
}

/// Replaces the version that is there now. Other clients may change the object once more.
async fn overwrite(
    context: &Arc<StagingContext>,
    request: &StoreRequest,
    first: FsError,
) -> Result<Resolved, FsError> {
    let mut last = first;
    for _ in 0..OVERWRITES_MAX {
        let replaced = match context.writing.client().head(&request.key).await {
            Ok(there) => Replaced::Version(there.etag),
            Err(error) if error.kind == ErrorKind::NotFound => Replaced::Nothing,
            Err(error) => return Err(error.into()),
        };
        let request = StoreRequest {
            replaced: replaced.clone(),
            adopts: Adopts::Nothing,
            early: None,
            grows: None,
            ..request.clone()
        };
        match store(context, &request).await {
            Ok(Outcome::Stored(version)) => {
                tracing::warn!(
                    key = %request.key, ?replaced,
                    "another client changed the file since it was opened here: its version was replaced"
                );
                return Ok(Resolved::Stored {
                    version,
                    is_sent: true,
                });
            }
            Ok(Outcome::Adopted(_)) => return Ok(Resolved::Adopted),
            Err(error) if is_conflict(&error) => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// The key of a version beside the object: the name is cut where S3 or Linux take no longer one.
fn conflict_key(key: &Key, host: &str, now: SystemTime) -> Result<Key, FsError> {
    let now = OffsetDateTime::from(now);
    let time = format!(
        "{:04}{:02}{:02}T{:02}{:02}{:02}.{:03}Z",
        now.year(),
        u8::from(now.month()),
        now.day(),
        now.hour(),
        now.minute(),
        now.second(),
        now.millisecond()
    );
    let is_plain = |byte: &char| byte.is_ascii_alphanumeric() || ['-', '.', '_'].contains(byte);
    let host: String = host.chars().filter(is_plain).take(HOST_LEN_MAX).collect();
    let suffix = format!(".conflict-{host}-{time}");
    let text = key.as_str();
    let (directory, name) = match text.rfind('/') {
        Some(slash) => text.split_at(slash + 1),
        None => ("", text),
    };
    let room = NAME_LEN_MAX.min(KEY_LEN_MAX.saturating_sub(directory.len()));
    let mut len = name.len().min(room.saturating_sub(suffix.len()));
    while !name.is_char_boundary(len) {
        len -= 1;
    }
    let name = format!("{directory}{}{suffix}", &name[..len]);
    Key::parse(&name).ok_or(FsError::NameTooLong)
}

/// How often the version that is there is replaced, if other clients keep changing it.
const OVERWRITES_MAX: usize = 3;

/// Characters of the host in a name: those of a label in a host name.
const HOST_LEN_MAX: usize = 63;

/// Linux takes no longer names.
const NAME_LEN_MAX: usize = 255;

/// S3 takes no longer keys.
const KEY_LEN_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn conflicting_names_say_whose_they_are_and_fit() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        let name = |key: &str, host: &str| {
            let key = Key::parse(key).unwrap();
            conflict_key(&key, host, now).unwrap().to_string()
        };
        let suffix = ".conflict-web-1-20231114T221320.123Z";
        assert_eq!(name("a/b.txt", "web-1"), format!("a/b.txt{suffix}"));
        assert_eq!(name("b", "w/e b-1\n"), format!("b{suffix}"));
        let long = name(&format!("a/{}", "é".repeat(127)), "web-1");
        assert!(long.len() <= 2 + 255 && long.ends_with(suffix), "{long}");
        let deep = format!("{}/{}", "d".repeat(980), "n".repeat(40));
        assert_eq!(name(&deep, "web-1").len(), 1024);
    }
}
