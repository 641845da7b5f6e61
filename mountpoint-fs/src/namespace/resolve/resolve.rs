//! How the namespace finds out what a name is: what is known already, what is asked, and with whom
//! it waits.
//!
//! Knows nothing of lookup counts. Holds no lock across an await. Runs on whatever thread polls it.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::types::ListRequest;

use super::create_intent::CreateIntent;
use super::lookup_batching::{Ask, Expected};
use super::negative::Absence;
use super::prefix_listing::Subtree;
use super::probe::{self, Answer};
use super::strategy::{ProbeStrategy, Siblings};
use crate::config::limits::{LIST_PAGE_KEYS, LOOKUP_KEYS, OPEN_FRESH_MAX};
use crate::namespace::listing::cache::RecentEntry;
use crate::namespace::listing::page::Page;
use crate::namespace::names;
use crate::namespace::namespace::Namespace;
use crate::namespace::version::Found;
use crate::operation::{Entry, FileKind, FsError, InodeNo};

/// A page of a directory that was listed for lookups.
#[derive(Clone, Debug)]
pub(in crate::namespace) struct Gathering {
    pub(in crate::namespace) page: Arc<Page>,
    /// Whether it was listed for this very lookup: only that may say that a name is not there.
    pub(in crate::namespace) is_own: bool,
}

impl Namespace {
    /// Asks S3 what `name` is, or waits with others who ask; that there is nothing is never older
    /// than the question. What else the answer tells is kept for other lookups.
    async fn find(&self, parent: InodeNo, prefix: &str, name: &str) -> Result<Answer, FsError> {
        let key = names::file_key(prefix, name)?;
        let is_in_flight = self.lookups.is_in_flight(&key);
        let (plan, wants_front) = if is_in_flight {
            (ProbeStrategy::Name, false)
        } else {
            self.plan(parent, prefix, name)
        };
        let begin = || {
            let lookup_batching = Arc::clone(&self.lookup_batching);
            let first_bytes = Arc::clone(&self.first_bytes);
            let (client, clock) = (Arc::clone(&self.client), self.clock.clone());
            let (recent, ttl) = (Arc::clone(&self.recent), self.config.ttl);
            let (key, prefix) = (key.clone(), prefix.to_owned());
            let (is_posix, hidden) = (self.is_posix, Arc::clone(&self.hidden));
            let was_file = is_posix && self.table.child_kind(parent, name) == Some(FileKind::File);
            async move {
                let asked = clock.now();
                let spend = || wants_front && first_bytes.spend(clock.now().into());
                let found = probe::find(&client, &clock, &prefix, &key, plan, spend);
                let described = was_file.then(|| client.head_details(&key));
                let (seen, described) = probe::together(&clock, found, described).await?;
                if seen.front_failed {
                    first_bytes.failed(clock.now().into());
                }
                hidden.looked_up(&key, &seen.without_etag);
                if seen.found == Some(Found::Directory) || plan == ProbeStrategy::Directory {
                    lookup_batching.guessed(&prefix, seen.found == Some(Found::Directory));
                }
                let (found, posix) = if is_posix {
                    probe::carried(&client, &key, seen.found, described).await?
                } else {
                    (seen.found, None)
                };
                let answered = clock.now();
                let took = answered.saturating_sub(asked);
                // For as long as it took, but never on a version that was heard of long before.
                let fresh_until = (answered + took).min(seen.version_heard + OPEN_FRESH_MAX);
                let (now, valid_until) = (answered.into(), (seen.heard + ttl).into());
                for below in seen.below {
                    // A page that has nothing but the name itself helps no other lookup, and none
                    // says what objects carry.
                    if !is_posix && (*below.prefix != *prefix || below.entries.len() > 1) {
                        let prefix = Arc::clone(&below.prefix);
                        let page = Arc::new(below.page(asked));
                        recent.delivered(&prefix, &page, now, valid_until);
                    }
                }
                Ok(Answer {
                    found,
                    posix,
                    asked,
                    heard: seen.heard,
                    fresh_until: Some(fresh_until),
                    front: seen.front,
                })
            }
        };
        let mut is_own = false;
        let begin_own = || {
            is_own = true;
            begin()
        };
        let began = self.clock.now();
        let mut answer = self.lookups.join(key.clone(), begin_own).await?;
        answer.fresh_until.take_if(|_| !is_own);
        let is_valid = answer.found.is_some() && answer.heard + self.config.ttl > began;
        if is_own || is_valid {
            return Ok(answer);
        }
        // Others had asked before: what was written since is not in the answer. Whatever is in
        // flight now is younger.
        self.lookups.join(key.clone(), begin).await
    }

    /// What to ask first about `name`, and whether first bytes are wanted of a file that it turns
    /// out to be. Nothing that is known already is fetched: the kernel may have it.
    fn plan(&self, parent: InodeNo, prefix: &str, name: &str) -> (ProbeStrategy, bool) {
        let at_start = self.root_at_start.get();
        let at_start = at_start.filter(|_| parent == InodeNo::ROOT);
        let at_start = at_start.map(|page| Siblings::of(page, name));
        let recent = self.recent.siblings(prefix, name);
        let siblings = recent
            .filter(Siblings::are_all)
            .or_else(|| at_start.filter(Siblings::are_all))
            .or(recent)
            .or(at_start);
        let Some(siblings) = siblings else {
            return (ProbeStrategy::Name, false);
        };
        if self.lookup_batching.is_making(prefix, self.clock.now()) {
            // It is probably nothing.
            return (ProbeStrategy::Name, false);
        }
        match self.table.child_kind(parent, name) {
            Some(FileKind::Directory) if !siblings.are_all() => (ProbeStrategy::Directory, false),
            Some(_) => (ProbeStrategy::Name, false),
            None => {
                // Who has just listed the directory asks what its names are, and opens what is
                // known.
                let was_listed = self.walks.was_listed(prefix, self.clock.now());
                let wants_front =
                    !self.is_posix && !was_listed && self.first_bytes.are_worth_it(self.now());
                let was_wrong = self.lookup_batching.was_wrong(prefix);
                let plan = siblings.plan(name, was_wrong, wants_front);
                if plan == ProbeStrategy::File && !self.first_bytes.spend(self.now()) {
                    return (ProbeStrategy::Name, false);
                }
                (plan, wants_front)
            }
        }
    }

    /// Lists the directory that `name` is in, if so many of its names are asked for that this is
    /// worth it, or if it is being listed for others.
    pub(in crate::namespace) async fn gather(
        &self,
        prefix: &Arc<str>,
        name: &str,
        makes: &mut CreateIntent<'_>,
    ) -> Result<Option<Gathering>, FsError> {
        let is_making = self.lookup_batching.is_making(prefix, self.clock.now());
        let makes = is_making && makes.is_so().await;
        if self.is_posix && !makes {
            return Ok(None);
        }
        let is_asked = self.lookups.is_in_flight(&names::file_key(prefix, name)?);
        if is_asked || !self.client.lists_in_order() {
            return Ok(None);
        }
        let began = self.clock.now();
        let is_in_flight = self.gatherings.is_in_flight(&**prefix);
        let mut stem = name.chars();
        stem.next_back();
        let stem = stem.as_str();
        let (behind, keys) = if is_in_flight {
            (None, LIST_PAGE_KEYS)
        } else {
            let expected = if makes {
                Expected::New
            } else if self.walks.is_walked(prefix, began) {
                Expected::Others
            } else {
                Expected::Anything
            };
            match self.lookup_batching.miss(prefix, expected, began) {
                Ask::Name => return Ok(None),
                Ask::Directory => (None, LIST_PAGE_KEYS),
                Ask::DirectoryFromName => (Some(stem), LIST_PAGE_KEYS),
                Ask::Around => (Some(stem), LOOKUP_KEYS),
            }
        };
        let is_begun = !is_in_flight;
        let begin = || self.list_for_lookups(Arc::clone(prefix), behind.map(str::to_owned), keys);
        match self.gatherings.join(Arc::clone(prefix), begin).await {
            Ok(mut gathering) => {
                gathering.is_own = is_begun && gathering.page.asked >= began;
                Ok(Some(gathering))
            }
            // It was asked for the sake of others: this lookup asks for itself.
            Err(_) => Ok(None),
        }
    }

    /// One page of the directory `prefix`, of so many keys, which answers lookups from then on.
    fn list_for_lookups(
        &self,
        prefix: Arc<str>,
        behind: Option<String>,
        keys: u16,
    ) -> impl Future<Output = Result<Gathering, FsError>> + Send + 'static {
        let (client, clock) = (Arc::clone(&self.client), self.clock.clone());
        let (recent, lookup_batching) =
            (Arc::clone(&self.recent), Arc::clone(&self.lookup_batching));
        let (ttl, hidden) = (self.config.ttl, Arc::clone(&self.hidden));
        async move {
            let asked = clock.now();
            let request = ListRequest {
                prefix: prefix.to_string(),
                delimiter: Some("/".to_owned()),
                max_keys: Some(keys),
                start_after: behind.as_ref().map(|key| format!("{prefix}{key}")),
                continuation_token: None,
            };
            let listed = client.list(request).await?;
            hidden.note(&prefix, &listed);
            let is_last = listed.continuation_token.is_none();
            if !is_last && behind.is_none() {
                lookup_batching.is_large(&prefix);
            }
            let subtree = Subtree::new(&prefix, &listed, true);
            let mut below = subtree.below(&prefix);
            below.retain(|below| below.prefix == prefix);
            let entries = below.pop().map(|below| below.entries).unwrap_or_default();
            let page = Arc::new(if behind.is_none() && is_last {
                Page::whole(entries, asked)
            } else {
                Page::between(entries, asked, subtree.span(&prefix, behind.as_deref()))
            });
            let now = clock.now();
            recent.delivered(&prefix, &page, now.into(), (now + ttl).into());
            Ok(Gathering { page, is_own: true })
        }
    }

    /// Asks until the answer is newer than any change that this mount has made to the name, and
    /// than what is known of it if that is something else. A file does not hide a directory that is
    /// kept; a directory that S3 knows need not be. Returns the prefix as well that the directory
    /// `parent` has now: it may have been renamed meanwhile.
    pub(in crate::namespace) async fn find_unchanged(
        &self,
        parent: InodeNo,
        name: &str,
    ) -> Result<(Arc<str>, Answer), FsError> {
        loop {
            let prefix: Arc<str> = Arc::from(self.table.directory_prefix(parent)?);
            let mut answer = self.find(parent, &prefix, name).await?;
            let asked = answer.asked;
            let is_contradicted =
                |found: &Found| self.table.contradicts(parent, name, found, asked.into());
            if self.is_moved(parent, &prefix)
                || self.local_changes.invalidates(&prefix, name, asked)
                || answer.found.as_ref().is_some_and(is_contradicted)
            {
                continue;
            }
            if let Some(ino) = self.table.child(parent, name) {
                match answer.found {
                    Some(Found::Directory) => self.table.unkeep(ino),
                    Some(Found::File(_)) if self.table.is_kept(ino) => answer.found = None,
                    Some(Found::File(_)) | None => {}
                }
            }
            return Ok((prefix, answer));
        }
    }

    /// Whether the directory `parent` has another prefix by now.
    pub(in crate::namespace) fn is_moved(&self, parent: InodeNo, prefix: &str) -> bool {
        let now = self.table.directory_prefix(parent);
        now.is_ok_and(|now| now != prefix)
    }

    /// What a page said of `name` a moment ago, unless this mount has changed it since, or has
    /// heard otherwise.
    pub(in crate::namespace) fn recently(
        &self,
        parent: InodeNo,
        prefix: &str,
        name: &str,
    ) -> Option<RecentEntry> {
        if self.is_posix {
            // No page tells what objects carry.
            return None;
        }
        let recent = self.recent.find(prefix, name, self.now())?;
        let is_outdated = self
            .local_changes
            .invalidates_moment(prefix, name, recent.asked)
            || self
                .table
                .contradicts(parent, name, &recent.listed.found, recent.asked);
        (!is_outdated).then_some(recent)
    }

    /// When a listing was asked for that does not have `name`, if the mount may answer from it: it
    /// was told how old the absence of a name may be.
    pub(in crate::namespace) fn recently_absent(
        &self,
        parent: InodeNo,
        prefix: &str,
        name: &str,
    ) -> Option<Duration> {
        let age_max = self.config.negative_ttl;
        if age_max.is_zero() {
            return None;
        }
        let asked = self.recent.absent(prefix, name, self.now(), age_max)?;
        let is_outdated = self.local_changes.invalidates(prefix, name, asked)
            || self.table.is_known_since(parent, name, asked.into());
        (!is_outdated).then_some(asked)
    }

    /// How long the kernel may keep the absence of `name`, which was just not found: less if a
    /// listing said so that was made before.
    #[must_use]
    pub fn negative_ttl(&self, parent: InodeNo, name: &OsStr) -> Duration {
        let ttl = self.config.negative_ttl;
        let key = names::parse(name).and_then(|name| {
            let prefix = self.table.directory_prefix(parent)?;
            names::file_key(&prefix, name)
        });
        let told = key.ok().and_then(|key| self.negative.of(key.as_str()));
        match told {
            Some(Absence {
                asked,
                is_remembered: true,
            }) => ttl.saturating_sub(self.clock.now().saturating_sub(asked)),
            Some(_) => ttl,
            None => Duration::ZERO,
        }
    }

    /// Nothing in the bucket is called `name` any more in the directory `parent`, whose prefix is
    /// `prefix`. A directory that is kept stays, and is returned.
    pub(in crate::namespace) fn gone(
        &self,
        parent: InodeNo,
        prefix: &str,
        name: &str,
        asked: Duration,
    ) -> Option<InodeNo> {
        self.recent.distrust(prefix, name);
        let ino = self.table.child(parent, name)?;
        if self.table.is_kept(ino) {
            return Some(ino);
        }
        self.table.detach_unless_newer(parent, name, asked.into());
        None
    }

    /// The reply to a lookup of a name that is not in the bucket.
    pub(in crate::namespace) fn absent(
        &self,
        parent: InodeNo,
        prefix: &str,
        name: &str,
        absence: Absence,
    ) -> Result<Entry, FsError> {
        let Some(ino) = self.gone(parent, prefix, name, absence.asked) else {
            let key = names::file_key(prefix, name)?;
            self.negative.told(key.as_str(), absence);
            return Err(FsError::NotFound);
        };
        let kept = self.table.admit_kept(ino)?;
        Ok(self.entry(kept.ino, &kept.found, self.config.ttl))
    }
}
