//! LISTs ahead of walks: sent as [`Walks`] says, and waited for by the reader of a directory that
//! one of them tells of.
//!
//! A LIST ahead runs whether or not anybody waits for it, and its answer sends the next ones. Holds
//! no lock across an await, while a request is sent or while a waiter is woken.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::types::{ListOutput, ListRequest, ObjectInfo};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};

use crate::clock::Clock;
use crate::config::limits::LIST_PAGE_KEYS;
use crate::namespace::listing::{
    FirstAnswer, ListedAhead, Page, SubtreeAnswer, WalkAnswer, WalkRequest, WalkRequestId,
    WalkScope, WalkStats, Walks,
};
use crate::namespace::resolve::{Below, Subtree};
use crate::sync::Mutex;
use crate::write::background::{self, SharedOutcome};

/// The walks of a mount, and the LISTs ahead of them. Shared with its requests.
pub(super) struct WalkAhead {
    client: Arc<dyn ObjectClient>,
    clock: Clock,
    state: Mutex<State>,
}

/// The lock is a leaf.
struct State {
    walks: Walks,
    in_flight: HashMap<WalkRequestId, SharedOutcome<()>>,
}

impl WalkAhead {
    /// Of names that may be as old as `age_max`.
    pub(super) fn new(client: Arc<dyn ObjectClient>, clock: Clock, age_max: Duration) -> Arc<Self> {
        let state = State {
            walks: Walks::new(age_max, client.lists_in_order()),
            in_flight: HashMap::new(),
        };
        Arc::new(Self {
            client,
            clock,
            state: Mutex::new(state),
        })
    }

    /// The listing of the directory `prefix` that was made before this call, which opens it.
    pub(super) async fn open(self: &Arc<Self>, prefix: &str) -> Option<ListedAhead> {
        let now = self.clock.now();
        let (opening, awaits) = {
            let mut state = self.state.lock();
            let opening = state.walks.open(prefix, now);
            let begun = opening.requests.iter().map(|request| request.id);
            for id in begun {
                state.in_flight.insert(id, SharedOutcome::new());
            }
            let awaits = opening
                .awaits
                .and_then(|id| state.in_flight.get(&id).cloned());
            (opening, awaits)
        };
        self.send_all(opening.requests);
        if opening.listed.is_some() {
            return opening.listed;
        }
        awaits?.wait().await;
        let mut state = self.state.lock();
        let listed = state.walks.take(prefix, now, self.clock.now());
        if listed.is_none() {
            state.walks.missed(prefix);
        }
        listed
    }

    /// A program has read all entries of a page of the directory `prefix`.
    pub(super) fn page_read(&self, prefix: &str, page: &Page) {
        let now = self.clock.now();
        self.state.lock().walks.page_read(prefix, page, now);
    }

    /// A look-up that was asked for at `asked` has found `name` in the directory `prefix`, or has
    /// not.
    pub(super) fn looked_up(&self, place: (&str, &str), is_there: bool, asked: Duration) {
        self.state.lock().walks.looked_up(place, is_there, asked);
    }

    /// Whether the directory `prefix` was listed to its end a short time ago.
    pub(super) fn was_listed(&self, prefix: &str) -> bool {
        let now = self.clock.now();
        self.state.lock().walks.was_listed(prefix, now)
    }

    /// Counts of the LISTs sent ahead, and of those that were used.
    pub(super) fn stats(&self) -> WalkStats {
        self.state.lock().walks.stats()
    }

    /// Forgets what is too old.
    pub(super) fn expire(&self) {
        let now = self.clock.now();
        let stats = {
            let mut state = self.state.lock();
            state.walks.expire(now);
            state.walks.untold_stats()
        };
        if let Some(stats) = stats {
            let WalkStats {
                requests,
                wasted,
                directories,
            } = stats;
            tracing::debug!(
                "{requests} LISTs ahead of walks so far for {directories} directories, {wasted} \
                 without use"
            );
        }
    }

    fn send_all(self: &Arc<Self>, requests: Vec<WalkRequest>) {
        for request in requests {
            background::run(Arc::clone(self).send(request));
        }
    }

    async fn send(self: Arc<Self>, request: WalkRequest) {
        let (answer, slow_downs) = self.ask(request.scope).await;
        let (next, outcome) = {
            let mut state = self.state.lock();
            let now = self.clock.now();
            let next = state.walks.arrived(request.id, answer, slow_downs, now);
            for request in &next {
                state.in_flight.insert(request.id, SharedOutcome::new());
            }
            (next, state.in_flight.remove(&request.id))
        };
        self.send_all(next);
        if let Some(outcome) = outcome {
            outcome.settle(());
        }
    }

    /// The answer, and how often the server wanted fewer requests.
    async fn ask(&self, scope: WalkScope) -> (WalkAnswer, u32) {
        let asked = self.clock.now();
        match scope {
            WalkScope::Directory(prefix) => {
                let request = ListRequest {
                    prefix: prefix.to_string(),
                    delimiter: Some("/".to_owned()),
                    max_keys: Some(LIST_PAGE_KEYS),
                    ..ListRequest::default()
                };
                match self.client.list(request).await {
                    Ok(listed) => {
                        let slow_downs = listed.slow_downs;
                        let answer = FirstAnswer::new(listed, asked);
                        (WalkAnswer::Directory(answer), slow_downs)
                    }
                    Err(error) => failed(&error),
                }
            }
            WalkScope::Subtree { root, from } => {
                // The last key in front of all that begin with `from`, which ends with a slash.
                let start = from.strip_suffix('/').unwrap_or(&from);
                let request = ListRequest {
                    prefix: root.to_string(),
                    start_after: Some(format!("{start}.{}", char::MAX)),
                    max_keys: Some(LIST_PAGE_KEYS),
                    ..ListRequest::default()
                };
                match self.client.list(request).await {
                    Ok(listed) => {
                        let answer = subtree_answer(&root, &from, &listed, asked);
                        (WalkAnswer::Subtree(answer), listed.slow_downs)
                    }
                    Err(error) => failed(&error),
                }
            }
        }
    }
}

/// The directories in `listed`, a LIST of all keys below `root` from the directory `from` on.
fn subtree_answer(root: &str, from: &str, listed: &ListOutput, asked: Duration) -> SubtreeAnswer {
    let below = Subtree::new(root, listed, true).below(root);
    let below = below.into_iter().filter(|below| *below.prefix >= *from);
    let (whole, cut): (Vec<Below>, Vec<Below>) = below.partition(|below| below.is_whole);
    // Sorted, so that the deepest directory comes last.
    let large = cut
        .iter()
        .rev()
        .find(|below| takes_most(&below.prefix, listed));
    SubtreeAnswer {
        large: large.map(|below| Arc::clone(&below.prefix)),
        whole: whole
            .into_iter()
            .map(|below| (Arc::clone(&below.prefix), Arc::new(below.page(asked))))
            .collect(),
    }
}

/// Whether most of the keys are below the directory `prefix`, and there are more of them.
fn takes_most(prefix: &str, listed: &ListOutput) -> bool {
    let is_below = |object: &&ObjectInfo| object.key.as_str().starts_with(prefix);
    let is_cut = listed.continuation_token.is_some()
        && listed.objects.last().is_some_and(|last| is_below(&last));
    is_cut && 2 * listed.objects.iter().filter(is_below).count() > listed.objects.len()
}

/// A program that opens the directory then asks for it alone, and gets the error.
fn failed(error: &ClientError) -> (WalkAnswer, u32) {
    tracing::debug!("listing ahead of a walk failed: {error}");
    match error.kind {
        ErrorKind::Denied => (WalkAnswer::Refused, 0),
        ErrorKind::Throttled => (WalkAnswer::Failed, 1),
        _ => (WalkAnswer::Failed, 0),
    }
}

impl fmt::Debug for WalkAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WalkAhead({:?})", self.stats())
    }
}
