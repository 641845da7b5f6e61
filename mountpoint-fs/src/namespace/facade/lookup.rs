//! Look-ups: what answers a name, and what is asked for it.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use super::Namespace;
use crate::namespace::inodes::Observed;
use crate::namespace::known::{Absence, KnownAnswer, NameFacts};
use crate::namespace::listing::Listed;
use crate::namespace::listing::cache::RecentEntry;
use crate::namespace::names;
use crate::namespace::resolve::strategy::{self, Directory, Fact, Probe};
use crate::namespace::resolve::{Answer, Gathering, LastKnown};
use crate::namespace::version::Found;
use crate::operation::{CallMark, Entry, FileKind, FsError, InodeNo, Purpose};

impl Namespace {
    /// Finds `name` in the directory `parent` and raises its inode's lookup count by one.
    pub async fn lookup(
        &self,
        parent: InodeNo,
        name: &OsStr,
        purpose: &dyn Purpose,
    ) -> Result<Entry, FsError> {
        let name = names::parse(name)?;
        if let Some(written) = self.table.admit_written(parent, name)? {
            return Ok(self.entry(written.ino, &written.found, self.config.ttl));
        }
        let prefix: Arc<str> = Arc::from(self.table.directory_prefix(parent)?);
        self.known.recall_names(&prefix, name).await;
        if let Some(answer) = self.answer_known(parent, &prefix, name) {
            return answer;
        }
        if let Some(entry) = self.ask_directory(parent, (&prefix, name), purpose).await? {
            return Ok(entry);
        }
        match self.ask_name(parent, name, purpose.call()).await {
            Err(error) if self.is_offline(&error) => {
                let answer = self.without_bucket(parent, (&prefix, name), purpose);
                answer.await.unwrap_or(Err(error))
            }
            answer => answer,
        }
    }

    /// The answer that is known without a request.
    fn answer_known(
        &self,
        parent: InodeNo,
        prefix: &str,
        name: &str,
    ) -> Option<Result<Entry, FsError>> {
        let facts = self.facts(parent, prefix, name);
        match facts.answer(self.known.trust(), self.clock.now())? {
            KnownAnswer::Listed(recent) => {
                self.resolver.batching.hit(prefix, self.clock.now());
                Some(self.admit_recent(parent, recent))
            }
            KnownAnswer::Inode => {
                let known = self.table.admit_known(parent, name).transpose()?;
                Some(known.map(|known| self.entry(known.ino, &known.found, self.config.ttl)))
            }
            KnownAnswer::Absent(asked) => {
                Some(self.absent(parent, prefix, name, Absence::remembered(asked)))
            }
        }
    }

    fn facts(&self, parent: InodeNo, prefix: &str, name: &str) -> NameFacts {
        self.known.facts(&self.table, (parent, prefix), name)
    }

    /// When S3 was asked that did not know `name`, if that is not too old for a caller that makes
    /// the name.
    fn absent_for_creation(&self, parent: InodeNo, prefix: &str, name: &str) -> Option<Duration> {
        let facts = self.facts(parent, prefix, name);
        facts.absent_for_creation(self.known.trust(), self.clock.now())
    }

    /// Whether the mount goes on without the answer that `error` stands for.
    pub(super) fn is_offline(&self, error: &FsError) -> bool {
        let is_away = matches!(error, FsError::Client(error) if error.kind.is_retryable());
        self.config.works_offline && is_away
    }

    /// The answer to a look-up while S3 cannot be reached: a directory that is known is there, and
    /// a name of which nothing is known is absent for a call that makes a file of it. The file is
    /// stored on the condition that nobody else has made it. `None` if there is no answer.
    async fn without_bucket(
        &self,
        parent: InodeNo,
        (prefix, name): (&str, &str),
        purpose: &dyn Purpose,
    ) -> Option<Result<Entry, FsError>> {
        let is_file = |made: Option<FileKind>| made.is_some_and(|kind| kind != FileKind::Directory);
        match self.table.child_kind(parent, name) {
            Some(FileKind::Directory) => {
                let known = self.table.admit_known(parent, name).transpose()?;
                Some(known.map(|known| self.entry(known.ino, &known.found, OFFLINE_TTL)))
            }
            // A directory is made on no condition.
            None if is_file(purpose.made_kind(name).await) => {
                // S3 was never asked.
                let absence = Absence::remembered(Duration::ZERO);
                Some(self.absent(parent, prefix, name, absence))
            }
            Some(_) | None => None,
        }
    }

    /// The answer of a known absence, or of a page of the directory, to a look-up; `None` if
    /// the name itself is to be asked for.
    async fn ask_directory(
        &self,
        parent: InodeNo,
        (prefix, name): (&Arc<str>, &str),
        purpose: &dyn Purpose,
    ) -> Result<Option<Entry>, FsError> {
        let mut absent_since = self.absent_for_creation(parent, prefix, name);
        let mut known = self
            .resolver
            .known_of_directory(prefix, name, absent_since.is_some())?;
        let mut probe = strategy::decide(&known);
        loop {
            probe = match probe {
                Probe::FindOut(Fact::Intent) => {
                    known.creates = Some(purpose.made_kind(name).await.is_some());
                    // The file may have been made meanwhile, or the directory moved.
                    if known.is_absent {
                        absent_since = self.absent_for_creation(parent, prefix, name);
                        absent_since.take_if(|_| self.is_moved(parent, prefix));
                        known.is_absent = absent_since.is_some();
                    }
                    strategy::decide(&known)
                }
                Probe::FindOut(Fact::Lookups) => {
                    let now = self.clock.now();
                    let decide = |lookups| {
                        known.directory = Directory::Counted(lookups);
                        strategy::decide(&known)
                    };
                    self.resolver.batching.miss(prefix, now, decide)
                }
                Probe::Absent => {
                    let Some(asked) = absent_since else {
                        return Ok(None);
                    };
                    self.resolver.batching.hit(prefix, self.clock.now());
                    let absence = Absence::remembered(asked);
                    return self.absent(parent, prefix, name, absence).map(Some);
                }
                Probe::Page(page) => {
                    let gathering = self.resolver.gather(prefix, name, Some(page)).await;
                    return self.answer_from(parent, (prefix, name), gathering);
                }
                Probe::PageInFlight => {
                    let gathering = self.resolver.gather(prefix, name, None).await;
                    return self.answer_from(parent, (prefix, name), gathering);
                }
                Probe::Name => return Ok(None),
            }
        }
    }

    /// The answer about `name` of a page that was listed for look-ups, if it has one.
    fn answer_from(
        &self,
        parent: InodeNo,
        (prefix, name): (&Arc<str>, &str),
        gathering: Option<Gathering>,
    ) -> Result<Option<Entry>, FsError> {
        let Some(Gathering { page, is_own }) = gathering else {
            return Ok(None);
        };
        if self.is_moved(parent, prefix) {
            return Ok(None);
        }
        self.names_listed(parent, &page);
        let facts = self.facts(parent, prefix, name);
        if let Some(recent) = facts.listed(self.known.trust()) {
            self.resolver.batching.hit(prefix, self.clock.now());
            return self.admit_recent(parent, recent).map(Some);
        }
        let is_newest = facts.changed.is_none_or(|changed| page.asked >= changed);
        if is_own && is_newest && page.is_without(name) {
            let absence = Absence::asked(page.asked);
            return self.absent(parent, prefix, name, absence).map(Some);
        }
        Ok(None)
    }

    /// Asks S3 for the name, and hands out what it is. An `open` of the same `call` need not ask.
    async fn ask_name(
        &self,
        parent: InodeNo,
        name: &str,
        call: Option<CallMark>,
    ) -> Result<Entry, FsError> {
        let (prefix, answer) = self.find_unchanged(parent, name).await?;
        let Answer {
            found,
            posix,
            asked,
            received_at,
            is_own,
            first_bytes,
            names,
        } = answer;
        self.walks
            .looked_up((&prefix, name), found.is_some(), asked);
        let Some(found) = found else {
            if self.known.pages.absent(&prefix, name).is_none() {
                self.known.saved.note_known(&prefix);
            }
            return self.absent(parent, &prefix, name, Absence::asked(asked));
        };
        // A saved listing that has the name would have answered, or is wrong about it.
        self.known.saved.note_known(&prefix);
        let observed = Observed {
            call: call.filter(|_| is_own),
            ..self.observed(asked, received_at)
        };
        let admitted = self.table.admit(parent, name, &found, observed)?;
        self.table.set_posix(admitted.ino, posix);
        if let Some(names) = names {
            self.names_listed(admitted.ino, &names);
        }
        if let (Some(bytes), Found::File(version)) = (first_bytes, &found) {
            let until = (self.clock.now() + FIRST_BYTES_AGE_MAX).into();
            self.resolver
                .first_bytes
                .keep(admitted.ino, &version.etag, &bytes, until);
        }
        let left = observed.valid_until.left(self.now());
        Ok(self.entry(admitted.ino, &admitted.found, left))
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
            let last = LastKnown {
                kind: self.table.child_kind(parent, name),
                was_listed: self.walks.was_listed(&prefix),
            };
            let mut answer = self.resolver.find(&prefix, name, last).await?;
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

    /// How long the kernel may keep the absence of `name`, which was just not found: less if a
    /// listing said so that was made before.
    #[must_use]
    pub fn negative_ttl(&self, parent: InodeNo, name: &OsStr) -> Duration {
        let key = names::parse(name).and_then(|name| {
            let prefix = self.table.directory_prefix(parent)?;
            names::file_key(&prefix, name)
        });
        key.map_or(Duration::ZERO, |key| self.known.negative_ttl(&key))
    }

    /// Nothing in the bucket has the name `name` now in the directory `parent`, whose prefix is
    /// `prefix`. A directory that is kept stays, as does one with a file that is being written; it
    /// is returned.
    pub(super) fn gone(
        &self,
        parent: InodeNo,
        prefix: &str,
        name: &str,
        asked: Duration,
    ) -> Option<InodeNo> {
        self.known.pages.distrust(prefix, name);
        let ino = self.table.child(parent, name)?;
        if self.table.is_kept(ino) {
            return Some(ino);
        }
        if self.table.has_written_below(ino) {
            self.table.keep(ino);
            return Some(ino);
        }
        self.table.detach_unless_newer(parent, name, asked.into());
        None
    }

    /// The reply to a lookup of a name that is not in the bucket.
    fn absent(
        &self,
        parent: InodeNo,
        prefix: &str,
        name: &str,
        absence: Absence,
    ) -> Result<Entry, FsError> {
        let Some(ino) = self.gone(parent, prefix, name, absence.asked) else {
            let key = names::file_key(prefix, name)?;
            self.known.told_absent(&key, absence);
            return Err(FsError::NotFound);
        };
        let kept = self.table.admit_kept(ino)?;
        Ok(self.entry(kept.ino, &kept.found, self.config.ttl))
    }

    /// Hands out what a page said of a name a moment ago, for as long as that is valid.
    fn admit_recent(&self, parent: InodeNo, recent: &RecentEntry) -> Result<Entry, FsError> {
        let observed = Observed::new(recent.asked.into(), recent.valid_until);
        let Listed { name, found, .. } = &recent.listed;
        let admitted = self.table.admit(parent, name, found, observed)?;
        let left = recent.valid_until.left(self.now());
        Ok(self.entry(admitted.ino, &admitted.found, left))
    }
}

/// How long a directory is there without an answer of S3, before it is asked again.
pub(super) const OFFLINE_TTL: Duration = Duration::from_secs(1);

/// How long the first bytes wait. Longer than any system call takes from lookup to open.
const FIRST_BYTES_AGE_MAX: Duration = Duration::from_secs(1);
