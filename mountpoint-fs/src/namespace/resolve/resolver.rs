//! How S3 is asked what a name is, and with whom a look-up waits for the answer.
//!
//! Knows nothing of inodes and lookup counts. Holds no lock across an await. Runs on whatever
//! thread polls it.

use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::ObjectClient;
use mountpoint_client::types::{Key, ListRequest};

use super::first_bytes::FirstBytesCache;
use super::lookup_batching::{Gathering, LookupBatching};
use super::prefix_listing::{Below, Subtree};
use super::probe::{self, Answer, Question};
use super::strategy::{self, Beside, Directory, Extent, Known, NameProbe, PageProbe};
use crate::clock::Clock;
use crate::config::FsConfig;
use crate::config::limits::{LIST_PAGE_KEYS, LOOKUP_KEYS};
use crate::namespace::known::KnownNames;
use crate::namespace::listing::{HiddenKeys, Page};
use crate::namespace::names;
use crate::namespace::single_flight::SingleFlight;
use crate::namespace::version::Found;
use crate::operation::{FileKind, FsError};

/// The questions to S3 about names, and what they bring along. Shared with its requests.
#[derive(Debug)]
pub(crate) struct Resolver {
    client: Arc<dyn ObjectClient>,
    clock: Clock,
    ttl: Duration,
    /// Whether objects are asked what they say of themselves (`--posix-metadata`).
    is_posix: bool,
    known: Arc<KnownNames>,
    hidden: Arc<HiddenKeys>,
    pub(crate) batching: LookupBatching,
    pub(crate) first_bytes: FirstBytesCache,
    lookups: SingleFlight<Key, Result<Answer, FsError>>,
    /// Listings that lookups wait for, by the directory's prefix.
    gatherings: SingleFlight<Arc<str>, Result<Gathering, FsError>>,
}

/// What the mount knows of a name that it asks S3 about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastKnown {
    pub(crate) kind: Option<FileKind>,
    /// Whether a program has listed the directory to its end a short time ago.
    pub(crate) was_listed: bool,
}

impl Resolver {
    pub(crate) fn new(
        client: Arc<dyn ObjectClient>,
        config: &FsConfig,
        (known, hidden): (Arc<KnownNames>, Arc<HiddenKeys>),
        clock: Clock,
    ) -> Arc<Self> {
        Arc::new(Self {
            client,
            clock,
            ttl: config.names.ttl,
            is_posix: config.write.posix_metadata,
            known,
            hidden,
            batching: LookupBatching::default(),
            first_bytes: match config.names.has_cache {
                true => FirstBytesCache::unused(),
                false => FirstBytesCache::default(),
            },
            lookups: SingleFlight::new(),
            gatherings: SingleFlight::new(),
        })
    }

    /// Asks S3 about `name`, or waits with other lookups for the answer; an absence is never older
    /// than the question. All other names of the answer are kept for other lookups.
    pub(crate) async fn find(
        self: &Arc<Self>,
        prefix: &str,
        name: &str,
        last: LastKnown,
    ) -> Result<Answer, FsError> {
        let key = names::file_key(prefix, name)?;
        let probe = match self.lookups.is_in_flight(&key) {
            true => NameProbe::ByName,
            false => self.probe_of(prefix, name, last),
        };
        let was_file = self.is_posix && last.kind == Some(FileKind::File);
        let begin = || {
            let (this, key, prefix) = (Arc::clone(self), key.clone(), prefix.to_owned());
            async move { this.ask(&prefix, &key, probe, was_file).await }
        };
        let mut is_own = false;
        let begin_own = || {
            is_own = true;
            begin()
        };
        let began = self.clock.now();
        let mut answer = self.lookups.join(key.clone(), begin_own).await?;
        answer.is_own = is_own;
        let is_valid = answer.found.is_some() && answer.received_at + self.ttl > began;
        if is_own || is_valid {
            return Ok(answer);
        }
        // Others had asked before: what was written since is not in the answer. Whatever is in
        // flight now is younger.
        self.lookups.join(key.clone(), begin).await
    }

    /// Asks S3 what `key` is, a name in the directory `prefix`.
    async fn ask(
        &self,
        prefix: &str,
        key: &Key,
        probe: NameProbe,
        was_file: bool,
    ) -> Result<Answer, FsError> {
        let clock = &self.clock;
        let question = Question {
            client: &*self.client,
            clock,
            directory: prefix,
            key,
        };
        let asked = clock.now();
        let spend = || self.first_bytes.spend(clock.now().into());
        let found = question.find(probe, spend);
        let described = was_file.then(|| self.client.head_details(key));
        let (seen, described) = probe::together(clock, found, described).await?;
        if seen.first_bytes_failed {
            self.first_bytes.failed(clock.now().into());
        }
        self.hidden.looked_up(key, &seen.without_etag);
        let was_guessed = matches!(probe, NameProbe::Below { .. });
        if seen.found == Some(Found::Directory) || was_guessed {
            self.batching
                .guessed(prefix, seen.found == Some(Found::Directory));
        }
        let (found, posix) = if self.is_posix {
            question
                .carried(seen.found, seen.lacks_marker, described)
                .await?
        } else {
            (seen.found, None)
        };
        let names = self.keep_below(seen.below, (prefix, key), (asked, seen.received_at));
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

    /// Which request finds out what `name` is.
    fn probe_of(&self, prefix: &str, name: &str, last: LastKnown) -> NameProbe {
        match strategy::probe_of(self.beside(prefix, name, last)) {
            NameProbe::FirstBytes if !self.first_bytes.spend(self.clock.now().into()) => {
                NameProbe::ByName
            }
            probe => probe,
        }
    }

    /// The state of the names beside `name`.
    fn beside(&self, prefix: &str, name: &str, last: LastKnown) -> Beside {
        let Some(siblings) = self.known.pages.siblings(prefix, name) else {
            return Beside::Nothing;
        };
        let now = self.clock.now();
        if self.batching.is_making(prefix, now) {
            return Beside::Creating;
        }
        // A program that has just listed the directory asks what its names are, and opens what is
        // known.
        let wants_first_bytes =
            !self.is_posix && !last.was_listed && self.first_bytes.are_worth_it(now.into());
        Beside::Names {
            are_all: siblings.are_all(),
            kind: last.kind,
            suggests_directory: siblings.suggest_directory(name),
            was_wrong: self.batching.was_wrong(prefix),
            wants_first_bytes,
        }
    }

    /// The facts that decide whether the directory `prefix` is listed for a look-up of `name`.
    pub(crate) fn known_of_directory(
        &self,
        prefix: &Arc<str>,
        name: &str,
        is_absent: bool,
    ) -> Result<Known, FsError> {
        Ok(Known {
            is_absent,
            creates: None,
            is_in_flight: self.lookups.is_in_flight(&names::file_key(prefix, name)?),
            needs_metadata: self.is_posix,
            lists_in_order: self.client.lists_in_order(),
            is_creating: self.batching.is_making(prefix, self.clock.now()),
            directory: match self.gatherings.is_in_flight(&**prefix) {
                true => Directory::InFlight,
                false => Directory::Unasked,
            },
        })
    }

    /// Lists the directory that `name` is in, or waits for the page of it that is in flight for
    /// other look-ups. `None` if it cannot be had: this look-up asks for itself.
    pub(crate) async fn gather(
        self: &Arc<Self>,
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
        let begin = || {
            let (this, prefix) = (Arc::clone(self), Arc::clone(prefix));
            async move { this.list_for_lookups(prefix, behind, keys).await }
        };
        let gathering = self.gatherings.join(Arc::clone(prefix), begin).await;
        let mut gathering = gathering.ok()?;
        gathering.is_own = page.is_some() && gathering.page.asked >= began;
        Some(gathering)
    }

    /// One page of the directory `prefix`, of so many keys, which answers lookups from then on.
    async fn list_for_lookups(
        &self,
        prefix: Arc<str>,
        behind: Option<String>,
        keys: u16,
    ) -> Result<Gathering, FsError> {
        let asked = self.clock.now();
        let request = ListRequest {
            prefix: prefix.to_string(),
            delimiter: Some("/".to_owned()),
            max_keys: Some(keys),
            start_after: behind.as_ref().map(|key| format!("{prefix}{key}")),
            continuation_token: None,
        };
        let listed = self.client.list(request).await?;
        self.hidden.note(&prefix, &listed);
        let is_last = listed.continuation_token.is_none();
        if !is_last && behind.is_none() {
            self.batching.is_large(&prefix);
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
        let now = self.clock.now();
        let valid_until = (now + self.ttl).into();
        self.known
            .pages
            .delivered(&prefix, &page, now.into(), valid_until);
        Ok(Gathering { page, is_own: true })
    }

    /// Lets the `below` of an answer about `key`, a name in `directory`, answer lookups. Returns
    /// the page of all names in the directory `key`, if there is one.
    fn keep_below(
        &self,
        below: Vec<Below>,
        (directory, key): (&str, &Key),
        (asked, received_at): (Duration, Duration),
    ) -> Option<Arc<Page>> {
        let own = names::directory_prefix(key);
        let (now, valid_until) = (self.clock.now().into(), (received_at + self.ttl).into());
        let mut names = None;
        for below in below {
            let prefix = Arc::clone(&below.prefix);
            let page = Arc::new(below.page(asked));
            // A page that has nothing but the name itself helps no other lookup, and none says what
            // objects carry.
            let is_of_use = *prefix != *directory || page.entries.len() > 1;
            if is_of_use && !self.is_posix {
                self.known.pages.delivered(&prefix, &page, now, valid_until);
            }
            if page.is_whole() && own.as_deref() == Some(&*prefix) {
                names = Some(page);
            }
        }
        names
    }
}
