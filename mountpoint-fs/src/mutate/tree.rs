//! Renaming a directory: every object below its prefix.
//!
//! All objects are copied first. Then the copied ones are deleted, except those that a second
//! listing shows in another version; an object that vanished before its copy is not deleted. After
//! the first failure no request is sent, and those in flight are awaited: no effect of a rename
//! follows its end. So every object has at least one of its names at any time. The next rename
//! skips the copies of an interrupted one. The new directory may hold other objects only if it has
//! all that remain in the old one: then only deletions are missing.
//!
//! A bucket that can rename moves each object by itself. The journal records such a rename, because
//! the new directory then holds objects that the old one lacks: only an equal rename may resume it,
//! and only with objects that existed when it began.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{FuturesUnordered, StreamExt};
use mountpoint_client::types::{
    ETag, Key, ListRequest, ObjectHeaders, ObjectInfo, PutCondition, PutRequest,
};
use mountpoint_client::{ClientError, ErrorKind, PageCycle};

use super::Mutator;
use super::copy::copies_nothing;
use super::directory::Content;
use super::fault::{DELETE, LIST, PUT, failed, repeats};
use super::rename::{Target, renaming_failed};
use crate::config::limits::{
    COPIES_IN_FLIGHT_MAX, DELETE_KEYS_MAX, LIST_PAGE_KEYS, RENAME_KEYS_MAX, RENAME_PROGRESS,
};
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
        let was_begun = self.journal.is_renaming(from, to, newest, now).await;
        let places = (from, to, was_begun);
        let mut moves = Moves::plan(sources, there, places, self.limits.whole_max)?;
        tracing::info!(
            from,
            to,
            objects = moves.all.len(),
            copied = moves.copied(),
            "renaming a directory"
        );
        let can_rename = match moves.all.first() {
            Some(first) if !first.is_copied => {
                // Only the journal knows which objects the rename has moved: they have only their
                // new names.
                let newest = newest.unwrap_or(first.source.last_modified);
                self.journal.renaming(from, to, newest, now).await;
                let is_renamed = self.try_native(first).await;
                // A failed rename may have been done, unless the server refused it.
                let has_moved = match &is_renamed {
                    Ok(is_renamed) => *is_renamed,
                    Err(error) => !is_refusal(error),
                };
                if !was_begun && !has_moved {
                    self.journal.renamed(from, to).await;
                }
                match is_renamed {
                    Err(error) if error.kind == ErrorKind::NotFound => {
                        self.require_gone(first).await?;
                        true
                    }
                    is_renamed => is_renamed.map_err(renaming_failed)?,
                }
            }
            _ => false,
        };
        let mut progress = Progress::new(self, from, moves.all.len(), stop);
        if can_rename {
            moves.all.remove(0);
            self.rename_each(&moves, &mut progress).await?;
        } else {
            self.copy_each(&mut moves, &mut progress).await?;
            self.delete_each(&moves, &mut progress).await?;
        }
        if can_rename || was_begun {
            self.journal.renamed(from, to).await;
        }
        Ok(())
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
        let mut rest = moves.all.iter();
        let mut in_the_air = FuturesUnordered::new();
        loop {
            let free = progress.free(in_the_air.len());
            in_the_air.extend(rest.by_ref().take(free).map(|one| self.rename_one(one)));
            match in_the_air.next().await {
                Some(Ok(())) => progress.step("renamed"),
                Some(Err(error)) => progress.fail(error),
                None => return progress.check(),
            }
        }
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
        match self.is_gone(&one.source.key).await? {
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
        progress: &mut Progress<'_>,
    ) -> Result<(), FsError> {
        let stop = progress.stop;
        let mut rest = moves.all.iter_mut().filter(|one| !one.is_copied);
        let mut in_the_air = FuturesUnordered::new();
        loop {
            let free = progress.free(in_the_air.len());
            in_the_air.extend(rest.by_ref().take(free).map(|one| async move {
                one.is_copied = self.copy_one(one, stop).await?;
                Ok(())
            }));
            match in_the_air.next().await {
                Some(Ok(())) => progress.step("copied"),
                Some(Err(error)) => progress.fail(error),
                None => return progress.check(),
            }
        }
    }

    /// Copies one object. `false` if another client has removed it.
    async fn copy_one(&self, one: &Move, stop: &Stop) -> Result<bool, FsError> {
        let replaced = || {
            let key = &one.source.key;
            Err(FsError::Busy(format!(
                "{key} was replaced while its directory was renamed"
            )))
        };
        if is_bare_marker(&one.source) {
            return self.put_marker(&one.to, ObjectHeaders::default()).await;
        }
        // A listing does not show the headers that the server does not copy by itself: encryption
        // and redirection.
        let source = match self.client.head_details(&one.source.key).await {
            Ok(source) if source.info.etag.matches(&one.source.etag) => source,
            Ok(_) => return replaced(),
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error, "s3:GetObject")),
        };
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
            headers,
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
            if now.contains_key(&one.source.key) && self.is_gone(&one.source.key).await? {
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
                let version = (!is_bare_marker(&one.source)).then(|| one.source.etag.quoted());
                (one.source.key.clone(), version)
            })
            .collect();
        let mut left = now.len() - versions.len();
        for batch in versions.chunks(DELETE_KEYS_MAX) {
            progress.check()?;
            let replaced = self.delete_versions(batch, progress.stop).await;
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

    /// Deletes objects in the versions that were copied. Returns how many stay.
    ///
    /// Objects stay if they have other versions by now, where the server tells.
    /// [`FsError::Interrupted`] if `stop` was asked for before all were sent.
    async fn delete_versions(
        &self,
        versions: &[(Key, Option<ETag>)],
        stop: &Stop,
    ) -> Result<usize, FsError> {
        let deleted = self.client.delete_many(versions.to_vec()).await;
        let is_refused =
            |kind: &ErrorKind| matches!(kind, ErrorKind::Unsupported | ErrorKind::InvalidRequest);
        let failures = match deleted {
            // The server deletes no lists, or none with versions. A list without versions would
            // delete newer versions of other clients: each object is checked and deleted by itself.
            Err(error) if is_refused(&error.kind) => None,
            deleted => Some(deleted.map_err(|error| failed(error, DELETE))?),
        };
        let failed_keys: HashSet<&Key> = match &failures {
            Some(failures) => failures.iter().map(|failure| &failure.key).collect(),
            None => versions.iter().map(|(key, _)| key).collect(),
        };
        // Each failed key is tried by itself: a server may accept a version there that it rejects
        // in a list.
        let mut rest = versions.iter().filter(|(key, _)| failed_keys.contains(key));
        let (mut left, mut failure) = (0, None);
        let mut in_the_air = FuturesUnordered::new();
        loop {
            // After a failure or a signal, no requests are sent, and those in flight are awaited.
            let free = match failure {
                None if !stop.is_asked() => COPIES_IN_FLIGHT_MAX - in_the_air.len(),
                None | Some(_) => 0,
            };
            let next = rest.by_ref().take(free);
            in_the_air.extend(next.map(|(key, etag)| self.delete_version(key, etag.as_ref())));
            match in_the_air.next().await {
                Some(Ok(is_deleted)) => left += usize::from(!is_deleted),
                Some(Err(error)) => failure = failure.or(Some(error)),
                None => {
                    let is_done = failure.is_some() || rest.next().is_none();
                    let interrupted = (!is_done).then_some(FsError::Interrupted);
                    return failure.or(interrupted).map_or(Ok(left), Err);
                }
            }
        }
    }

    /// Deletes a version. `false` if the key has another version by now.
    async fn delete_version(&self, key: &Key, etag: Option<&ETag>) -> Result<bool, FsError> {
        match etag {
            Some(etag) => self.delete_copied(key, etag).await,
            None => self.delete(key).await.map(|()| true),
        }
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
                    "{prefix} holds more than the {RENAME_KEYS_MAX} objects that one rename may move; rename what is \
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
    object.key.as_str().ends_with('/') && object.size == 0
}

/// Whether the object is a marker without a version: a directory of the server's own. Such a
/// directory has no headers.
fn is_bare_marker(object: &ObjectInfo) -> bool {
    object.key.as_str().ends_with('/') && object.etag.as_str().is_empty()
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

/// One object to move.
#[derive(Debug)]
struct Move {
    source: ObjectInfo,
    to: Key,
    /// Whether this attempt or an earlier one has copied the object.
    is_copied: bool,
}

/// The objects that a rename moves.
#[derive(Debug)]
struct Moves {
    from: String,
    all: Vec<Move>,
}

impl Moves {
    fn plan(
        sources: Vec<ObjectInfo>,
        there: Vec<ObjectInfo>,
        (from, to, was_begun): (&str, &str, bool),
        whole_max: u64,
    ) -> Result<Self, FsError> {
        for object in sources.iter().chain(&there) {
            if let Some(why) = object.key.why_made_up() {
                let key = object.key.as_str();
                let key = key.strip_suffix(Key::NO_ETAG).unwrap_or(key);
                return Err(FsError::NotPermitted(format!(
                    "{from} cannot be renamed to {to}: {key:?} has {why}, so it stays where it is; move or \
                     remove it with what stored it"
                )));
            }
        }
        let mut there: HashMap<Key, ObjectInfo> = there
            .into_iter()
            .map(|object| (object.key.clone(), object))
            .collect();
        let mut all = Vec::with_capacity(sources.len());
        // The number of objects without the directory's own, and of those whose bytes are already
        // copied.
        let (mut objects, mut copies) = (0, 0);
        for source in sources {
            let rest = source.key.as_str().strip_prefix(from).unwrap_or_default();
            let key = Key::parse(&format!("{to}{rest}")).ok_or(FsError::NameTooLong)?;
            objects += usize::from(key.as_str() != to);
            let is_copied = match there.remove(&key) {
                // Markers look alike whatever their headers: the directory's own is always copied.
                Some(copy)
                    if key.as_str() != to
                        && copy.size == source.size
                        && copy.etag.matches(&source.etag) =>
                {
                    copies += 1;
                    // Equal bytes may have other headers if they were written after the copy.
                    copy.last_modified > source.last_modified
                }
                // A copy in parts has an ETag of its own, so it is repeated.
                Some(copy)
                    if copy.size == source.size
                        && copy.size > whole_max
                        && copy.last_modified >= source.last_modified =>
                {
                    false
                }
                // Another object, which must not be lost.
                Some(_) if key.as_str() != to => return Err(FsError::NotEmpty),
                Some(_) | None => false,
            };
            all.push(Move {
                source,
                to: key,
                is_copied,
            });
        }
        // The marker of an empty directory is replaced with it.
        there.retain(|key, _| key.as_str() != to);
        // An earlier attempt that stopped during its deletions has left only objects that are
        // copied already.
        let is_half_deleted = objects > 0 && copies == objects;
        if there.is_empty() || is_half_deleted || was_begun {
            let from = from.to_owned();
            Ok(Self { from, all })
        } else {
            Err(FsError::NotEmpty)
        }
    }

    fn copied(&self) -> usize {
        self.all.iter().filter(|one| one.is_copied).count()
    }
}

/// Logs the progress of a rename.
#[derive(Debug)]
struct Progress<'a> {
    mutator: &'a Mutator,
    stop: &'a Stop,
    from: &'a str,
    objects: usize,
    done: usize,
    told: Duration,
    /// The first failure.
    failure: Option<FsError>,
}

impl<'a> Progress<'a> {
    fn new(mutator: &'a Mutator, from: &'a str, objects: usize, stop: &'a Stop) -> Self {
        let told = mutator.clock.now();
        Self {
            mutator,
            stop,
            from,
            objects,
            done: 0,
            told,
            failure: None,
        }
    }

    /// How many more requests may be in flight: none after a stop or a failure.
    fn free(&self, in_the_air: usize) -> usize {
        if self.stop.is_asked() || self.failure.is_some() {
            0
        } else {
            COPIES_IN_FLIGHT_MAX - in_the_air
        }
    }

    /// The outcome after a failure or a stop.
    fn check(&mut self) -> Result<(), FsError> {
        let failure = self.failure.take().map_or(Ok(()), Err);
        let outcome = failure.and_then(|()| self.stop.check());
        outcome.map_err(|error| self.failed(error))
    }

    /// Records a failed request: no more are sent.
    fn fail(&mut self, error: FsError) {
        self.failure.get_or_insert(error);
    }

    fn step(&mut self, what: &str) {
        self.steps(what, 1);
    }

    fn steps(&mut self, what: &str, count: usize) {
        self.done += count;
        let now = self.mutator.clock.now();
        if now.saturating_sub(self.told) >= RENAME_PROGRESS {
            self.told = now;
            let Self {
                from,
                objects,
                done,
                ..
            } = *self;
            tracing::info!(from, objects, done, "renaming a directory: {what}");
        }
    }

    fn failed(&self, error: FsError) -> FsError {
        let Self { from, done, .. } = *self;
        tracing::warn!(
            from,
            done,
            "renaming a directory stopped; every object has its old or its new name or both, and the same rename \
             (mv -T) goes on from here"
        );
        error
    }
}
