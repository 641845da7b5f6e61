//! The run of the command, from its arguments to its exit code.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mountpoint_client::ObjectClient;
use mountpoint_client::crt_client::CrtClientOptions;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::arguments::WarmArguments;
use super::filler::{FillLimits, Filler};
use super::patterns::Patterns;
use super::progress::Progress;
use super::sources::{Finder, Sources};
use super::tally::{Summary, add};
use crate::cache::{Cache, CacheFill, FillError, StoreId};
use crate::clock::Clock;
use crate::mount::{
    Environment, connect_helper, memory_target, open_index, parse_helper, read_part_size,
    run_helper, safe_line, stop_on_signals, store_id, store_options,
};

/// Runs `mount-s3 warm` with the arguments behind that word.
///
/// The exit code is 0 if all objects are in the cache, 1 if not, 2 for a wrong command line.
#[must_use]
pub(super) fn run(arguments: Vec<OsString>) -> ExitCode {
    run_helper(
        "warm",
        parse_helper(arguments),
        |arguments: &WarmArguments| {
            let summary = warm(arguments)?;
            let text = if arguments.json {
                summary.json()
            } else {
                let cache = arguments.cache.display().to_string();
                let bucket = &arguments.sources[0].bucket.name;
                safe_line(&summary.text(bucket, &cache))
            };
            // A failure to print cannot be reported.
            writeln!(std::io::stdout(), "{text}").ok();
            Ok(summary.is_complete())
        },
    )
}

/// Fills the cache.
///
/// # Errors
/// A text for the user, if nothing could be fetched.
fn warm(arguments: &WarmArguments) -> Result<Summary, String> {
    let stop = stop_on_signals(false)?;
    let paths = arguments.paths()?;
    let environment = Environment::read()?;
    let options = store_options(arguments.bucket()?, &arguments.store, &environment)?;
    let patterns = Patterns::new(&arguments.include, &arguments.exclude);
    let limits = FillLimits {
        memory_max: memory_target(&arguments.store.client)?,
        part_size: read_part_size(&arguments.store.client),
        bandwidth: arguments.maximum_bandwidth.map(|mb| mb * 1_000_000),
    };
    let clock = Clock::monotonic();
    // A mount with these flags has the same store, so the id is taken before the client learns
    // more.
    let store = store_id(&options);
    let cache = open_cache(arguments, &environment, store, limits.memory_max, &clock)?;
    let (runtime, client) = connect_to_bucket(arguments, options, &paths, &environment)?;
    let progress = Arc::new(Progress::begin());
    let filler = Filler::new(
        Arc::clone(&client),
        Arc::clone(&cache),
        Arc::clone(&progress),
        clock.clone(),
        limits,
    );
    let (targets, received) = mpsc::channel(TARGETS_AHEAD);
    let finder = Finder {
        client,
        clock: clock.clone(),
        patterns,
        progress: Arc::clone(&progress),
        targets,
    };
    let sources = match &arguments.files_from {
        None => Sources::Paths(paths),
        Some(file) => Sources::Lines {
            prefix: paths.concat(),
            file: file.clone(),
        },
    };
    let finding = runtime.spawn({
        let filler = Arc::clone(&filler);
        async move {
            if let Err(reason) = finder.find(sources).await {
                filler.end(&reason);
            }
        }
    });
    let filling = runtime.spawn(Arc::clone(&filler).fill(received));
    watch(&runtime, filling, &filler, &progress, &stop, &clock);
    finding.abort();
    count_evicted(&runtime, &cache, &filler, &progress);
    let ended_by = filler.ended_by();
    if let Some(reason) = &ended_by {
        progress.tell(reason);
    }
    let summary = Summary::new(&progress.tally.counts(), ended_by, clock.now());
    // A thread may still wait for standard input or a disk.
    runtime.shutdown_background();
    Ok(summary)
}

/// Opens the cache that a mount with the same flags uses.
fn open_cache(
    arguments: &WarmArguments,
    environment: &Environment,
    store: StoreId,
    memory_max: u64,
    clock: &Clock,
) -> Result<Arc<CacheFill>, String> {
    let config = arguments
        .cache_flags()
        .config(environment.cache_key.clone(), true)
        .ok_or("--max-cache-size 0 keeps nothing")?;
    let cache = Cache::open(&config, store, memory_max, &|_| false, clock.clone())
        .map_err(|error| format!("--cache: {error}"))?;
    Ok(CacheFill::new(cache, config.bytes_max))
}

/// Starts a runtime and a client of the bucket. Names come from the index if there is one.
fn connect_to_bucket(
    arguments: &WarmArguments,
    mut options: CrtClientOptions,
    paths: &[String],
    environment: &Environment,
) -> Result<(Runtime, Arc<dyn ObjectClient>), String> {
    let mut index = None;
    if let Some(path) = &arguments.index {
        for prefix in paths {
            index = Some(open_index(path, prefix, &mut options).map_err(|it| it.to_string())?);
        }
    }
    let (runtime, connected) = connect_helper(environment, &options, &paths[0], index.as_ref())?;
    Ok((runtime, connected.client))
}

/// Shows the progress of `filling` until its end. After `stop` is set, waits only for a short time.
fn watch(
    runtime: &Runtime,
    mut filling: tokio::task::JoinHandle<()>,
    filler: &Filler,
    progress: &Progress,
    stop: &AtomicBool,
    clock: &Clock,
) {
    let mut stopped_at = None;
    loop {
        let tick = runtime.block_on(async { tokio::time::timeout(TICK, &mut filling).await });
        progress.show(clock.now());
        match tick {
            Ok(Ok(())) => return,
            Ok(Err(error)) => return filler.end(&format!("a task has failed: {error}")),
            Err(_) => {}
        }
        if stop.load(Ordering::Relaxed) {
            filler.end("interrupted");
            let now = clock.now();
            let stopped_at = *stopped_at.get_or_insert(now);
            if now > stopped_at + STOP_MAX {
                return filling.abort();
            }
        }
    }
}

/// Counts the stored objects that were evicted again; only for a short time if the run ended early.
fn count_evicted(runtime: &Runtime, cache: &Arc<CacheFill>, filler: &Filler, progress: &Progress) {
    let time_max = match filler.ended_by() {
        Some(_) => STOP_MAX,
        None => Duration::MAX,
    };
    let counted = runtime.block_on(async { tokio::time::timeout(time_max, cache.evicted()).await });
    match counted {
        Ok(Ok(evicted)) => add(&progress.tally.evicted, evicted),
        Ok(Err(FillError::Disk(error))) => {
            filler.end(&format!("cannot see what is in the cache: {error}"));
        }
        Ok(Err(FillError::NoRoom)) | Err(_) => {}
    }
}

/// Interval between two displays, and between two checks for a signal.
const TICK: Duration = Duration::from_millis(100);

/// Time to store the ranges in flight after a signal.
const STOP_MAX: Duration = Duration::from_secs(10);

/// Objects that may be found ahead of their fetch.
const TARGETS_AHEAD: usize = 10_000;
