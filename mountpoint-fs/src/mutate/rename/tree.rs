//! Renaming a directory: every object below its prefix.
//!
//! All objects are copied first. Then the copied ones are deleted, except those that a second
//! listing shows in another version; an object that vanished before its copy is not deleted. After
//! the first failure no request is sent, and those in flight are awaited: no effect of a rename
//! follows its end. So every object has at least one of its names at any time.
//!
//! The journal records a rename with its token, which all its copies carry: only an equal rename
//! may resume it, skips the copies of it, and takes no other object below the new name for one. A
//! bucket that can rename moves each object by itself: then only those go on that existed when it
//! began.

use std::collections::HashMap;
use std::time::SystemTime;

use bytes::Bytes;
use mountpoint_client::types::{
    Key, ListRequest, ObjectHeaders, ObjectInfo, PutCondition, PutRequest, WriteToken,
};
use mountpoint_client::{ClientError, ErrorKind, PageCycle};

use super::super::Mutator;
use super::super::copy::copies_nothing;
use super::super::directory::Content;
use super::super::fault::{LIST, PUT, failed, repeats};
use super::super::parallel::in_parallel;
use super::moves::{EarlierAttempt, Move, Moves, version_number};
use super::object::{Target, renaming_failed};
use super::progress::Progress;
use crate::config::limits::{COPIES_IN_FLIGHT_MAX, DELETE_KEYS_MAX, LIST_PAGE_KEYS};
use crate::operation::{FsError, Stop};

impl Mutator {
    /// Moves all objects below the prefix `from` to the prefix `to`. Both end with `/`.
    ///
    /// [`FsError::NotEmpty`] if an object below `to` cannot be left from an earlier attempt;
    /// [`FsError::Interrupted`] if `stop` was asked for before the end: then none of its requests
    /// is in flight.
    pub async fn rename_directory(&self, from: &str, to: &str, stop: &Stop) -> Result<(), FsError> {
        if !self.allow_rename && self.content(from).await? != Content::Nothing {
            // A directory is moved name by name, which takes time: the flag makes users expect
            // that.
            let marker = Key::parse(from).ok_or(FsError::NameTooLong)?;
            self.permit_copy(&marker)?;
        }
        let (sources, there) = (self.keys(from).await?, self.keys(to).await?);
        let newest = sources.iter().map(|source| source.last_modified).max();
        let now = self.clock.wall();
        // A copy tells by itself what it is a copy of.
        let moved = match self.client.appends() {
            true => newest,
            false => newest.map(|_| SystemTime::UNIX_EPOCH),
        };
        let begun = self.journal.is_renaming(from, to, moved, now).await;
        let earlier = match &begun {
            Some(token) => self.earlier_attempt(&there, (to, token), stop).await?,
            None => EarlierAttempt::default(),
        };
        let was_begun = begun.is_some();
        let token = begun.unwrap_or_else(WriteToken::random);
        let places = (from, to);
        let mut moves = Moves::plan(sources, there, places, &earlier)?;
        tracing::info!(
            from,
            to,
            objects = moves.all.len(),
            copied = moves.copied(),
            "renaming a directory"
        );
        let can_rename = match moves.all.first() {
            Some(first) if !first.is_copied => {
                // Only the journal knows which objects the rename has moved or copied.
                let newest = newest.unwrap_or(first.source.last_modified);
                let times = (newest, now);
                self.journal.renaming(places, &token, times).await;
                self.rename_first((from, to, was_begun), first).await?
            }
            _ => false,
        };
        let mut progress = Progress::new(self.clock.clone(), from, moves.all.len(), stop);
        if can_rename {
            moves.all.remove(0);
            self.rename_each(&moves, &mut progress).await?;
        } else {
            self.copy_each(&mut moves, &token, &mut progress).await?;
            self.delete_each(&moves, &mut progress).await?;
        }
        self.journal.renamed(from, to).await;
        Ok(())
    }

    /// The objects among `there` that an earlier attempt, whose `token` they carry, has left.
    async fn earlier_attempt(
        &self,
        there: &[ObjectInfo],
        (to, token): (&str, &WriteToken),
        stop: &Stop,
    ) -> Result<EarlierAttempt, FsError> {
        // Only directory buckets rename and append.
        if self.client.appends() {
            return Ok(EarlierAttempt {
                has_moved: true,
                ..EarlierAttempt::default()
            });
        }
        let keys = there.iter().map(|object| &object.key);
        let keys: Vec<&Key> = keys.filter(|key| key.as_str() != to).collect();
        let mut copies = HashMap::new();
        let look = |index: usize| {
            let key = keys[index];
            async move {
                match self.client.head_details(key).await {
                    Ok(there) => Ok((key, there.token.and_then(|it| it.number_in(token)))),
                    Err(error) if error.kind == ErrorKind::NotFound => Ok((key, None)),
                    Err(error) => Err(failed(error, "s3:GetObject")),
                }
            }
        };
        let found = |(key, number): (&Key, Option<u64>)| {
            copies.extend(number.map(|number| (key.clone(), number)));
        };
        let all = 0..keys.len();
        match in_parallel(COPIES_IN_FLIGHT_MAX, all, stop, look, found).await? {
            true => Ok(EarlierAttempt {
                copies,
                has_moved: false,
            }),
            false => Err(FsError::Interrupted),
        }
    }

    /// Renames the first object, if the bucket can rename; `false` otherwise. A journal entry
    /// without a moved object is removed.
    async fn rename_first(
        &self,
        (from, to, was_begun): (&str, &str, bool),
        first: &Move,
    ) -> Result<bool, FsError> {
        let is_renamed = self.try_native(first).await;
        // A failed rename may have been done, unless the server refused it.
        let has_failed = matches!(&is_renamed, Err(error) if is_refusal(error));
        if !was_begun && has_failed {
            self.journal.renamed(from, to).await;
        }
        match is_renamed {
            Err(error) if error.kind == ErrorKind::NotFound => {
                self.require_gone(first).await?;
                Ok(true)
            }
            is_renamed => is_renamed.map_err(renaming_failed),
        }
    }

    /// Whether the bucket can rename; if so, the first object is renamed.
    async fn try_native(&self, first: &Move) -> Result<bool, ClientError> {
        let renamed = self
            .client
            .rename(&first.source.key, &first.to, PutCondition::None);
        match renamed.await {
            Ok(()) => Ok(true),
            Err(error) if error.kind == ErrorKind::Unsupported => Ok(false),
            Err(error) => {
                let seen = (&first.source.key, &first.source.etag);
                match self.was_renamed(&error, seen, &first.to).await? {
                    true => Ok(true),
                    false => Err(error),
                }
            }
        }
    }

    async fn rename_each(&self, moves: &Moves, progress: &mut Progress<'_>) -> Result<(), FsError> {
        let (all, stop) = (&moves.all, progress.stop);
        let rename = |index: usize| self.rename_one(&all[index]);
        let done = |()| progress.step("renamed");
        let renamed = in_parallel(COPIES_IN_FLIGHT_MAX, 0..all.len(), stop, rename, done).await;
        progress.end(renamed)
    }

    async fn rename_one(&self, one: &Move) -> Result<(), FsError> {
        let seen = (&one.source.key, &one.source.etag);
        let (to, never) = (&one.to, Stop::never());
        match self.rename(seen, to, &Target::Any, &never).await {
            Ok(_) => Ok(()),
            Err(FsError::NotFound) => self.require_gone(one).await,
            Err(error) => Err(error),
        }
    }

    /// Checks that another client has removed an object that the rename missed.
    ///
    /// An object that still exists must not be reported as a missing directory.
    async fn require_gone(&self, one: &Move) -> Result<(), FsError> {
        match self.deleter.is_gone(&one.source.key).await? {
            true => Ok(()),
            false => Err(FsError::Busy(format!(
                "{} exists, but the rename of its directory did not find it: try again",
                one.source.key
            ))),
        }
    }

    async fn copy_each(
        &self,
        moves: &mut Moves,
        token: &WriteToken,
        progress: &mut Progress<'_>,
    ) -> Result<(), FsError> {
        let (all, stop) = (&moves.all, progress.stop);
        let rest: Vec<usize> = (0..all.len())
            .filter(|index| !all[*index].is_copied)
            .collect();
        let mut copied = Vec::new();
        let copy = |index: usize| async move {
            let is_copied = self.copy_one(&all[index], token, stop).await?;
            Ok((index, is_copied))
        };
        let done = |outcome| {
            copied.push(outcome);
            progress.step("copied");
        };
        let outcome = in_parallel(COPIES_IN_FLIGHT_MAX, rest, stop, copy, done).await;
        for (index, is_copied) in copied {
            moves.all[index].is_copied = is_copied;
        }
        progress.end(outcome)
    }

    /// Copies one object. `false` if another client has removed it.
    async fn copy_one(&self, one: &Move, token: &WriteToken, stop: &Stop) -> Result<bool, FsError> {
        let token = Some(token.numbered(version_number(&one.source)));
        let replaced = || {
            let key = &one.source.key;
            Err(FsError::Busy(format!(
                "{key} was replaced while its directory was renamed"
            )))
        };
        if is_bare_marker(&one.source) {
            let headers = ObjectHeaders {
                token,
                ..ObjectHeaders::default()
            };
            return self.put_marker(&one.to, headers).await;
        }
        // A listing does not show the headers that the server does not copy by itself: encryption
        // and redirection.
        let mut source = match self.client.head_details(&one.source.key).await {
            Ok(source) if source.info.etag.matches(&one.source.etag) => source,
            Ok(_) => return replaced(),
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error, "s3:GetObject")),
        };
        source.headers.token = token;
        let copied = self.copy(&source, &one.to, PutCondition::None, stop).await;
        match copied {
            Ok(_) => Ok(true),
            Err(FsError::NotFound) => Ok(false),
            Err(FsError::Stale(_)) => replaced(),
            // Some servers do not copy their own directories.
            Err(FsError::Client(error)) if is_marker(&one.source) && copies_nothing(&error) => {
                self.put_marker(&one.to, source.headers).await
            }
            Err(error) => Err(error),
        }
    }

    /// Stores the marker of a directory that the server does not copy.
    async fn put_marker(&self, key: &Key, headers: ObjectHeaders) -> Result<bool, FsError> {
        let made = self.client.put(PutRequest {
            key: key.clone(),
            body: Bytes::new(),
            condition: PutCondition::None,
            checksum: None,
            headers: headers.with_token(),
        });
        made.await.map(|_| true).map_err(|error| failed(error, PUT))
    }

    /// Deletes the sources that were copied. Objects that were replaced or made meanwhile stay: a
    /// last listing finds them.
    async fn delete_each(&self, moves: &Moves, progress: &mut Progress<'_>) -> Result<(), FsError> {
        let now: HashMap<Key, ObjectInfo> = self
            .keys(&moves.from)
            .await?
            .into_iter()
            .map(|object| (object.key.clone(), object))
            .collect();
        // Equal bytes that were written later may have other headers.
        let is_same = |now: &ObjectInfo, then: &ObjectInfo| {
            now.etag.matches(&then.etag) && now.last_modified == then.last_modified
        };
        let is_unchanged = |one: &&Move| {
            let now = now.get(&one.source.key);
            one.is_copied && now.is_some_and(|now| is_same(now, &one.source))
        };
        for one in moves.all.iter().filter(|one| !one.is_copied) {
            if now.contains_key(&one.source.key) && self.deleter.is_gone(&one.source.key).await? {
                return Err(progress.failed(misnamed(&one.source.key)));
            }
        }
        // The entries of a directory are deleted before it: servers that store directories refuse
        // to remove a non-empty one.
        let versions: Vec<_> = moves
            .all
            .iter()
            .rev()
            .filter(is_unchanged)
            .map(|one| {
                let version = (!is_bare_marker(&one.source)).then(|| one.source.etag.clone());
                (one.source.key.clone(), version)
            })
            .collect();
        let mut left = now.len() - versions.len();
        for batch in versions.chunks(DELETE_KEYS_MAX) {
            progress.check()?;
            let replaced = self.deleter.delete_versions(batch, progress.stop).await;
            left += replaced.map_err(|error| progress.failed(error))?;
            progress.steps("deleted", batch.len());
        }
        if left > 0 {
            return Err(progress.failed(FsError::Busy(format!(
                "{left} objects below {} were written during its rename",
                moves.from
            ))));
        }
        Ok(())
    }

    /// Every object below `prefix`.
    async fn keys(&self, prefix: &str) -> Result<Vec<ObjectInfo>, FsError> {
        let mut keys: Vec<ObjectInfo> = Vec::new();
        let (mut continuation_token, mut cycle) = (None, PageCycle::default());
        loop {
            let request = ListRequest {
                prefix: prefix.to_owned(),
                continuation_token,
                max_keys: Some(LIST_PAGE_KEYS),
                ..ListRequest::default()
            };
            let listed = self.client.list(request).await;
            let listed = listed.map_err(|error| failed(error, LIST))?;
            let ends = listed.objects.first().zip(listed.objects.last());
            if let Some((first, last)) = ends
                && cycle.repeats(&(first.key.clone(), last.key.clone(), listed.objects.len()))
            {
                return Err(repeats(prefix));
            }
            keys.extend(listed.objects);
            if keys.len() > RENAME_KEYS_MAX {
                return Err(FsError::TooLarge(format!(
                    "{prefix} holds more than the {RENAME_KEYS_MAX} objects that one rename may move; rename the entries \
                     in it"
                )));
            }
            continuation_token = listed.continuation_token;
            if continuation_token.is_none() {
                break;
            }
        }
        let is_unique = |keys: &[&Key]| keys.is_sorted_by(|a, b| a < b);
        let mut names: Vec<&Key> = keys.iter().map(|object| &object.key).collect();
        if !is_unique(&names) {
            names.sort_unstable();
            if !is_unique(&names) {
                return Err(repeats(prefix));
            }
        }
        Ok(keys)
    }
}

/// Whether the object is an empty one that marks a directory.
fn is_marker(object: &ObjectInfo) -> bool {
    object.key.is_marker() && object.size == 0
}

/// Whether the object is a marker without a version: a directory of the server's own. Such a
/// directory has no headers.
fn is_bare_marker(object: &ObjectInfo) -> bool {
    object.key.is_marker() && object.etag.as_str().is_empty()
}

/// The error for an object that the server lists but does not find.
fn misnamed(key: &Key) -> FsError {
    let what = format!(
        "the server lists {key:?}, but has no object of that key: it changes keys in its listings, so this object can \
         neither be read nor renamed here"
    );
    FsError::Client(ClientError::new(ErrorKind::InvalidResponse, what))
}

/// Whether the request certainly had no effect. A missing key is no refusal: the request may have
/// moved it.
fn is_refusal(error: &ClientError) -> bool {
    let is_refusal = matches!(
        error.kind,
        ErrorKind::Archived
            | ErrorKind::Credentials
            | ErrorKind::Denied
            | ErrorKind::InvalidRequest
            | ErrorKind::NoSuchBucket
            | ErrorKind::Throttled
            | ErrorKind::Unsupported
            | ErrorKind::WrongRegion(_)
    );
    is_refusal && !error.answer_was_lost
}

/// Names that one rename of a directory may move.
///
/// Each name takes about 200 bytes of memory while the rename lasts, so that no object is deleted
/// without a copy.
const RENAME_KEYS_MAX: usize = 1 << 20;
