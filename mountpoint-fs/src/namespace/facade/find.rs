//! How the namespace finds out what a name is: what is known already, what is asked, and with whom
//! it waits.
//!
//! Knows nothing of lookup counts. Holds no lock across an await. Runs on whatever thread polls it.

use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::types::{Key, ListRequest};

use super::Namespace;
use crate::config::limits::{LIST_PAGE_KEYS, LOOKUP_KEYS};
use crate::namespace::listing::cache::ListingCache;
use crate::namespace::listing::page::Page;
use crate::namespace::moment::Moment;
use crate::namespace::names;
use crate::namespace::resolve::probe::{self, Answer};
use crate::namespace::resolve::strategy::{
    self, Beside, Directory, Extent, Known, NameProbe, PageProbe, Probe,
};
use crate::namespace::resolve::{Below, Gathering, Subtree};
use crate::namespace::version::Found;
use crate::operation::{FileKind, FsError, InodeNo};

impl Namespace {
    /// Asks S3 about `name`, or waits with other lookups for the answer; an absence is never older
    /// than the question. All other names of the answer are kept for other lookups.
    async fn find(&self, parent: InodeNo, prefix: &str, name: &str) -> Result<Answer, FsError> {
        let key = names::file_key(prefix, name)?;
        let is_in_flight = self.lookups.is_in_flight(&key);
        let probe = self.probe_of_name(parent, (prefix, name), is_in_flight);
        let begin = || {
            let lookup_batching = Arc::clone(&self.lookup_batching);
            let first_bytes = Arc::clone(&self.first_bytes);
            let (client, clock) = (Arc::clone(&self.client), self.clock.clone());
            let (known, ttl) = (Arc::clone(&self.known), self.config.ttl);
            let (key, prefix) = (key.clone(), prefix.to_owned());
            let (is_posix, hidden) = (self.is_posix, Arc::clone(&self.hidden));
            let was_file = is_posix && self.table.child_kind(parent, name) == Some(FileKind::File);
            async move {
                let asked = clock.now();
                let spend = || first_bytes.spend(clock.now().into());
                let found = probe::find(&client, &clock, &prefix, &key, probe, spend);
                let described = was_file.then(|| client.head_details(&key));
                let (seen, described) = probe::together(&clock, found, described).await?;
                if seen.first_bytes_failed {
                    first_bytes.failed(clock.now().into());
                }
                hidden.looked_up(&key, &seen.without_etag);
                let was_guessed = matches!(probe, NameProbe::Below { .. });
                if seen.found == Some(Found::Directory) || was_guessed {
                    lookup_batching.guessed(&prefix, seen.found == Some(Found::Directory));
                }
                let (found, posix) = if is_posix {
                    probe::carried(&client, &key, seen.found, seen.lacks_marker, described).await?
                } else {
                    (seen.found, None)
                };
                let (now, valid_until) = (clock.now().into(), (seen.received_at + ttl).into());
                // No page says what objects carry.
                let recent = (!is_posix).then_some(&known.pages);
                let valid = (asked, now, valid_until);
                let names = deliver_below(recent, seen.below, (&prefix, &key), valid);
                Ok(Answer {
                    found,
                    posix,
                    asked,
                    received_at: seen.received_at,
                    is_own: true,
                    first_bytes: seen.first_bytes,
                    names,
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
        answer.is_own = is_own;
        let is_valid = answer.found.is_some() && answer.received_at + self.config.ttl > began;
        if is_own || is_valid {
            return Ok(answer);
        }
        // Others had asked before: what was written since is not in the answer. Whatever is in
        // flight now is younger.
        self.lookups.join(key.clone(), begin).await
    }

    /// Which request finds out what `name` is.
    fn probe_of_name(
        &self,
        parent: InodeNo,
        (prefix, name): (&str, &str),
        is_in_flight: bool,
    ) -> NameProbe {
        let mut known = Known {
            is_in_flight,
            ..Known::default()
        };
        if !is_in_flight {
            known.beside = self.beside(parent, prefix, name);
        }
        match strategy::decide(&known) {
            Probe::Name(NameProbe::FirstBytes) if !self.first_bytes.spend(self.now()) => {
                NameProbe::ByName
            }
            Probe::Name(probe) => probe,
            // Nothing else is asked without a directory that may be listed.
            Probe::FindOut(_) | Probe::Absent | Probe::Page(_) | Probe::PageInFlight => {
                NameProbe::ByName
            }
        }
    }

    /// The state of the names beside `name`.
    fn beside(&self, parent: InodeNo, prefix: &str, name: &str) -> Beside {
        let Some(siblings) = self.known.pages.siblings(prefix, name) else {
            return Beside::Nothing;
        };
        let now = self.clock.now();
        if self.lookup_batching.is_making(prefix, now) {
            return Beside::Creating;
        }
        let kind = self.table.child_kind(parent, name);
        // A program that has just listed the directory asks what its names are, and opens what is
        // known.
        let wants_first_bytes = !self.is_posix
            && !self.walks.was_listed(prefix)
            && self.first_bytes.are_worth_it(now.into());
        let was_wrong = self.lookup_batching.was_wrong(prefix);
        Beside::names(&siblings, name, kind, (was_wrong, wants_first_bytes))
    }

    /// The facts that decide whether the directory `prefix` is listed for a look-up of `name`.
    pub(super) fn known_of_directory(
        &self,
        prefix: &Arc<str>,
        name: &str,
        is_absent: bool,
    ) -> Result<Known, FsError> {
        let now = self.clock.now();
        let is_creating = self.lookup_batching.is_making(prefix, now);
        Ok(Known {
            is_absent,
            is_in_flight: self.lookups.is_in_flight(&names::file_key(prefix, name)?),
            needs_metadata: self.is_posix,
            lists_in_order: self.client.lists_in_order(),
            directory: match self.gatherings.is_in_flight(&**prefix) {
                true => Directory::InFlight { is_creating },
                false => Directory::Unasked {
                    is_creating,
                    lookups: None,
                },
            },
            ..Known::default()
        })
    }

    /// Lists the directory that `name` is in, or waits for the page of it that is in flight for
    /// other look-ups. `None` if it cannot be had: this look-up asks for itself.
    pub(super) async fn gather(
        &self,
        prefix: &Arc<str>,
        name: &str,
        page: Option<PageProbe>,
    ) -> Option<Gathering> {
        let began = self.clock.now();
        let mut stem = name.chars();
        stem.next_back();
        let begins_at_name = page.is_some_and(|page| page.begins_at_name);
        let behind = begins_at_name.then(|| stem.as_str().to_owned());
        let keys = match page.map(|page| page.extent) {
            Some(Extent::Around) => LOOKUP_KEYS,
            Some(Extent::Page) | None => LIST_PAGE_KEYS,
        };
        let begin = || self.list_for_lookups(Arc::clone(prefix), behind, keys);
        let gathering = self.gatherings.join(Arc::clone(prefix), begin).await;
        let mut gathering = gathering.ok()?;
        gathering.is_own = page.is_some() && gathering.page.asked >= began;
        Some(gathering)
    }

    /// One page of the directory `prefix`, of so many keys, which answers lookups from then on.
    fn list_for_lookups(
        &self,
        prefix: Arc<str>,
        behind: Option<String>,
        keys: u16,
    ) -> impl Future<Output = Result<Gathering, FsError>> + Send + 'static {
        let (client, clock) = (Arc::clone(&self.client), self.clock.clone());
        let (known, lookup_batching) = (Arc::clone(&self.known), Arc::clone(&self.lookup_batching));
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
            let valid_until = (now + ttl).into();
            known
                .pages
                .delivered(&prefix, &page, now.into(), valid_until);
            Ok(Gathering { page, is_own: true })
        }
    }

    /// Asks until the answer is newer than any change that this mount has made to the name, and
    /// than what is known of it if that is something else. A file does not hide a directory that is
    /// kept; a directory that S3 knows need not be. Returns the prefix as well that the directory
    /// `parent` has now: it may have been renamed meanwhile.
    pub(super) async fn find_unchanged(
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
                || self.known.changes.invalidates(&prefix, name, asked)
                || answer.found.as_ref().is_some_and(is_contradicted)
            {
                continue;
            }
            if let Some(ino) = self.table.child(parent, name) {
                match answer.found {
                    Some(Found::Directory) => self.table.unkeep(ino),
                    Some(Found::File(_)) if self.is_held_directory(ino) => answer.found = None,
                    Some(Found::File(_)) | None => {}
                }
            }
            return Ok((prefix, answer));
        }
    }

    /// Whether `ino` is a directory that is there whatever the bucket says.
    fn is_held_directory(&self, ino: InodeNo) -> bool {
        let is_written = || {
            let view = self.table.view(ino);
            view.is_ok_and(|view| view.found == Found::Directory)
                && self.table.has_written_below(ino)
        };
        self.table.is_kept(ino) || is_written()
    }

    /// Whether the directory `parent` has another prefix by now.
    pub(crate) fn is_moved(&self, parent: InodeNo, prefix: &str) -> bool {
        let now = self.table.directory_prefix(parent);
        now.is_ok_and(|now| now != prefix)
    }
}

/// Lets the `below` of an answer about `key`, a name in `directory`, answer lookups in the cache
/// `recent`. Returns the page of all names in the directory `key`, if there is one.
fn deliver_below(
    recent: Option<&ListingCache>,
    below: Vec<Below>,
    (directory, key): (&str, &Key),
    (asked, now, valid_until): (Duration, Moment, Moment),
) -> Option<Arc<Page>> {
    let own = names::directory_prefix(key);
    let mut names = None;
    for below in below {
        let prefix = Arc::clone(&below.prefix);
        let page = Arc::new(below.page(asked));
        // A page that has nothing but the name itself helps no other lookup.
        let is_of_use = *prefix != *directory || page.entries.len() > 1;
        if let Some(recent) = recent.filter(|_| is_of_use) {
            recent.delivered(&prefix, &page, now, valid_until);
        }
        if page.is_whole() && own.as_deref() == Some(&*prefix) {
            names = Some(page);
        }
    }
    names
}
