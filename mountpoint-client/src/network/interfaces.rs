//! The network interfaces that requests are spread over, how much each has to do, and which are out
//! of use.
//!
//! Knows no client. Without names there is one nameless interface: the kernel's choice. Any thread
//! asks; probes run on the tokio runtime. A lock is held for a few instructions, nothing under it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::health::Health;
use super::probe::ProbeTarget;
use crate::{ClientError, ErrorKind};

/// All interfaces of a client. At least one.
#[derive(Debug)]
pub(crate) struct Interfaces {
    each: Arc<[Arc<Interface>]>,
    /// Requests that were placed.
    turn: AtomicU64,
}

/// One network interface, or the kernel's choice of one.
pub(crate) struct Interface {
    index: usize,
    name: Option<String>,
    /// Bytes of requests in flight.
    outstanding: AtomicU64,
    /// The turn of its last request. Breaks ties, so that one request after the other goes over all
    /// interfaces in turn; one that was down for long takes its turn again, not all that it has
    /// missed.
    last_used: AtomicU64,
    /// A copy of the health's word, so that choosing takes no lock.
    is_up: AtomicBool,
    health: Mutex<Health>,
    /// The one task that probes it while it is down. Locked under `health`, and nothing under it.
    recovery: Mutex<Option<AbortHandle>>,
    /// `None` where there is nothing to choose from: one interface is used, dead or alive.
    prober: Option<Prober>,
}

#[derive(Clone)]
struct Prober {
    target: ProbeTarget,
    runtime: Handle,
}

impl Interfaces {
    /// These interfaces, each once. Fails for a name that this machine does not have.
    pub(crate) fn new(
        names: &[String],
        target: ProbeTarget,
        runtime: &Handle,
    ) -> Result<Self, ClientError> {
        let mut wanted: Vec<Option<String>> = Vec::new();
        for name in names {
            check_exists(name)?;
            if !wanted.contains(&Some(name.clone())) {
                wanted.push(Some(name.clone()));
            }
        }
        if wanted.is_empty() {
            wanted.push(None);
        }
        let prober = (wanted.len() > 1).then(|| Prober {
            target,
            runtime: runtime.clone(),
        });
        let interface = |(index, name)| {
            Arc::new(Interface {
                index,
                name,
                outstanding: AtomicU64::new(0),
                last_used: AtomicU64::new(0),
                is_up: AtomicBool::new(true),
                health: Mutex::new(Health::default()),
                recovery: Mutex::default(),
                prober: prober.clone(),
            })
        };
        Ok(Self {
            each: wanted.into_iter().enumerate().map(interface).collect(),
            turn: AtomicU64::new(0),
        })
    }

    /// The interfaces' names, in the order of [`Lane::index`].
    pub(crate) fn names(&self) -> impl Iterator<Item = Option<&str>> {
        self.each.iter().map(|interface| interface.name.as_deref())
    }

    /// A place for a request of `bytes`: on an interface that is up, not `avoided` if there is
    /// another, and has the least to do.
    pub(crate) fn lane(&self, bytes: u64, avoided: Option<usize>) -> Lane {
        let best = self.each.iter().min_by_key(|interface| {
            (
                !interface.is_up.load(Ordering::Relaxed),
                avoided == Some(interface.index),
                interface.outstanding.load(Ordering::Relaxed),
                interface.last_used.load(Ordering::Relaxed),
            )
        });
        let interface = Arc::clone(best.expect("there is at least one interface"));
        let all = Arc::clone(&self.each);
        interface.outstanding.fetch_add(bytes, Ordering::Relaxed);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) + 1;
        interface.last_used.store(turn, Ordering::Relaxed);
        Lane {
            interface,
            all,
            bytes,
        }
    }
}

/// A request's place on an interface, given back on drop.
#[derive(Debug)]
pub(crate) struct Lane {
    interface: Arc<Interface>,
    /// This interface and those that a request can go to instead.
    all: Arc<[Arc<Interface>]>,
    bytes: u64,
}

impl Lane {
    /// Which interface it is.
    pub(crate) fn index(&self) -> usize {
        self.interface.index
    }

    /// The server answered.
    pub(crate) fn succeeded(&self) {
        self.interface.succeeded();
    }

    /// There was no connection, or it broke or stalled.
    pub(crate) fn failed(&self) {
        Interface::is_worse(&self.interface, Health::failed);
    }

    /// The answer to a request; `None` if the interface dies before it comes and another one is up.
    /// A connection over a dead interface just hangs, so from time to time the interface is looked
    /// at, while the answer is waited for.
    pub(crate) async fn unless_dead<T>(
        &self,
        answer: &mut (impl Future<Output = T> + Unpin),
    ) -> Option<T> {
        loop {
            if let Ok(answer) = tokio::time::timeout(LOOK_AFTER, &mut *answer).await {
                return Some(answer);
            }
            tokio::select! {
                biased;
                answer = &mut *answer => return Some(answer),
                is_lost = self.is_lost() => {
                    if is_lost {
                        return None;
                    }
                }
            }
        }
    }

    /// Whether a request belongs on another interface.
    async fn is_lost(&self) -> bool {
        self.is_dead().await && self.is_another_up()
    }

    /// Whether the interface is known to be dead. If so, it is out of use from now on.
    async fn is_dead(&self) -> bool {
        let interface = &self.interface;
        let (Some(prober), Some(name)) = (&interface.prober, &interface.name) else {
            return false;
        };
        let is_dead = prober.target.is_reached_over(name).await == Some(false);
        if is_dead {
            Interface::is_worse(interface, Health::unreached);
        }
        is_dead
    }

    fn is_another_up(&self) -> bool {
        let mut others = self.all.iter().filter(|it| it.index != self.index());
        others.any(|other| other.is_up.load(Ordering::Relaxed))
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.interface
            .outstanding
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Interface {
    fn succeeded(&self) {
        if self.prober.is_none() {
            return;
        }
        let mut health = self.health.lock();
        health.succeeded();
        self.is_up.store(true, Ordering::Relaxed);
        self.end_recovery();
    }

    /// Ends the task that probes it, if there is one. The caller holds `health`.
    fn end_recovery(&self) {
        if let Some(task) = self.recovery.lock().take() {
            task.abort();
        }
    }

    /// Something went wrong. If that takes the interface down, it is probed from now on.
    fn is_worse(this: &Arc<Self>, happened: impl FnOnce(&mut Health) -> Option<Duration>) {
        let (Some(prober), Some(name)) = (&this.prober, &this.name) else {
            return;
        };
        let mut health = this.health.lock();
        let Some(mut wait) = happened(&mut health) else {
            return;
        };
        this.is_up.store(false, Ordering::Relaxed);
        tracing::warn!(
            "network interface {name} fails: not used until it reaches the server again"
        );
        let (prober, name) = (prober.clone(), name.clone());
        let interface = Arc::downgrade(this);
        let runtime = prober.runtime.clone();
        this.end_recovery();
        let task = runtime.spawn(async move {
            loop {
                tokio::time::sleep(wait).await;
                // Where names cannot be resolved, no request would get far: asked again later.
                let was_reached = prober.target.is_reached_over(&name).await == Some(true);
                match Self::probed(&interface, was_reached) {
                    Some(next) => wait = next,
                    None => return,
                }
            }
        });
        *this.recovery.lock() = Some(task.abort_handle());
        drop(health);
    }

    /// When to probe again; never if the client is gone.
    fn probed(this: &Weak<Self>, was_reached: bool) -> Option<Duration> {
        let this = this.upgrade()?;
        let mut health = this.health.lock();
        let wait = health.probed(was_reached);
        this.is_up.store(health.is_up(), Ordering::Relaxed);
        drop(health);
        if wait.is_none() {
            let name = this.name.as_deref().unwrap_or_default();
            tracing::info!("network interface {name} is used again");
        }
        wait
    }
}

impl fmt::Debug for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interface")
            .field("name", &self.name)
            .field("outstanding", &self.outstanding)
            .field("is_up", &self.is_up)
            .finish_non_exhaustive()
    }
}

fn check_exists(name: &str) -> Result<(), ClientError> {
    let known = known();
    // Where the kernel does not tell, binding a socket will.
    if known.is_empty() || known.iter().any(|interface| interface == name) {
        return Ok(());
    }
    let what = format!(
        "network interface {name:?} does not exist; this machine has: {}",
        known.join(", ")
    );
    Err(ClientError::new(ErrorKind::InvalidRequest, what))
}

/// The interfaces of the network namespace that this thread is in.
fn known() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    // Two lines of headings, then `name: numbers`.
    let names = table
        .lines()
        .skip(2)
        .filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

/// The reason of a request that was given up.
pub(crate) const DEAD_INTERFACE: &str = "the server is out of reach over this network interface";
/// Most answers come sooner. As long as the CRT's connections may stall.
const LOOK_AFTER: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    /// Two interfaces that do not exist: requests are not bound to them here, and probes fail at
    /// once.
    fn two() -> Interfaces {
        two_towards("127.0.0.1")
    }

    fn two_towards(host: &str) -> Interfaces {
        let prober = Prober {
            target: ProbeTarget {
                host: host.to_owned(),
                port: 9,
            },
            runtime: Handle::current(),
        };
        let interface = |index, name: &str| {
            Arc::new(Interface {
                index,
                name: Some(name.to_owned()),
                outstanding: AtomicU64::new(0),
                last_used: AtomicU64::new(0),
                is_up: AtomicBool::new(true),
                health: Mutex::default(),
                recovery: Mutex::default(),
                prober: Some(prober.clone()),
            })
        };
        Interfaces {
            each: Arc::new([interface(0, "mpt-a"), interface(1, "mpt-b")]),
            turn: AtomicU64::new(0),
        }
    }

    #[tokio::test]
    async fn a_request_is_given_up_only_where_another_interface_is_up() {
        let is_up = |lane: &Lane| lane.interface.is_up.load(Ordering::Relaxed);
        let unresolved = two_towards(&"x".repeat(300)).lane(1, None);
        assert!(
            !unresolved.is_lost().await,
            "no address is no dead interface"
        );
        assert!(is_up(&unresolved));
        let interfaces = two();
        let (first, last) = (interfaces.lane(1, None), interfaces.lane(1, None));
        assert!(first.is_lost().await);
        assert!(!is_up(&first));
        assert!(!last.is_lost().await, "there is no other to go to");
        assert!(!is_up(&last));
    }

    #[tokio::test]
    async fn the_one_with_the_least_to_do_is_next() {
        let interfaces = two();
        let large = interfaces.lane(100, None);
        assert_eq!(large.index(), 0);
        let small: Vec<_> = (0..4).map(|_| interfaces.lane(25, None)).collect();
        assert!(small.iter().all(|lane| lane.index() == 1));
        drop(small);
        drop(large);
        let turns: Vec<_> = (0..4).map(|_| interfaces.lane(10, None).index()).collect();
        assert_eq!(turns, [0, 1, 0, 1], "one after the other, each in its turn");
    }

    #[tokio::test]
    async fn one_that_was_down_takes_its_turn_and_no_more() {
        let interfaces = two();
        let failing = interfaces.lane(10, None);
        failing.failed();
        failing.failed();
        assert!((0..9).all(|_| interfaces.lane(1 << 20, None).index() == 1));
        failing.succeeded();
        drop(failing);
        let turns: Vec<_> = (0..4).map(|_| interfaces.lane(10, None).index()).collect();
        assert_eq!(turns, [0, 1, 0, 1]);
    }

    #[tokio::test]
    async fn failing_ones_are_avoided_and_then_not_used() {
        let interfaces = two();
        let failing = interfaces.lane(10, None);
        assert_eq!(failing.index(), 0);
        failing.failed();
        assert_eq!(
            interfaces.lane(10, Some(0)).index(),
            1,
            "a retry goes elsewhere"
        );
        failing.failed();
        drop(failing);
        let busy = interfaces.lane(1000, None);
        assert_eq!(busy.index(), 1);
        let next = interfaces.lane(10, None);
        assert_eq!(next.index(), 1, "down, however idle");
        assert_eq!(interfaces.lane(10, Some(1)).index(), 1);
        next.failed();
        next.failed();
        assert_eq!(
            interfaces.lane(10, None).index(),
            0,
            "all are down: the idle one"
        );
        next.succeeded();
        assert_eq!(
            interfaces.lane(10, None).index(),
            1,
            "an answer came after all"
        );
    }

    #[tokio::test]
    async fn however_often_it_fails_one_task_probes_it() {
        let interfaces = two();
        let lane = interfaces.lane(10, None);
        let tasks = || Handle::current().metrics().num_alive_tasks();
        for _ in 0..20 {
            lane.failed();
            lane.failed();
            assert!(!lane.interface.is_up.load(Ordering::Relaxed));
            lane.succeeded();
            assert!(lane.interface.is_up.load(Ordering::Relaxed));
        }
        lane.failed();
        lane.failed();
        // Tasks that were ended are gone when each has had its turn.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(tasks(), 1);
        lane.succeeded();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(tasks(), 0);
    }

    #[tokio::test]
    async fn a_name_that_does_not_exist_is_refused_with_those_that_do() {
        let target = ProbeTarget {
            host: "127.0.0.1".to_owned(),
            port: 9,
        };
        let names = ["lo".to_owned(), "none0".to_owned()];
        let error = Interfaces::new(&names, target.clone(), &Handle::current()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        assert!(
            error.message.contains("\"none0\" does not exist"),
            "{error}"
        );
        assert!(error.message.contains("lo"), "{error}");
        let names = ["lo".to_owned(), "lo".to_owned()];
        let interfaces = Interfaces::new(&names, target, &Handle::current()).unwrap();
        assert_eq!(interfaces.names().collect::<Vec<_>>(), [Some("lo")]);
    }
}
