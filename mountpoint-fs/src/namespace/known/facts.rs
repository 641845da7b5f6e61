//! Whether what is known of a name answers a look-up without a request.
//!
//! Pure. Of several facts the youngest counts, and none from before a change of this mount.

use std::time::Duration;

use super::negative::Absence;
use crate::namespace::inodes::table::KnownInode;
use crate::namespace::listing::cache::RecentEntry;

/// The facts that the mount has of one name in a directory. Times are those of requests to S3.
#[derive(Debug, Default)]
pub(crate) struct NameFacts {
    /// Time of this mount's last change of the name, or of a directory above it.
    pub(crate) changed: Option<Duration>,
    /// The youngest valid entry on a page.
    pub(crate) listed: Option<RecentEntry>,
    /// Time of the youngest listing that lacks the name, if none has it.
    pub(crate) unlisted: Option<Duration>,
    /// The last look-up that found nothing.
    pub(crate) told: Option<Absence>,
    pub(crate) inode: Option<KnownInode>,
    /// Time at which S3 knew nothing below the directory, which this mount has made since.
    pub(crate) own_since: Option<Duration>,
    /// Whether the inode is a directory that this mount has made a moment ago.
    pub(crate) is_own_directory: bool,
}

/// How old an answer may be that costs no request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trust {
    /// Age of an absence for any look-up (`--negative-metadata-ttl`).
    pub(crate) negative_ttl: Duration,
    /// Age of an absence for a call that makes the name.
    pub(crate) create_ttl: Duration,
    /// Whether objects have attributes that no page shows (`--posix-metadata`).
    pub(crate) is_posix: bool,
}

/// The answer to a look-up.
#[derive(Debug)]
pub(crate) enum KnownAnswer<'a> {
    /// What a page shows.
    Listed(&'a RecentEntry),
    /// The inode that has the name.
    Inode,
    /// No object has the name, said S3 when it was asked at this time.
    Absent(Duration),
}

impl NameFacts {
    /// The answer, if no request is needed.
    pub(crate) fn answer(&self, trust: &Trust, now: Duration) -> Option<KnownAnswer<'_>> {
        if let Some(listed) = self.listed(trust) {
            return Some(KnownAnswer::Listed(listed));
        }
        if self.inode.is_some() && (self.own_since.is_some() || self.is_own_directory) {
            return Some(KnownAnswer::Inode);
        }
        self.absent(trust.negative_ttl, now)
            .map(KnownAnswer::Absent)
    }

    /// What a page shows of the name.
    pub(crate) fn listed(&self, trust: &Trust) -> Option<&RecentEntry> {
        let listed = self.listed.as_ref().filter(|_| !trust.is_posix)?;
        let is_other = |inode: KnownInode| inode.asked > listed.asked && !inode.is_listed;
        let is_outdated = self.is_changed_since(listed.asked) || self.inode.is_some_and(is_other);
        (!is_outdated).then_some(listed)
    }

    /// When S3 was asked that did not know the name, for a call that makes the name.
    pub(crate) fn absent_for_creation(&self, trust: &Trust, now: Duration) -> Option<Duration> {
        let told = self.told.map(|told| told.asked);
        let told = told.filter(|asked| is_younger(*asked, trust.create_ttl, now));
        self.newest(told.max(self.absent_in_listing(trust.create_ttl, now)))
    }

    fn absent(&self, age_max: Duration, now: Duration) -> Option<Duration> {
        // Nobody else knows of the directory: the last word counts, however old.
        let told = self.told.map(|told| told.asked);
        let own = self
            .own_since
            .map(|since| told.map_or(since, |told| told.max(since)));
        self.newest(own.max(self.absent_in_listing(age_max, now)))
    }

    fn absent_in_listing(&self, age_max: Duration, now: Duration) -> Option<Duration> {
        self.unlisted
            .filter(|asked| is_younger(*asked, age_max, now))
    }

    /// The absence at `asked`, unless something younger is known.
    fn newest(&self, asked: Option<Duration>) -> Option<Duration> {
        let is_newer = |asked: Duration| self.inode.is_some_and(|inode| inode.asked > asked);
        asked.filter(|asked| !self.is_changed_since(*asked) && !is_newer(*asked))
    }

    fn is_changed_since(&self, asked: Duration) -> bool {
        self.changed.is_some_and(|changed| asked < changed)
    }
}

fn is_younger(asked: Duration, age_max: Duration, now: Duration) -> bool {
    now.saturating_sub(asked) < age_max
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::namespace::listing::Listed;
    use crate::namespace::moment::Moment;
    use crate::namespace::version::Found;
    use crate::operation::FileKind;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn listed(asked: u64) -> Option<RecentEntry> {
        Some(RecentEntry {
            listed: Listed {
                name: Arc::from("a"),
                found: Found::Directory,
                is_certain: true,
            },
            asked: at(asked),
            valid_until: Moment::START,
        })
    }

    fn inode(asked: u64, is_listed: bool) -> Option<KnownInode> {
        Some(KnownInode {
            kind: FileKind::Directory,
            asked: at(asked),
            is_listed,
        })
    }

    fn told(asked: u64) -> Option<Absence> {
        Some(Absence::remembered(at(asked)))
    }

    /// At second 20, absences of up to 5 seconds count, and those of up to 8 for a creation.
    fn answer(facts: &NameFacts) -> (String, Option<u64>) {
        let trust = Trust {
            negative_ttl: at(5),
            create_ttl: at(8),
            is_posix: false,
        };
        let known = match facts.answer(&trust, at(20)) {
            Some(KnownAnswer::Listed(listed)) => format!("listed {}", listed.asked.as_secs()),
            Some(KnownAnswer::Inode) => "inode".to_owned(),
            Some(KnownAnswer::Absent(asked)) => format!("absent {}", asked.as_secs()),
            None => "ask".to_owned(),
        };
        let created = facts.absent_for_creation(&trust, at(20));
        (known, created.map(|asked| asked.as_secs()))
    }

    #[test]
    fn what_is_known_of_a_name_is_an_answer_or_is_not() {
        let facts = NameFacts::default;
        let (changed, own_since) = (Some(at(17)), Some(at(3)));
        let unlisted = |asked| Some(at(asked));
        #[rustfmt::skip]
        let table = [
            ("nothing", facts(), "ask", None),
            ("a page", NameFacts { listed: listed(16), ..facts() }, "listed 16", None),
            ("a change since", NameFacts { changed, listed: listed(16), ..facts() }, "ask", None),
            ("a change before", NameFacts { changed, listed: listed(17), ..facts() }, "listed 17", None),
            ("a younger answer", NameFacts { listed: listed(16), inode: inode(17, false), ..facts() }, "ask", None),
            ("it says the same", NameFacts { listed: listed(16), inode: inode(17, true), ..facts() }, "listed 16", None),
            ("an older answer", NameFacts { listed: listed(16), inode: inode(15, false), ..facts() }, "listed 16", None),
            ("an inode alone", NameFacts { inode: inode(19, false), ..facts() }, "ask", None),
            ("in an own directory", NameFacts { inode: inode(1, false), own_since, ..facts() }, "inode", None),
            ("an own directory", NameFacts { inode: inode(1, false), is_own_directory: true, ..facts() }, "inode", None),
            ("unlisted", NameFacts { unlisted: unlisted(16), ..facts() }, "absent 16", Some(16)),
            ("for creations", NameFacts { unlisted: unlisted(13), ..facts() }, "ask", Some(13)),
            ("too old", NameFacts { unlisted: unlisted(12), ..facts() }, "ask", None),
            ("made since", NameFacts { changed, unlisted: unlisted(16), ..facts() }, "ask", None),
            ("found since", NameFacts { inode: inode(17, false), unlisted: unlisted(16), ..facts() }, "ask", None),
            ("told", NameFacts { told: told(18), ..facts() }, "ask", Some(18)),
            ("told and unlisted", NameFacts { told: told(18), unlisted: unlisted(16), ..facts() }, "absent 16", Some(18)),
            ("absent where all is own", NameFacts { own_since, ..facts() }, "absent 3", None),
            ("taken away there", NameFacts { changed, own_since, told: told(17), ..facts() }, "absent 17", Some(17)),
            ("made there", NameFacts { changed, own_since, ..facts() }, "ask", None),
        ];
        for (what, facts, expected, created) in table {
            assert_eq!(answer(&facts), (expected.to_owned(), created), "{what}");
        }
    }

    #[test]
    fn no_page_tells_what_objects_carry() {
        let trust = Trust {
            is_posix: true,
            ..Trust::default()
        };
        let facts = NameFacts {
            listed: listed(16),
            ..NameFacts::default()
        };
        assert!(facts.answer(&trust, at(16)).is_none());
    }
}
