//! Choice of the requests that a lookup sends, from what is known about the name.
//!
//! Pure; never makes an answer. A path is resolved name by name, so the costs of its requests add
//! up. A LIST below a name proves a directory, and a GET of its object proves a file. A LIST of the
//! keys that begin with the name proves either, unless many keys sort between the two (`a-1`,
//! `a-2`, … between `a` and `a/`). The sibling names suggest a kind; otherwise the name's ending
//! does. One page of the directory answers many lookups, so after a few of them the directory is
//! listed.

use crate::operation::FileKind;

/// Facts about a name whose lookup no cache could answer.
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not exclude each other"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Whether S3 reported the name as absent a moment ago. That suffices for a call that makes it.
    pub(crate) is_absent: bool,
    /// Whether the call makes the name; `None` if that is unknown yet.
    pub(crate) creates: Option<bool>,
    /// Whether another lookup of this name is in flight.
    pub(crate) is_in_flight: bool,
    /// Whether lookups read the metadata of objects, which a page does not have.
    pub(crate) needs_metadata: bool,
    /// Whether the server lists in the order of keys, from any key on.
    pub(crate) lists_in_order: bool,
    /// Whether files are being created in the directory, one after the other.
    pub(crate) is_creating: bool,
    pub(crate) directory: Directory,
}

/// State of the directory that contains the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Directory {
    /// A page of the directory is in flight for other lookups.
    InFlight,
    /// No page is in flight, and this lookup was not counted yet.
    Unasked,
    /// No page is in flight.
    Counted(Lookups),
}

/// Counts of one directory's lookups, including this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lookups {
    /// Lookups that needed a request, since the last LIST.
    pub(crate) misses: u32,
    /// Lookups that needed no request, since the last LIST.
    pub(crate) hits: u32,
    /// Misses before the next LIST.
    pub(super) misses_max: u32,
    /// Extent of the last LIST; `None` before the first.
    pub(crate) listed: Option<Extent>,
    /// Whether the directory has more names than one page.
    pub(crate) is_large: bool,
    /// Names made in a row, without a lookup of any other name between them.
    pub(crate) created: u32,
}

/// Facts about the sibling names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// No siblings are known.
    Nothing,
    /// The name is probably new, because files are being created in the directory.
    Creating,
    Names {
        are_all: bool,
        /// The last known kind of the name itself.
        kind: Option<FileKind>,
        /// Whether the siblings, or the name's ending, suggest a directory.
        suggests_directory: bool,
        /// Whether the last such prediction in the directory was wrong.
        was_wrong: bool,
        /// Whether the first bytes of a file are likely to be read.
        wants_first_bytes: bool,
    },
}

/// The next step of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// Find out this fact first.
    FindOut(Fact),
    /// Send no request: the name is absent.
    Absent,
    /// Request a page of the directory, which can also answer other lookups.
    Page(PageProbe),
    /// Wait for the page of the directory that is in flight.
    PageInFlight,
    /// Request the name, or wait for the same request in flight.
    Name,
}

/// A fact that costs time to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// Whether the call creates a file.
    Intent,
    /// The counts of the directory's lookups. Finding them out counts this one.
    Lookups,
}

/// The requests that find out what a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameProbe {
    /// A LIST of the keys that begin with the name. Enough in a small or unknown directory.
    ByName,
    /// A LIST below the name, which is probably a directory.
    Below {
        /// Whether a GET of the first bytes follows if there is no directory.
        then_first_bytes: bool,
    },
    /// A GET of the first bytes and a LIST below the name, both at once. The name is probably a
    /// file that will be opened.
    FirstBytes,
}

/// A page of a directory to list for lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageProbe {
    pub(crate) extent: Extent,
    /// Whether the page begins at the name and not at the directory's beginning.
    pub(crate) begins_at_name: bool,
    /// Misses before the next LIST.
    pub(super) misses_max: u32,
}

/// How much of a directory a LIST for lookups covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A few names around one, because creations need to know which names are absent.
    Around,
    /// All names, or as many as fit in a page.
    Page,
}

/// Chooses the next step of a lookup.
pub(crate) fn decide(known: &Known) -> Probe {
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
    Probe::Name
}

/// The request for the directory, or the fact needed to choose it; `None` for no such request.
fn ask_directory(known: &Known) -> Option<Probe> {
    let creates = match (known.is_creating, known.creates) {
        (false, _) => false,
        (true, None) => return Some(Probe::FindOut(Fact::Intent)),
        (true, Some(creates)) => creates,
    };
    if known.needs_metadata && !creates {
        return None;
    }
    match known.directory {
        Directory::InFlight => Some(Probe::PageInFlight),
        Directory::Unasked => Some(Probe::FindOut(Fact::Lookups)),
        Directory::Counted(lookups) => due(&lookups, creates).map(Probe::Page),
    }
}

/// The page to list now, if any. `creates` tells that the program creates the name.
///
/// LISTs that answer few later lookups (random names of a huge directory) become ever rarer.
pub(crate) fn due(lookups: &Lookups, creates: bool) -> Option<PageProbe> {
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
    let is_new = creates && created >= CREATE_RUN;
    if is_new && (listed.is_none() || hits >= CREATE_RUN) {
        // The extent that had hits last is chosen again.
        return Some(match listed {
            Some(Extent::Page) => page(misses_max),
            Some(Extent::Around) | None => PageProbe {
                extent: Extent::Around,
                begins_at_name: true,
                misses_max,
            },
        });
    }
    match (listed.is_some(), hits >= BATCH_LOOKUPS) {
        (true, true) => Some(page(BATCH_LOOKUPS)),
        _ if misses <= misses_max => None,
        (true, false) => Some(page((misses_max * 4).min(BATCH_LOOKUPS_MAX))),
        (false, _) => Some(page(misses_max)),
    }
}

/// The request for the name alone. Names that the kernel may have cached are requested without
/// first bytes.
pub(crate) fn probe_of(beside: Beside) -> NameProbe {
    let below = |then_first_bytes| NameProbe::Below { then_first_bytes };
    match beside {
        Beside::Nothing | Beside::Creating | Beside::Names { are_all: true, .. } => {
            NameProbe::ByName
        }
        Beside::Names {
            kind: Some(kind), ..
        } => match kind {
            FileKind::Directory => below(false),
            FileKind::File | FileKind::SymbolicLink | FileKind::Pipe | FileKind::Socket => {
                NameProbe::ByName
            }
        },
        Beside::Names {
            suggests_directory: true,
            was_wrong,
            wants_first_bytes,
            ..
        } => match was_wrong {
            true => NameProbe::ByName,
            false => below(wants_first_bytes),
        },
        Beside::Names {
            wants_first_bytes, ..
        } => match wants_first_bytes {
            true => NameProbe::FirstBytes,
            false => NameProbe::ByName,
        },
    }
}

/// Most lookups between two listings that proved useless to a directory's lookups.
const BATCH_LOOKUPS_MAX: u32 = 1 << 20;

/// Lookups in one directory, sequential or parallel, that each ask S3 for one name.
///
/// The next lookup lists the directory: a program that knows its files' names looks at many of
/// them.
pub(crate) const BATCH_LOOKUPS: u32 = 8;

/// Names made in succession before S3 is asked for more than the next one.
pub(super) const CREATE_RUN: u32 = 2;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use mountpoint_client::types::ETag;

    use super::*;
    use crate::namespace::listing::page::{Listed, Page};
    use crate::namespace::listing::siblings::Siblings;
    use crate::namespace::version::{Found, Version};

    const BY_NAME: NameProbe = NameProbe::ByName;
    const FIRST_BYTES: NameProbe = NameProbe::FirstBytes;

    fn below(then_first_bytes: bool) -> NameProbe {
        NameProbe::Below { then_first_bytes }
    }

    /// Sibling names: a directory's name ends with a slash; `…` stands for further names.
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

    /// The request for a `name` that is new to the mount; `told` has `was_wrong` and
    /// `wants_first_bytes`.
    fn probe(
        siblings: &Siblings,
        name: &str,
        kind: Option<FileKind>,
        (was_wrong, wants_first_bytes): (bool, bool),
    ) -> NameProbe {
        probe_of(Beside::Names {
            are_all: siblings.are_all(),
            kind,
            suggests_directory: siblings.suggest_directory(name),
            was_wrong,
            wants_first_bytes,
        })
    }

    #[test]
    fn the_names_beside_it_tell_what_is_asked_for_a_name() {
        #[track_caller]
        fn check(beside: &str, name: &str, expected: [NameProbe; 3]) {
            let siblings = siblings(beside, name);
            let told = [(false, true), (false, false), (true, true)]
                .map(|told| probe(&siblings, name, None, told));
            assert_eq!(told, expected, "{name} beside {beside}");
        }
        let directory = [below(true), below(false), BY_NAME];
        let file = [FIRST_BYTES, BY_NAME, FIRST_BYTES];
        // With all siblings known, one LIST by name decides.
        check("", "a", [BY_NAME; 3]);
        check("a/ b.txt", "c", [BY_NAME; 3]);
        // The kind of the siblings, if they have only one.
        check("x/ y/ …", "a", directory);
        check("0001 0002 …", "a", file);
        check("a.txt …", "b.txt", file);
        check("v1.x/ v2.x/ …", "v3.x", directory);
        // Otherwise the name's own ending.
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
        assert_eq!(probe_of(Beside::Nothing), BY_NAME);
        assert_eq!(probe_of(Beside::Creating), BY_NAME);
    }

    /// `a`: absent a moment ago; `f`: in flight; `m`: metadata are needed; `o`: lists in order;
    /// `y`, `n`: creates a file, or not. State of the directory, `i`: in
    /// flight; `c`: files are created there; `l`: this lookup is the ninth.
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
        Known {
            is_absent: has('a'),
            creates: (has('y') || has('n')).then_some(has('y')),
            is_in_flight: has('f'),
            needs_metadata: has('m'),
            lists_in_order: has('o'),
            is_creating: has('c'),
            directory: match (has('i'), has('l')) {
                (true, _) => Directory::InFlight,
                (false, true) => Directory::Counted(lookups),
                (false, false) => Directory::Unasked,
            },
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
            // A known absence answers only calls that create the file.
            ("ao", intent),
            ("aoy", Probe::Absent),
            ("aon", lookups),
            ("aofy", Probe::Absent),
            // A directory is listed if lists are in order and no lookup requests the name.
            ("o", lookups),
            ("ol", page(Extent::Page)),
            ("oi", Probe::PageInFlight),
            ("of", Probe::Name),
            ("oif", Probe::Name),
            ("", Probe::Name),
            ("c", Probe::Name),
            ("i", Probe::Name),
            // A page has no metadata, but proves absence.
            ("om", Probe::Name),
            ("oim", Probe::Name),
            ("omc", intent),
            ("omcn", Probe::Name),
            ("omcy", lookups),
            ("oimcy", Probe::PageInFlight),
            // Where files are created, the intent decides.
            ("oc", intent),
            ("ocy", lookups),
            ("ocyl", page(Extent::Around)),
            ("ocnl", page(Extent::Page)),
            ("oicn", Probe::PageInFlight),
            ("oy", lookups),
            ("oyl", page(Extent::Page)),
        ] {
            assert_eq!(decide(&known(facts)), expected, "{facts}");
        }
    }
}
