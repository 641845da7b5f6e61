//! What a look-up asks S3, by what is known of the name. Never what it answers.
//!
//! Pure. A path is walked name by name, so what a request of each name costs is paid one after the
//! other. A LIST of what is below a name settles at once that it is a directory, and a GET beside
//! it that it is a file; the LIST of the keys that begin with the name settles either, unless many
//! keys come between the two (`a-1`, `a-2`, … between `a` and `a/`). The names beside it tell
//! which of them to send, and a name's ending where they do not. One page of the directory answers
//! many look-ups, so after a few of them it is listed.

use crate::config::limits::{BATCH_LOOKUPS, BATCH_LOOKUPS_MAX, CREATE_RUN};
use crate::namespace::listing::Siblings;
use crate::operation::FileKind;

/// What is known of a name that is looked up, when nothing that is known answers.
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not exclude each other"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::namespace) struct Known {
    /// S3 knew nothing of the name a moment ago. That is enough for a call that creates the file.
    pub(in crate::namespace) is_absent: bool,
    /// Whether the call creates a file of this name; `None` before that was found out.
    pub(in crate::namespace) creates: Option<bool>,
    /// The same name is being looked up.
    pub(in crate::namespace) is_in_flight: bool,
    /// Look-ups read the metadata of objects, which no page shows.
    pub(in crate::namespace) needs_metadata: bool,
    /// The server lists in the order of keys, and from any key on.
    pub(in crate::namespace) lists_in_order: bool,
    pub(in crate::namespace) directory: Directory,
    pub(in crate::namespace) beside: Beside,
}

impl Known {
    /// These facts, and those of the directory's look-ups.
    pub(in crate::namespace) fn with(mut self, counted: Lookups) -> Self {
        if let Directory::Unasked { lookups, .. } = &mut self.directory {
            *lookups = Some(counted);
        }
        self
    }
}

/// What is known of the directory that a name is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::namespace) enum Directory {
    /// The look-up has asked for a page of it already, or must not.
    #[default]
    Asked,
    /// A page of it is in flight for other look-ups.
    InFlight { is_creating: bool },
    Unasked {
        /// Files are being created in it, one after the other.
        is_creating: bool,
        /// A program opens its subdirectories one after the other.
        is_walked: bool,
        /// `None` before this look-up was counted.
        lookups: Option<Lookups>,
    },
}

/// Look-ups of one directory's names, this one among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::namespace) struct Lookups {
    /// Look-ups that needed a request since the directory was last listed for look-ups.
    pub(in crate::namespace) misses: u32,
    /// Look-ups that were answered by what was known since then.
    pub(in crate::namespace) hits: u32,
    /// Misses after which the directory is listed.
    pub(in crate::namespace) misses_max: u32,
    /// What was listed last, if anything was.
    pub(in crate::namespace) listed: Option<Extent>,
    /// The directory has more names than a page of a listing.
    pub(in crate::namespace) is_large: bool,
    /// Files created with nothing looked up between them but their names.
    pub(in crate::namespace) created: u32,
}

/// What is known of the names beside a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::namespace) enum Beside {
    /// Not looked for.
    #[default]
    Unread,
    Nothing,
    /// The name is probably new, because files are being created here.
    Creating,
    Names {
        are_all: bool,
        /// What the name was last known to be.
        kind: Option<FileKind>,
        /// They, or the name's ending, suggest a directory.
        suggests_directory: bool,
        /// The last name beside it that was taken for a directory was none.
        was_wrong: bool,
        /// The first bytes of a file are likely to be read.
        wants_first_bytes: bool,
    },
}

impl Beside {
    pub(in crate::namespace) fn names(
        siblings: &Siblings,
        name: &str,
        kind: Option<FileKind>,
        (was_wrong, wants_first_bytes): (bool, bool),
    ) -> Self {
        Self::Names {
            are_all: siblings.are_all(),
            kind,
            suggests_directory: siblings.suggest_directory(name),
            was_wrong,
            wants_first_bytes,
        }
    }
}

/// What a look-up does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::namespace) enum Probe {
    /// Asks nothing before this is known.
    FindOut(Fact),
    /// Asks nothing: the name is absent.
    Absent,
    /// Asks for a page of the directory, which answers other look-ups as well.
    Page(PageProbe),
    /// Waits for the page of the directory that is in flight.
    PageInFlight,
    /// Asks for the name, or waits for the same question.
    Name(NameProbe),
}

/// A fact that costs something to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::namespace) enum Fact {
    /// Whether the call creates a file.
    Intent,
    /// The look-ups of the directory, which count this one from then on.
    Lookups,
    /// The names beside the name.
    Beside,
}

/// Which request finds out what a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::namespace) enum NameProbe {
    /// The keys that begin with it. Enough in a directory that is small, or not known.
    ByName,
    /// What is below it: it is likely to be a directory.
    Below {
        /// Its first bytes next, if it turns out to be none.
        then_first_bytes: bool,
    },
    /// Its first bytes, and at the same time what is below it: it is likely to be a file, and to be
    /// opened.
    FirstBytes,
}

/// A page of a directory that is listed for look-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::namespace) struct PageProbe {
    pub(in crate::namespace) extent: Extent,
    /// Where a page begins.
    pub(in crate::namespace) begins_at_name: bool,
    /// Misses from then on after which the directory is listed again.
    pub(in crate::namespace) misses_max: u32,
}

/// What was listed of a directory for its look-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::namespace) enum Extent {
    /// A few names around one: files are created there, and it is of use to know what is absent.
    Around,
    /// All names, or as many as there are in a page.
    Page,
}

/// What is likely to be looked up behind a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::namespace) enum Expected {
    Anything,
    /// The other names of the directory, which is walked.
    Others,
    /// New names: a file is created of this one, as of those before it.
    New,
}

/// What a look-up does next.
pub(in crate::namespace) fn decide(known: &Known) -> Probe {
    if known.is_absent {
        match known.creates {
            None => return Probe::FindOut(Fact::Intent),
            Some(true) => return Probe::Absent,
            Some(false) => {}
        }
    }
    if known.lists_in_order
        && !known.is_in_flight
        && let Some(probe) = ask_directory(known)
    {
        return probe;
    }
    if known.is_in_flight {
        return Probe::Name(NameProbe::ByName);
    }
    ask_name(known.beside)
}

/// What is asked of the directory, or has to be known for that; `None` for nothing.
fn ask_directory(known: &Known) -> Option<Probe> {
    let (Directory::InFlight { is_creating } | Directory::Unasked { is_creating, .. }) =
        known.directory
    else {
        return None;
    };
    let creates = match (is_creating, known.creates) {
        (false, _) => false,
        (true, None) => return Some(Probe::FindOut(Fact::Intent)),
        (true, Some(creates)) => creates,
    };
    if known.needs_metadata && !creates {
        return None;
    }
    let Directory::Unasked {
        is_walked, lookups, ..
    } = known.directory
    else {
        return Some(Probe::PageInFlight);
    };
    let Some(lookups) = lookups else {
        return Some(Probe::FindOut(Fact::Lookups));
    };
    let expected = match (creates, is_walked) {
        (true, _) => Expected::New,
        (false, true) => Expected::Others,
        (false, false) => Expected::Anything,
    };
    due(&lookups, expected).map(Probe::Page)
}

/// The page that is to be listed for look-ups now.
///
/// Where pages answer few of the look-ups that follow (random names of a huge directory), they are
/// listed ever less often.
pub(in crate::namespace) fn due(lookups: &Lookups, expected: Expected) -> Option<PageProbe> {
    let Lookups {
        misses,
        hits,
        misses_max,
        listed,
        is_large,
        created,
    } = *lookups;
    let page = |misses_max| PageProbe {
        extent: Extent::Page,
        begins_at_name: is_large,
        misses_max,
    };
    let is_new = expected == Expected::New && created >= CREATE_RUN;
    if is_new && (listed.is_none() || hits >= CREATE_RUN) {
        // What was of use last is it again.
        return Some(match listed {
            Some(Extent::Page) => page(misses_max),
            Some(Extent::Around) | None => PageProbe {
                extent: Extent::Around,
                begins_at_name: true,
                misses_max,
            },
        });
    }
    let was_listed = listed.is_some();
    if expected == Expected::Others && (!was_listed || hits > 0) {
        return Some(page(misses_max));
    }
    match (was_listed, hits >= BATCH_LOOKUPS) {
        (true, true) => Some(page(BATCH_LOOKUPS)),
        _ if misses <= misses_max => None,
        (true, false) => Some(page((misses_max * 4).min(BATCH_LOOKUPS_MAX))),
        (false, _) => Some(page(misses_max)),
    }
}

/// Which request finds out what the name is. Nothing that is known already is fetched: the kernel
/// may have it.
fn ask_name(beside: Beside) -> Probe {
    let by_name = Probe::Name(NameProbe::ByName);
    let below = |then_first_bytes| Probe::Name(NameProbe::Below { then_first_bytes });
    match beside {
        Beside::Unread => Probe::FindOut(Fact::Beside),
        Beside::Nothing | Beside::Creating | Beside::Names { are_all: true, .. } => by_name,
        Beside::Names {
            kind: Some(kind), ..
        } => match kind {
            FileKind::Directory => below(false),
            FileKind::File | FileKind::SymbolicLink => by_name,
        },
        Beside::Names {
            suggests_directory: true,
            was_wrong,
            wants_first_bytes,
            ..
        } => match was_wrong {
            true => by_name,
            false => below(wants_first_bytes),
        },
        Beside::Names {
            wants_first_bytes, ..
        } => match wants_first_bytes {
            true => Probe::Name(NameProbe::FirstBytes),
            false => by_name,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use mountpoint_client::types::ETag;

    use super::*;
    use crate::namespace::listing::page::{Listed, Page};
    use crate::namespace::version::{Found, Version};

    const BY_NAME: Probe = Probe::Name(NameProbe::ByName);
    const FIRST_BYTES: Probe = Probe::Name(NameProbe::FirstBytes);

    fn below(then_first_bytes: bool) -> Probe {
        Probe::Name(NameProbe::Below { then_first_bytes })
    }

    /// Names beside it, a directory's with a slash behind it and `…` if there are more.
    fn siblings(names: &str, name: &str) -> Siblings {
        let is_more = names.contains('…');
        let listed = |name: &str| Listed {
            name: Arc::from(name.trim_end_matches('/')),
            found: if name.ends_with('/') {
                Found::Directory
            } else {
                Found::File(Version {
                    size: 1,
                    etag: ETag::from_header("\"e\""),
                    mtime: SystemTime::UNIX_EPOCH,
                    is_archived: false,
                })
            },
            is_certain: true,
        };
        let names = names.split_whitespace().filter(|name| *name != "…");
        let entries = names.map(listed).collect();
        let page = if is_more {
            Page::some(entries, Duration::ZERO)
        } else {
            Page::whole(entries, Duration::ZERO)
        };
        Siblings::of(&page, name)
    }

    /// What is asked for `name` if it is new to the mount: `was_wrong` and `wants_first_bytes` as
    /// given.
    fn probe(siblings: &Siblings, name: &str, kind: Option<FileKind>, told: (bool, bool)) -> Probe {
        decide(&Known {
            lists_in_order: true,
            beside: Beside::names(siblings, name, kind, told),
            ..Known::default()
        })
    }

    #[test]
    fn the_names_beside_it_tell_what_is_asked_for_a_name() {
        #[track_caller]
        fn check(beside: &str, name: &str, expected: [Probe; 3]) {
            let siblings = siblings(beside, name);
            let told = [(false, true), (false, false), (true, true)]
                .map(|told| probe(&siblings, name, None, told));
            assert_eq!(told, expected, "{name} beside {beside}");
        }
        let directory = [below(true), below(false), BY_NAME];
        let file = [FIRST_BYTES, BY_NAME, FIRST_BYTES];
        // All that there is was seen: one LIST settles anything.
        check("", "a", [BY_NAME; 3]);
        check("a/ b.txt", "c", [BY_NAME; 3]);
        // What it is beside, if that is of one kind.
        check("x/ y/ …", "a", directory);
        check("0001 0002 …", "a", file);
        check("a.txt …", "b.txt", file);
        check("v1.x/ v2.x/ …", "v3.x", directory);
        // What its name says, otherwise.
        check("…", "a", directory);
        check("…", "a.txt", file);
        check("x/ …", "a.txt", file);
        check("a.txt …", "b", directory);
        check("x/ 0001 …", "a", directory);
        check("x.d/ 1.txt …", "a.txt", file);
        check("a a-1 a-2 …", "a", directory);
    }

    #[test]
    fn what_a_name_was_tells_what_is_asked_for_it() {
        let (all, some) = (siblings("x/ 1.txt", "a"), siblings("x/ 1.txt …", "a"));
        for (siblings, kind, expected) in [
            (&some, FileKind::Directory, below(false)),
            (&some, FileKind::File, BY_NAME),
            (&some, FileKind::SymbolicLink, BY_NAME),
            (&all, FileKind::Directory, BY_NAME),
            (&all, FileKind::File, BY_NAME),
        ] {
            let probe = probe(siblings, "a", Some(kind), (true, true));
            assert_eq!(probe, expected, "{kind:?}");
        }
        for (beside, expected) in [
            (Beside::Unread, Probe::FindOut(Fact::Beside)),
            (Beside::Nothing, BY_NAME),
            (Beside::Creating, BY_NAME),
        ] {
            let known = Known {
                beside,
                ..Known::default()
            };
            assert_eq!(decide(&known), expected);
        }
    }

    /// `a`: absent a moment ago; `f`: in flight; `m`: metadata are needed; `o`: lists in order;
    /// `y`, `n`: creates a file, or not; of the directory `u`: not asked for; `i`: in flight; `c`:
    /// files are created there; `l`: this look-up is the ninth.
    fn known(facts: &str) -> Known {
        let has = |fact| facts.contains(fact);
        let lookups = Lookups {
            misses: BATCH_LOOKUPS + 1,
            hits: 0,
            misses_max: BATCH_LOOKUPS,
            listed: None,
            is_large: false,
            created: if has('c') { CREATE_RUN } else { 0 },
        };
        let is_creating = has('c');
        Known {
            is_absent: has('a'),
            creates: (has('y') || has('n')).then_some(has('y')),
            is_in_flight: has('f'),
            needs_metadata: has('m'),
            lists_in_order: has('o'),
            directory: match (has('u'), has('i')) {
                (true, _) => Directory::Unasked {
                    is_creating,
                    is_walked: false,
                    lookups: has('l').then_some(lookups),
                },
                (false, true) => Directory::InFlight { is_creating },
                (false, false) => Directory::Asked,
            },
            beside: Beside::Nothing,
        }
    }

    #[test]
    fn what_a_lookup_does_next() {
        let intent = Probe::FindOut(Fact::Intent);
        let lookups = Probe::FindOut(Fact::Lookups);
        let page = |extent| {
            Probe::Page(PageProbe {
                extent,
                begins_at_name: extent == Extent::Around,
                misses_max: BATCH_LOOKUPS,
            })
        };
        for (facts, expected) in [
            // An absence that is known answers only calls that create the file.
            ("ao", intent),
            ("aoy", Probe::Absent),
            ("aon", BY_NAME),
            ("aofy", Probe::Absent),
            // A directory is listed where lists are in order, and nobody asks for the name.
            ("ou", lookups),
            ("oul", page(Extent::Page)),
            ("oi", Probe::PageInFlight),
            ("o", BY_NAME),
            ("ouf", BY_NAME),
            ("oif", BY_NAME),
            ("u", BY_NAME),
            ("uc", BY_NAME),
            ("i", BY_NAME),
            // No page shows metadata, but it shows what is absent.
            ("oum", BY_NAME),
            ("oim", BY_NAME),
            ("oumc", intent),
            ("oumcn", BY_NAME),
            ("oumcy", lookups),
            ("oimcy", Probe::PageInFlight),
            // Where files are created, the intent decides.
            ("ouc", intent),
            ("oucy", lookups),
            ("oucyl", page(Extent::Around)),
            ("oucnl", page(Extent::Page)),
            ("oicn", Probe::PageInFlight),
            ("ouy", lookups),
            ("ouyl", page(Extent::Page)),
        ] {
            assert_eq!(decide(&known(facts)), expected, "{facts}");
        }
    }
}
