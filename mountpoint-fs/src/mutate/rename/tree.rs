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

use std::collections::{HashMap, HashSet};
use std::time::SystemTime;

use mountpoint_client::types::{
    ETag, Key, ListRequest, ObjectDetails, ObjectHeaders, ObjectInfo, PutCondition, StoredChecksum,
    WriteToken,
};
use mountpoint_client::{ClientError, ErrorKind, PageCycle};

use super::super::Mutator;
use super::super::conditions::Conditional;
use super::super::copy::copies_nothing;
use super::super::directory::{Content, marker};
use super::super::fault::{LIST, failed, repeats};
use super::super::parallel::in_parallel;
use super::claim::{Claim, condition_on, put_marker, refuse_claimed};
use super::moves::{EarlierAttempt, Move, Moves, RenamedVersion, version_number};
use super::object::{Target, renaming_failed};
use super::progress::Progress;
use crate::config::limits::{COPIES_IN_FLIGHT_MAX, DELETE_KEYS_MAX, LIST_PAGE_KEYS};
use crate::operation::{FsError, Stop};

impl Mutator {
    /// Moves all objects below the prefix `from` to the prefix `to`. Both end with `/`.
    ///
    /// A directory `to` that `seems_new` is claimed before it is listed, unless `from` has no
    /// object. [`FsError::NotEmpty`] if an object below `to` cannot be left from an earlier
    /// attempt, or if another host has claimed it; [`FsError::Interrupted`] if `stop` was asked for
    /// before the end: then none of its requests is in flight. Returns the objects that have
    /// another version now.
    pub async fn rename_directory(
        &self,
        (from, to): (&str, &str),
        seems_new: bool,
        stop: &Stop,
    ) -> Result<Vec<RenamedVersion>, FsError> {
        if !self.allow_rename && self.content(from).await? != Content::Nothing {
            // A directory is moved name by name, which takes time: the flag makes users expect
            // that.
            let marker = Key::parse(from).ok_or(FsError::NameTooLong)?;
            self.permit_copy(&marker)?;
        }
        match self.rename_tree((from, to), seems_new, stop).await {
            // Another host may have made an empty directory there.
            Err(FsError::NotEmpty) if seems_new => self.rename_tree((from, to), false, stop).await,
            outcome => outcome,
        }
    }

    async fn rename_tree(
        &self,
        (from, to): (&str, &str),
        seems_new: bool,
        stop: &Stop,
    ) -> Result<Vec<RenamedVersion>, FsError> {
        let sources = self.keys(from).await?;
        let newest = sources.iter().map(|source| source.last_modified).max();
        let now = self.clock.wall();
        // A copy tells by itself what it is a copy of.
        let moved = match self.client.appends() {
            true => newest,
            false => newest.map(|_| SystemTime::UNIX_EPOCH),
        };
        let begun = self.journal.is_renaming(from, to, moved, now).await;
        // A claim shows whether the directory is new; where nothing moves, there is none.
        let there = match seems_new && begun.is_none() && newest.is_some() {
            true => Vec::new(),
            false => self.keys(to).await?,
        };
        let earlier = match &begun {
            Some(token) => self.earlier_attempt(&there, (to, token), stop).await?,
            None => EarlierAttempt::default(),
        };
        let was_begun = begun.is_some();
        let token = begun.unwrap_or_else(WriteToken::random);
        let places = (from, to);
        let mut moves = Moves::plan(sources, &there, places, &earlier)?;
        tracing::info!(
            from,
            to,
            objects = moves.all.len(),
            copied = moves.copied(),
            "renaming a directory"
        );
        let is_marked = there.iter().any(|object| object.key.as_str() == to);
        let mut is_claimed = false;
        if let Some(newest) = newest {
            let seen = match is_marked {
                true => self.details(&marker(to)?).await?,
                false => None,
            };
            // Only the journal knows what the rename has claimed, moved and copied.
            self.journal.renaming(places, &token, (newest, now)).await;
            let claimed = self.claim_for(&moves, (to, &there), &token, seen).await;
            let (claim, condition) = match claimed {
                Ok(claimed) => claimed,
                Err((error, is_left)) => {
                    if !is_left && !was_begun {
                        self.journal.renamed(from, to).await;
                    }
                    return Err(error);
                }
            };
            is_claimed = claim.is_some();
            let series = (&token, was_begun);
            self.move_all(&mut moves, (claim, condition), series, stop)
                .await?;
        }
        // A marker that an attempt before this one has found may be the moved one.
        if is_marked && moves.marker.is_none() && !is_claimed && !was_begun {
            self.remove_replaced(to).await?;
        }
        self.journal.renamed(from, to).await;
        Ok(moves.renamed_versions())
    }

    /// Removes the marker of the empty directory `to`, which one without a marker has replaced.
    async fn remove_replaced(&self, to: &str) -> Result<(), FsError> {
        let key = marker(to)?;
        let Some(there) = self.details(&key).await? else {
            return Ok(());
        };
        refuse_claimed(&self.clock, &there)?;
        match there.info.etag.as_str().is_empty() {
            true => self.deleter.delete(&key).await,
            // Another host's newer one stays.
            false => self
                .deleter
                .delete_version(&key, &there.info.etag)
                .await
                .map(drop),
        }
    }

    /// Claims the directory `to`, in which `there` was listed, if more is moved than the marker of
    /// an empty directory. Returns the condition on which the marker may be replaced, too; of a
    /// failure, whether a claim may be left.
    async fn claim_for(
        &self,
        moves: &Moves,
        (to, there): (&str, &[ObjectInfo]),
        token: &WriteToken,
        seen: Option<ObjectDetails>,
    ) -> Result<(Option<Claim>, PutCondition), (FsError, bool)> {
        let condition = condition_on(seen.as_ref());
        if !moves.has_content() {
            let others = seen.filter(|seen| seen.token.as_ref() != Some(token));
            let refused = others.map_or(Ok(()), |seen| refuse_claimed(&self.clock, &seen));
            return match refused {
                Ok(()) => Ok((None, condition)),
                Err(error) => Err((error, false)),
            };
        }
        let is_sent = |error: &FsError| !matches!(error, FsError::NotEmpty | FsError::Denied(_));
        let claim = match Claim::make(self, to, token, seen).await {
            Ok(Some(claim)) => claim,
            Ok(None) => return Ok((None, condition)),
            Err(error) => {
                let is_left = is_sent(&error);
                return Err((error, is_left));
            }
        };
        // Between the listing and the claim, another host may have renamed to this name.
        let content = |listed: &[ObjectInfo]| -> HashSet<(Key, SystemTime)> {
            let content = listed.iter().filter(|object| object.key.as_str() != to);
            let content = content.map(|object| (object.key.clone(), object.last_modified));
            content.collect()
        };
        let is_ours = match self.keys(to).await {
            Ok(now) if content(&now) != content(there) => Err(FsError::NotEmpty),
            Ok(_) => claim.check(self).await,
            Err(error) => Err(error),
        };
        if let Err(error) = is_ours {
            let is_left = !claim.release(self).await;
            return Err((error, is_left));
        }
        let condition = PutCondition::Match(claim.etag.clone());
        Ok((Some(claim), condition))
    }

    /// Moves all objects, and gives the claim back. Where another host has the name, nothing stays
    /// of what was copied.
    async fn move_all(
        &self,
        moves: &mut Moves,
        (mut claim, condition): (Option<Claim>, PutCondition),
        (token, was_begun): (&WriteToken, bool),
        stop: &Stop,
    ) -> Result<(), FsError> {
        let (from, to) = (moves.from.clone(), moves.to.clone());
        let mut progress = Progress::new(self.clock.clone(), &from, moves.all.len(), stop);
        let is_native = match moves.first() {
            Some(first) => {
                let condition = match moves.content().next() {
                    Some(_) => PutCondition::Absent,
                    None => condition.clone(),
                };
                self.rename_first(first, condition).await
            }
            None => Ok(false),
        };
        // A failed rename may have been done, unless the server refused it.
        let has_begun = !matches!(&is_native, Err((_, true)));
        let mut is_in_parts = false;
        let outcome = match is_native {
            Ok(true) => {
                let renamed = self.rename_each(moves, &condition, &mut progress).await;
                // The claim has become the marker.
                claim.take_if(|_| renamed.is_ok() && moves.marker.is_some());
                if let Some(claim) = claim.as_mut().filter(|_| renamed.is_ok() && !was_begun) {
                    claim.forget_replaced();
                }
                renamed
            }
            Ok(false) => {
                is_in_parts = true;
                let marker = (&mut claim, &condition);
                self.copy_all(moves, marker, (token, was_begun), &mut progress)
                    .await
            }
            Err((error, _)) => Err(error),
        };
        let is_taken = is_in_parts && matches!(outcome, Err(FsError::NotEmpty));
        // A copy without a condition may have taken the place of the other host's.
        let may_withdraw = is_taken
            && self
                .conditions
                .keeps(Conditional::Copy, &PutCondition::Absent);
        let is_withdrawn = may_withdraw && self.withdraw(moves, token).await.is_ok();
        // An object that has the new name by now keeps others away, and the journal names our own.
        let is_left = match claim {
            Some(claim) => !claim.release(self).await,
            None => false,
        };
        if is_withdrawn || (!has_begun && !was_begun && !is_left) {
            self.journal.renamed(&from, &to).await;
        }
        outcome
    }

    /// Copies all objects, then the marker, which ends the claim; then the sources are deleted.
    async fn copy_all(
        &self,
        moves: &mut Moves,
        (claim, condition): (&mut Option<Claim>, &PutCondition),
        (token, was_begun): (&WriteToken, bool),
        progress: &mut Progress<'_>,
    ) -> Result<(), FsError> {
        self.copy_each(moves, token, progress).await?;
        if let Some(index) = moves.marker {
            if let Some(claim) = claim {
                claim.check(self).await?;
            }
            let one = &moves.all[index];
            let moved = self.copy_marker(one, condition, token, progress.stop);
            let is_copied = moved.await.map_err(|error| progress.failed(error))?;
            moves.all[index].is_copied = is_copied;
            // The claim has become the marker.
            claim.take_if(|_| is_copied);
        }
        if let Some(mut claim) = claim.take() {
            if !was_begun {
                claim.forget_replaced();
            }
            if !claim.try_release(self).await? {
                return Err(progress.failed(FsError::NotEmpty));
            }
        }
        self.delete_each(moves, progress).await
    }

    /// Removes the copies of this rename, whose sources are all there, and which replaced nothing.
    async fn withdraw(&self, moves: &Moves, token: &WriteToken) -> Result<(), FsError> {
        let is_new = |one: &Move| one.is_copied && !one.is_outdated;
        let copied = moves.content().filter(|index| is_new(&moves.all[*index]));
        let is_ours = |there: &ObjectDetails| {
            let number = there.token.as_ref().and_then(|it| it.number_in(token));
            number.is_some()
        };
        let remove = |index: usize| async move {
            let key = &moves.all[index].to;
            match self.details(key).await?.filter(is_ours) {
                Some(there) => {
                    let removed = self.deleter.delete_version(key, &there.info.etag);
                    removed.await.map(drop)
                }
                None => Ok(()),
            }
        };
        let never = Stop::never();
        let removed = in_parallel(COPIES_IN_FLIGHT_MAX, copied, &never, remove, drop).await;
        removed.map(drop).inspect_err(|error| {
            let to = &moves.to;
            tracing::warn!(
                to,
                "copies of a rename that another host has forestalled stay: {error}"
            );
        })
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
                let there = self.details(key).await?.and_then(|there| there.token);
                Ok::<_, FsError>((key, there.and_then(|it| it.number_in(token))))
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

    /// Renames the first object, if the bucket can rename; `false` otherwise. A failure with
    /// whether the server refused it, so that nothing has moved.
    async fn rename_first(
        &self,
        first: &Move,
        condition: PutCondition,
    ) -> Result<bool, (FsError, bool)> {
        match self.try_native(first, condition).await {
            Err(error) if error.kind == ErrorKind::NotFound => {
                let gone = self.require_gone(first).await;
                gone.map(|()| true).map_err(|error| (error, false))
            }
            Err(error) if error.kind == ErrorKind::PreconditionFailed => {
                Err((FsError::NotEmpty, false))
            }
            Err(error) => {
                let is_refused = is_refusal(&error);
                Err((renaming_failed(error), is_refused))
            }
            Ok(is_renamed) => Ok(is_renamed),
        }
    }

    /// Whether the bucket can rename; if so, the first object is renamed.
    async fn try_native(&self, first: &Move, condition: PutCondition) -> Result<bool, ClientError> {
        let renamed = self.client.rename(&first.source.key, &first.to, condition);
        match renamed.await {
            Ok(()) => Ok(true),
            Err(error) if error.kind == ErrorKind::Unsupported => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Renames all but the first object, which has its new name; then the marker.
    async fn rename_each(
        &self,
        moves: &Moves,
        condition: &PutCondition,
        progress: &mut Progress<'_>,
    ) -> Result<(), FsError> {
        progress.step("renamed");
        let (all, stop) = (&moves.all, progress.stop);
        let rename = |index: usize| self.rename_one(&all[index]);
        let done = |()| progress.step("renamed");
        let rest = moves.content().skip(1);
        let renamed = in_parallel(COPIES_IN_FLIGHT_MAX, rest, stop, rename, done).await;
        progress.end(renamed)?;
        if let Some(index) = moves.marker
            && moves.content().next().is_some()
        {
            let marker = self.rename_marker(&moves.all[index], condition.clone());
            marker.await.map_err(|error| progress.failed(error))?;
        }
        Ok(())
    }

    async fn rename_marker(&self, one: &Move, condition: PutCondition) -> Result<(), FsError> {
        match self.try_native(one, condition).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let key = &one.source.key;
                let what = format!("the server renamed all in {key}, and not that: try again");
                Err(FsError::Busy(what))
            }
            Err(error) if error.kind == ErrorKind::NotFound => self.require_gone(one).await,
            Err(error) if error.kind == ErrorKind::PreconditionFailed => Err(FsError::NotEmpty),
            Err(error) => Err(renaming_failed(error)),
        }
    }

    async fn rename_one(&self, one: &Move) -> Result<(), FsError> {
        let (from, to, never) = (&one.source.key, &one.to, Stop::never());
        match self.rename(from, to, &Target::Absent, &never).await {
            Ok(_) => Ok(()),
            Err(FsError::NotFound) => self.require_gone(one).await,
            Err(FsError::Exists) => Err(FsError::NotEmpty),
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
        let rest: Vec<usize> = moves
            .content()
            .filter(|index| !all[*index].is_copied)
            .collect();
        let mut copied = Vec::new();
        let copy = |index: usize| async move {
            let copied_as = self.copy_one(&all[index], token, stop).await?;
            Ok((index, copied_as))
        };
        let done = |outcome| {
            copied.push(outcome);
            progress.step("copied");
        };
        let outcome = in_parallel(COPIES_IN_FLIGHT_MAX, rest, stop, copy, done).await;
        for (index, copied_as) in copied {
            moves.all[index].is_copied = copied_as.is_some();
            moves.all[index].copied_as = copied_as;
        }
        progress.end(outcome)
    }

    /// Copies one object of the directory, to a name that nobody has. Returns the copy's version,
    /// and the source's for a marker; `None` if another client has removed the object.
    async fn copy_one(
        &self,
        one: &Move,
        token: &WriteToken,
        stop: &Stop,
    ) -> Result<Option<ETag>, FsError> {
        // The claim keeps other renames away, and the condition all others, where it costs nothing.
        let condition = match !one.is_outdated
            && self
                .conditions
                .keeps(Conditional::Copy, &PutCondition::Absent)
        {
            true => PutCondition::Absent,
            false => PutCondition::None,
        };
        let Some(source) = self.source(one, token).await? else {
            return Ok(None);
        };
        if is_bare_marker(&one.source) {
            return self.put_copy(one, source, &PutCondition::None).await;
        }
        match self.copy(&source, &one.to, condition, stop).await {
            // Some servers do not copy their own directories.
            Err(FsError::Client(error)) if is_marker(&one.source) && copies_nothing(&error) => {
                self.put_copy(one, source, &PutCondition::None).await
            }
            copied => copied_as(one, copied),
        }
    }

    /// Copies the marker of the directory itself on `condition`. `false` if another client has
    /// removed it, or the place of the copy is another one.
    async fn copy_marker(
        &self,
        one: &Move,
        condition: &PutCondition,
        token: &WriteToken,
        stop: &Stop,
    ) -> Result<bool, FsError> {
        let Some(source) = self.source(one, token).await? else {
            return Ok(false);
        };
        let copied = if is_bare_marker(&one.source) || source.info.size == 0 {
            self.put_copy(one, source, condition).await?
        } else {
            let copied = self.copy(&source, &one.to, condition.clone(), stop);
            copied_as(one, copied.await)?
        };
        Ok(copied.is_some())
    }

    /// Stores a marker with the headers of `source`. Returns the version of that.
    async fn put_copy(
        &self,
        one: &Move,
        source: ObjectDetails,
        condition: &PutCondition,
    ) -> Result<Option<ETag>, FsError> {
        let put = put_marker(self, &one.to, source.headers, condition);
        put.await.map(|()| Some(source.info.etag))
    }

    /// The object to copy with its headers and the copy's token: a listing does not show the
    /// headers that the server does not copy by itself, encryption and redirection. `None` if
    /// another client has removed it.
    async fn source(
        &self,
        one: &Move,
        token: &WriteToken,
    ) -> Result<Option<ObjectDetails>, FsError> {
        let mut source = if is_bare_marker(&one.source) {
            ObjectDetails {
                info: one.source.clone(),
                headers: ObjectHeaders::default(),
                token: None,
                version_id: None,
                checksum: StoredChecksum::None,
            }
        } else {
            match self.details(&one.source.key).await? {
                Some(source) if source.info.etag.matches(&one.source.etag) => source,
                Some(_) => return Err(replaced(one)),
                None => return Ok(None),
            }
        };
        source.headers.token = Some(token.numbered(version_number(&one.source)));
        Ok(Some(source))
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

/// The version of the copy that was made of an object; `None` if the object was removed.
fn copied_as(one: &Move, copied: Result<ETag, FsError>) -> Result<Option<ETag>, FsError> {
    match copied {
        Ok(etag) => Ok(Some(etag)),
        Err(FsError::NotFound) => Ok(None),
        Err(FsError::Stale(_)) => Err(replaced(one)),
        Err(FsError::Exists) => Err(FsError::NotEmpty),
        Err(error) => Err(error),
    }
}

fn replaced(one: &Move) -> FsError {
    let key = &one.source.key;
    FsError::Busy(format!(
        "{key} was replaced while its directory was renamed"
    ))
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
