//! The thread of the sinks, from before the mount to after it.

use std::cmp::Reverse;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, pending};
use mountpoint_client::billing::{BilledUsage, RequestAccount};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval_at};

use super::collector::{Collector, MeasuredParts};
use super::document::{MountDescription, StatsDocument};
use super::http::Bound;
use super::kernel_queue::KernelQueue;
use super::otlp::Exporter;
use super::unix_socket::BoundSocket;
use super::{MetricsConfig, log, socket};
use crate::clock::Clock;
use crate::fuse::declare_metrics;
use crate::metrics::{self, MetricsRegistry, Snapshot, capture, programs};
use crate::mount::start_error::StartError;

/// The sinks of a mount, with what they need from the outside.
#[derive(Debug)]
pub(in crate::mount) struct MetricsService {
    registry: Arc<MetricsRegistry>,
    config: MetricsConfig,
    mount: MountDescription,
    runtime: Runtime,
    bound: Option<Bound>,
    clock: Clock,
}

/// Sinks at work. They end with [`RunningMetrics::end`].
#[derive(Debug)]
pub(in crate::mount) struct RunningMetrics {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl MetricsService {
    /// Begins to measure, and takes what the sinks need. `None` if nothing is to be measured.
    ///
    /// # Errors
    /// A text for the user: an address is not to be had.
    pub(in crate::mount) fn prepare(
        config: &MetricsConfig,
        mount: MountDescription,
    ) -> Result<Option<Self>, StartError> {
        if config.is_off {
            return Ok(None);
        }
        let Some(registry) = metrics::install() else {
            return Ok(None);
        };
        programs::install_accounts();
        capture::install_observer();
        mountpoint_client::metrics::declare();
        declare_metrics();
        let clock = Clock::monotonic();
        let bound = config.listen.as_ref().map(Bound::bind).transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StartError::new(format!("cannot measure: {error}")))?;
        Ok(Some(Self {
            registry,
            config: config.clone(),
            mount,
            runtime,
            bound,
            clock,
        }))
    }

    /// Starts the sinks of a mount.
    pub(in crate::mount) fn start(
        mut self,
        parts: MeasuredParts,
        state_directory: Option<&Path>,
    ) -> Result<RunningMetrics, StartError> {
        self.mount.device.clone_from(&parts.device);
        if let Some(directory) = &parts.directory {
            self.mount.directory = directory.display().to_string();
        }
        let endpoint = self.config.otlp.clone();
        let exporter = endpoint.map(|it| Exporter::new(it, &self.mount, self.clock.wall()));
        let exporter = exporter.transpose()?;
        let queue = KernelQueue::new(&parts);
        let collector = Collector::new(&self.mount, parts);
        self.registry.add_collector(move || collector.collect());
        if let Some(slow) = self.config.slow {
            crate::fuse::log_slow(slow);
        }
        // The mount works without.
        let socket = socket::bind(state_directory, self.clock.wall())
            .inspect_err(|error| tracing::warn!("mount-s3 stats cannot show this mount: {error}"))
            .ok();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("metrics".to_owned());
        let thread = thread
            .spawn(move || self.run(exporter, socket, queue, stopped))
            .map_err(|error| StartError::new(format!("cannot start a thread: {error}")))?;
        Ok(RunningMetrics { stop, thread })
    }

    fn run(
        self,
        mut exporter: Option<Exporter>,
        socket: Option<BoundSocket>,
        queue: KernelQueue,
        stopped: oneshot::Receiver<()>,
    ) {
        let Self {
            registry,
            config,
            mount,
            runtime,
            bound,
            clock,
        } = self;
        let listens: BoxFuture<'_, ()> = match bound {
            Some(bound) => {
                let serving = bound.serve(Arc::clone(&registry));
                endless("the metrics' address", serving).boxed()
            }
            None => pending().boxed(),
        };
        let document = {
            let (registry, clock) = (Arc::clone(&registry), clock.clone());
            move || {
                let uptime = u64::try_from(clock.now().as_millis()).unwrap_or(u64::MAX);
                let document = StatsDocument::new(mount.clone(), uptime, &registry.snapshot());
                serde_json::to_vec(&document).unwrap_or_default()
            }
        };
        let answers: BoxFuture<'_, ()> = match socket {
            Some(socket) => {
                let serving = socket::serve(socket, Arc::clone(&registry), document);
                endless("the socket of mount-s3 stats", serving).boxed()
            }
            None => pending().boxed(),
        };
        let mut summary = config.logs.then(|| Summary {
            registry: Arc::clone(&registry),
            before: Snapshot::default(),
        });
        runtime.block_on(async {
            let logs = async {
                match &mut summary {
                    Some(summary) => summary.run().await,
                    None => pending().await,
                }
            };
            let exports = async {
                match &mut exporter {
                    Some(exporter) => run_exporter(exporter, &registry, &clock).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                _ = stopped => {}
                () = listens => {}
                () = answers => {}
                () = logs => {}
                () = exports => {}
                () = queue.watch() => {}
            }
            // The last numbers, after all uploads.
            if let Some(summary) = &mut summary {
                summary.write();
            }
            if let Some(exporter) = &mut exporter {
                let last = exporter.export(registry.snapshot(), clock.wall());
                if tokio::time::timeout(LAST_EXPORT_MAX, last).await.is_err() {
                    tracing::warn!("the last metrics were not sent: the collector is too slow");
                }
            }
        });
        runtime.shutdown_background();
    }
}

/// Serves; a failure ends nothing else.
async fn endless(what: &str, serving: impl Future<Output = io::Result<()>>) {
    if let Err(error) = serving.await {
        tracing::error!("{what} does not answer any more: {error}");
    }
    pending::<()>().await;
}

/// The summary in the log.
struct Summary {
    registry: Arc<MetricsRegistry>,
    before: Snapshot,
}

impl Summary {
    async fn run(&mut self) {
        let mut tick = every(SUMMARY_INTERVAL);
        loop {
            tick.tick().await;
            self.write();
        }
    }

    fn write(&mut self) {
        let now = self.registry.snapshot();
        log::write(&self.before, &now);
        self.before = now;
    }
}

async fn run_exporter(exporter: &mut Exporter, registry: &MetricsRegistry, clock: &Clock) {
    let mut tick = every(exporter.interval());
    loop {
        tick.tick().await;
        exporter.export(registry.snapshot(), clock.wall()).await;
    }
}

/// A tick after each `time`; those that were missed are left out.
fn every(time: Duration) -> tokio::time::Interval {
    let mut tick = interval_at(tokio::time::Instant::now() + time, time);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    tick
}

impl RunningMetrics {
    /// Ends the sinks, which send their last numbers, and logs what programs have asked of S3.
    pub(in crate::mount) fn end(self) {
        // A thread that has ended by itself is joined as well.
        self.stop.send(()).ok();
        if self.thread.join().is_err() {
            tracing::error!("the metrics' thread panicked");
        }
        if let Some(summary) = summary(&programs::accounts()) {
            tracing::info!(target: log::TARGET, "{summary}");
        }
    }
}

/// A line for the end of a mount; `None` if nothing was requested.
fn summary(accounts: &[&RequestAccount]) -> Option<String> {
    let mut programs: Vec<_> = accounts
        .iter()
        .map(|account| (account.name(), account.usage()))
        .filter(|(_, usage)| usage.requests() > 0)
        .collect();
    programs.sort_by_key(|(name, usage)| (Reverse(usage.requests()), *name));
    let sum = |value: fn(&BilledUsage) -> u64| -> u64 {
        programs.iter().map(|(_, usage)| value(usage)).sum()
    };
    let shares = programs.iter().take(PROGRAMS_SHOWN);
    let shares: Vec<_> = shares
        .map(|(name, usage)| format!("{name} {}", usage.requests()))
        .collect();
    (!shares.is_empty()).then(|| {
        format!(
            "{} requests to S3 with {} bytes sent and {} received; by program: {}",
            sum(BilledUsage::requests),
            sum(|usage| usage.sent),
            sum(|usage| usage.received),
            shares.join(", ")
        )
    })
}

/// Programs that the line at the end names.
const PROGRAMS_SHOWN: usize = 10;

/// Time between two summaries in the log, as mountpoint-s3 has it.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(5);

/// Longest wait for a collector at the end of the mount.
const LAST_EXPORT_MAX: Duration = Duration::from_secs(3);
