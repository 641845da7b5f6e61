//! Predicts which directories a walk of a tree will open, and lists them ahead.
//!
//! A program that opens a subdirectory just after it listed the directory may be walking (`find`,
//! `du`, `ls -lR`, `rsync`). It will probably open the directories that listings have shown, in the
//! order of keys. One LIST without a delimiter covers many small directories; a large directory has
//! its own LIST, several at once. An answer serves one `opendir`, while its age is below the TTL of
//! names.
//!
//! Pure: answers go in, requests to send come out. Bounded by [`WALK_REQUESTS_MAX`] in flight,
//! [`WALK_NAMES_MAX`] in memory, `WalkCredit` in waste and `Pace` in the number of directories.

mod credit;
mod large;
mod pace;
mod request;
mod seen;
mod subtrees;
mod upcoming;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use credit::WalkCredit;
use large::LargeDirectories;
use pace::Pace;
use request::SentAhead;
use seen::{SeenDirectories, Step};
use subtrees::{NextList, Shown, SubtreeExtent, SubtreeYield};
use upcoming::{Upcoming, UpcomingDirectories};

pub(crate) use self::seen::WALK_AGE_MAX;
use self::seen::WALK_NAMES_MAX;
use super::first_answer::FirstAnswer;
use super::page::Page;
use crate::config::limits::LIST_PAGE_KEYS;

pub use request::WalkStats;
pub(crate) use request::{
    ListedAhead, Opening, SubtreeAnswer, WalkAnswer, WalkRequest, WalkRequestId, WalkScope,
};

/// All walks of a mount.
#[derive(Debug)]
pub(crate) struct Walks {
    /// Maximum age of an answer.
    age_max: Duration,
    /// Whether LIST returns keys in order, so that one LIST covers adjacent directories.
    is_ordered: bool,
    seen: SeenDirectories,
    upcoming: UpcomingDirectories,
    /// Requests in flight and requests with answers that can still be used; the oldest first.
    requests: BTreeMap<WalkRequestId, SentAhead>,
    last_id: u64,
    in_flight: usize,
    /// Number of requests that no program has used yet.
    unused: usize,
    /// Number of directories that the requests in flight are expected to list.
    expected: usize,
    /// LISTs without a delimiter that are in flight.
    subtrees_in_flight: Vec<SubtreeExtent>,
    walk: Walk,
    credit: WalkCredit,
    pace: Pace,
    subtrees: SubtreeYield,
    large: LargeDirectories,
    stats: WalkStats,
    /// The counts at the time of the last log message.
    told: WalkStats,
}

/// The walk that opened a directory last.
#[derive(Debug, Default)]
struct Walk {
    /// The topmost directory that the program has listed.
    root: Arc<str>,
    /// The directory that the program opened last.
    position: Arc<str>,
    /// Time of that `opendir`.
    stepped: Duration,
    /// Whether the program is certain to walk.
    is_certain: bool,
    /// Whether the directory at `position` was listed ahead.
    is_ahead: bool,
}

impl Walks {
    /// Creates an empty state for names with the TTL `age_max`. `is_ordered` tells whether the
    /// bucket lists in the order of keys.
    pub(crate) fn new(age_max: Duration, is_ordered: bool) -> Self {
        Self {
            age_max: age_max.min(WALK_AGE_MAX),
            is_ordered,
            seen: SeenDirectories::default(),
            upcoming: UpcomingDirectories::default(),
            requests: BTreeMap::new(),
            last_id: 0,
            in_flight: 0,
            unused: 0,
            expected: 0,
            subtrees_in_flight: Vec::new(),
            walk: Walk::default(),
            credit: WalkCredit::default(),
            pace: Pace::default(),
            subtrees: SubtreeYield::default(),
            large: LargeDirectories::default(),
            stats: WalkStats::default(),
            told: WalkStats::default(),
        }
    }

    /// Records that a program has read all entries of a `page` of the directory `prefix`.
    pub(crate) fn page_read(&mut self, prefix: &str, page: &Page, now: Duration) {
        let is_end = self.seen.page(prefix, page, now);
        // If nothing was listed ahead, the program's time begins when it has read the directory's
        // end.
        if is_end && !self.walk.is_ahead {
            self.pace.answered(now);
        }
    }

    /// Decides how to answer an `opendir` of the directory `prefix`, and what to list ahead.
    pub(crate) fn open(&mut self, prefix: &str, now: Duration) -> Opening {
        let Some(step) = self.seen.open(prefix, now) else {
            self.upcoming.remove(prefix);
            return Opening::default();
        };
        self.credit.renew(now);
        self.expire_requests(now);
        self.step(prefix, step, now);
        let mut opening = Opening {
            listed: self.take(prefix, now, now),
            ..Opening::default()
        };
        if opening.listed.is_some() {
            self.walk.is_certain = true;
        } else {
            opening.awaits = self.in_flight_for(prefix, now);
            if opening.awaits.is_none() {
                self.upcoming.remove(prefix);
                self.begin_subtree(prefix, now, &mut opening.requests);
            } else if self.upcoming.get(prefix).is_none() {
                self.upcoming.shown([Arc::from(prefix)]);
            }
        }
        if self.walk.is_certain {
            self.go_ahead(now, &mut opening.requests);
        }
        opening
    }

    /// Takes the answer that was listed ahead for the directory `prefix`, which was opened at
    /// `opened`. `None` if the answer is too old, or older than an answer that a program has
    /// already seen.
    pub(crate) fn take(
        &mut self,
        prefix: &str,
        opened: Duration,
        now: Duration,
    ) -> Option<ListedAhead> {
        let Some(Upcoming::Ready(..)) = self.upcoming.get(prefix) else {
            return None;
        };
        let Some(Upcoming::Ready(id, listed)) = self.upcoming.remove(prefix) else {
            return None;
        };
        let asked = listed.asked();
        let is_young = opened.saturating_sub(asked) < self.age_max;
        if !is_young || self.seen.asked(prefix) > Some(asked) {
            return None;
        }
        self.walk.is_ahead = true;
        self.pace.answered(now);
        self.stats.directories += 1;
        self.credit.directory_used();
        if let Some(sent) = self.requests.get_mut(&id)
            && !std::mem::replace(&mut sent.is_used, true)
        {
            self.unused -= 1;
            self.credit.request_used();
        }
        Some(listed)
    }

    /// Forgets the directory `prefix`: its request in flight did not list it, so the program will.
    pub(crate) fn missed(&mut self, prefix: &str) {
        self.upcoming.remove(prefix);
    }

    /// Processes the answer to the request `id` and returns the requests to send next. `slow_downs`
    /// counts how many times the server asked for fewer requests.
    pub(crate) fn arrived(
        &mut self,
        id: WalkRequestId,
        answer: WalkAnswer,
        slow_downs: u32,
        now: Duration,
    ) -> Vec<WalkRequest> {
        let mut requests = Vec::new();
        let Some(sent) = self.requests.get_mut(&id) else {
            return requests;
        };
        sent.is_in_flight = false;
        self.in_flight -= 1;
        self.expected -= sent.expected;
        self.subtrees_in_flight.retain(|extent| extent.id != id);
        let is_failure = matches!(answer, WalkAnswer::Failed | WalkAnswer::Refused);
        match answer {
            WalkAnswer::Directory(answer) => self.directory_arrived(id, answer),
            WalkAnswer::Subtree(answer) => self.subtree_arrived(id, answer),
            WalkAnswer::Failed => self.failed(id),
            WalkAnswer::Refused => {
                self.subtrees.refuse();
                self.failed(id);
            }
        }
        if slow_downs > 0 {
            self.credit.stop(now);
        }
        let is_going_on = self.walk.is_certain && self.walk.stepped + self.age_max > now;
        if is_going_on && !is_failure {
            self.go_ahead(now, &mut requests);
        }
        requests
    }

    /// Compares the outcome of a lookup, requested at `asked`, with the answers about `prefix`.
    pub(crate) fn looked_up(
        &mut self,
        (prefix, name): (&str, &str),
        is_there: bool,
        asked: Duration,
    ) {
        self.upcoming.looked_up(prefix, name, is_there, asked);
    }

    /// Whether a program listed the directory `prefix` to its end a short time ago.
    pub(crate) fn was_listed(&self, prefix: &str, now: Duration) -> bool {
        self.seen.was_listed(prefix, now)
    }

    /// Counts of requests and of their uses.
    pub(crate) fn stats(&self) -> WalkStats {
        self.stats
    }

    /// The counts, if they have changed since the last call.
    pub(crate) fn untold_stats(&mut self) -> Option<WalkStats> {
        let before = std::mem::replace(&mut self.told, self.stats);
        (before != self.stats).then_some(self.stats)
    }

    /// Forgets outdated directories and answers.
    pub(crate) fn expire(&mut self, now: Duration) {
        self.seen.expire(now);
        self.expire_requests(now);
        if self.walk.stepped + WALK_AGE_MAX <= now {
            self.upcoming.clear();
            self.walk = Walk::default();
        }
    }

    /// Moves the walk to the directory `prefix`.
    fn step(&mut self, prefix: &str, step: Step<'_>, now: Duration) {
        self.pace.opened(now);
        if *self.walk.root != *step.root {
            self.walk.root = Arc::from(step.root);
            self.pace.reset();
            self.subtrees.begin();
            self.large = LargeDirectories::default();
        }
        self.walk.position = Arc::from(prefix);
        self.walk.stepped = now;
        self.walk.is_certain = !step.is_first;
        self.walk.is_ahead = false;
        if step.is_first_below || self.upcoming.get(prefix).is_none() {
            let known = self.seen.to_open(step.parent, prefix, SHOWN_AT_ONCE);
            self.upcoming.shown(known);
        }
    }

    /// A request in flight that may list `prefix`, if it is young enough.
    fn in_flight_for(&self, prefix: &str, now: Duration) -> Option<WalkRequestId> {
        let is_young = |at: Duration| now.saturating_sub(at) < self.age_max;
        if let Some(Upcoming::Asked(id)) = self.upcoming.get(prefix) {
            let sent = self.requests.get(id)?;
            return is_young(sent.at).then_some(*id);
        }
        let mut extents = self.subtrees_in_flight.iter();
        let extent = extents.find(|extent| extent.may_have(prefix) && is_young(extent.at));
        extent.map(|extent| extent.id)
    }

    /// Sends a LIST from the directory `prefix` on, which was not listed ahead.
    fn begin_subtree(&mut self, prefix: &str, now: Duration, requests: &mut Vec<WalkRequest>) {
        if self.is_ordered && self.may_send() && self.subtrees.may_begin() {
            requests.push(self.send_subtree(&Arc::from(prefix), None, now));
        }
    }

    /// Sends LISTs for the directories that the walk will reach next.
    fn go_ahead(&mut self, now: Duration, requests: &mut Vec<WalkRequest>) {
        let directories_max = self.pace.directories_ahead(self.age_max);
        if 2 * (self.upcoming.ready() + self.expected) > directories_max || !self.may_send() {
            return;
        }
        let candidates = self.candidates(directories_max);
        let mut rest = &candidates[..];
        while let Some(prefix) = rest.first() {
            if self.upcoming.ready() + self.expected >= directories_max || !self.may_send() {
                return;
            }
            if self.large.is_likely(prefix) {
                requests.push(self.send_directory(prefix, now));
                rest = &rest[1..];
                continue;
            }
            let is_behind = *prefix > self.walk.position;
            let count_max = rest.iter().take_while(|other| !self.large.is_likely(other));
            let count_max = count_max.count();
            let (count, is_bounded) = match self.subtrees.next(is_behind && self.is_ordered) {
                NextList::Directory => {
                    requests.push(self.send_directory(prefix, now));
                    rest = &rest[1..];
                    continue;
                }
                NextList::Subtree(count) => (count.min(count_max), true),
                NextList::Probe => (1, !self.subtrees.is_promising()),
                NextList::Wait => return,
            };
            let to = rest.get(count).filter(|to| *to > prefix);
            let to = to.filter(|to| is_bounded || self.large.is_likely(to));
            requests.push(self.send_subtree(prefix, to, now));
            rest = &rest[count..];
        }
    }

    /// At most `count` directories that need a request, in the order of the walk.
    fn candidates(&self, count: usize) -> Vec<Arc<str>> {
        let upcoming = self.upcoming.from(&self.walk.root, &self.walk.position);
        let known = upcoming
            .take(LOOK_MAX)
            .filter(|(_, upcoming)| matches!(upcoming, Upcoming::Known))
            .map(|(prefix, _)| prefix);
        let extents = &self.subtrees_in_flight;
        let is_covered = |prefix: &str| extents.iter().any(|extent| extent.may_have(prefix));
        known
            .filter(|prefix| !is_covered(prefix))
            .take(count)
            .cloned()
            .collect()
    }

    /// Whether the bounds allow one more request.
    fn may_send(&self) -> bool {
        let names = self.upcoming.names() + self.in_flight * usize::from(LIST_PAGE_KEYS);
        self.in_flight < WALK_REQUESTS_MAX
            && names < WALK_NAMES_MAX
            && self.credit.allows(self.unused)
    }

    fn send_directory(&mut self, prefix: &Arc<str>, now: Duration) -> WalkRequest {
        let request = self.send(WalkScope::Directory(Arc::clone(prefix)), 1, now);
        self.upcoming.set(prefix, Upcoming::Asked(request.id));
        request
    }

    /// Sends a LIST that begins at `from`; its answer is expected to end before `to`.
    fn send_subtree(
        &mut self,
        from: &Arc<str>,
        to: Option<&Arc<str>>,
        now: Duration,
    ) -> WalkRequest {
        let root = Arc::clone(&self.walk.root);
        let scope = WalkScope::Subtree {
            root: Arc::clone(&root),
            from: Arc::clone(from),
        };
        let request = self.send(scope, self.subtrees.expected(), now);
        self.subtrees_in_flight.push(SubtreeExtent {
            id: request.id,
            at: now,
            root,
            from: Arc::clone(from),
            to: to.cloned(),
        });
        request
    }

    fn send(&mut self, scope: WalkScope, expected: usize, now: Duration) -> WalkRequest {
        self.last_id += 1;
        self.stats.requests += 1;
        self.in_flight += 1;
        self.unused += 1;
        self.expected += expected;
        let id = WalkRequestId(self.last_id);
        let sent = SentAhead {
            at: now,
            scope: scope.clone(),
            expected,
            is_in_flight: true,
            is_used: false,
            ready: Vec::new(),
        };
        self.requests.insert(id, sent);
        WalkRequest { id, scope }
    }

    fn directory_arrived(&mut self, id: WalkRequestId, answer: FirstAnswer) {
        let Some(WalkScope::Directory(prefix)) = self.requests.get(&id).map(|sent| &sent.scope)
        else {
            return;
        };
        let prefix = Arc::clone(prefix);
        let is_awaited = |upcoming: &Upcoming| matches!(upcoming, Upcoming::Asked(by) if *by == id);
        if self.upcoming.get(&prefix).is_some_and(is_awaited) {
            let subdirectories = answer.subdirectories(&prefix);
            if subdirectories.is_empty() && answer.is_all() {
                self.large.is_small(&prefix);
            }
            self.upcoming.shown(subdirectories);
            let listed = ListedAhead::First(Box::new(answer));
            self.make_ready(id, &prefix, listed);
        }
    }

    fn subtree_arrived(&mut self, id: WalkRequestId, answer: SubtreeAnswer) {
        if let Some(large) = answer.large {
            self.large.found(&large);
        }
        let mut shown = Shown::default();
        for (prefix, page) in answer.whole {
            let is_known = match self.upcoming.get(&prefix) {
                Some(Upcoming::Known) => true,
                Some(Upcoming::Asked(_) | Upcoming::Ready(..)) => continue,
                // The walk has already opened the directories in front; a directory behind is new.
                None if prefix <= self.walk.position => continue,
                None => false,
            };
            shown.directories += 1;
            shown.known += usize::from(is_known);
            self.make_ready(id, &prefix, ListedAhead::Whole(page));
        }
        self.subtrees.answered(shown);
    }

    fn make_ready(&mut self, id: WalkRequestId, prefix: &Arc<str>, listed: ListedAhead) {
        let Some(sent) = self.requests.get_mut(&id) else {
            return;
        };
        if self.upcoming.names() + listed.names() > WALK_NAMES_MAX {
            self.upcoming.set(prefix, Upcoming::Known);
            return;
        }
        sent.ready.push(Arc::clone(prefix));
        self.upcoming.set(prefix, Upcoming::Ready(id, listed));
    }

    fn failed(&mut self, id: WalkRequestId) {
        let Some(sent) = self.requests.remove(&id) else {
            return;
        };
        match &sent.scope {
            WalkScope::Directory(prefix) => {
                if let Some(Upcoming::Asked(_)) = self.upcoming.get(prefix) {
                    self.upcoming.set(prefix, Upcoming::Known);
                }
            }
            WalkScope::Subtree { .. } => self.subtrees.answered(Shown::default()),
        }
        self.waste();
    }

    /// Drops answers that are too old for use.
    fn expire_requests(&mut self, now: Duration) {
        let old = self.requests.iter();
        let old = old.take_while(|(_, sent)| sent.at + self.age_max <= now);
        let old = old.filter(|(_, sent)| !sent.is_in_flight);
        let old: Vec<WalkRequestId> = old.map(|(id, _)| *id).collect();
        for id in old {
            let Some(sent) = self.requests.remove(&id) else {
                continue;
            };
            for prefix in &sent.ready {
                let known = self.upcoming.get(prefix);
                if matches!(known, Some(Upcoming::Ready(by, _)) if *by == id) {
                    self.upcoming.set(prefix, Upcoming::Known);
                }
            }
            if !sent.is_used {
                self.waste();
            }
        }
    }

    /// Records that no program used a request.
    fn waste(&mut self) {
        self.unused -= 1;
        self.stats.wasted += 1;
        self.credit.wasted();
    }
}

/// Subdirectories of one directory that are recorded at once.
const SHOWN_AT_ONCE: usize = 1024;

/// Directories to examine in one search for candidates.
const LOOK_MAX: usize = 1024;

#[cfg(test)]
mod tests;

/// LISTs ahead of walks in flight: a quarter of the connections for control requests.
const WALK_REQUESTS_MAX: usize = 32;
