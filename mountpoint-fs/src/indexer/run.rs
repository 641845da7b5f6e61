//! The index from its arguments to its exit code.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;

use super::arguments::IndexArguments;
use super::inventory::Inventory;
use super::progress::Progress;
use crate::clock::Clock;
use crate::index::{IndexBuilder, IndexEntry, IndexError, IndexFile, IndexHeader};
use crate::mount::{
    Connected, Environment, connect_helper, parse_helper, run_helper, safe_line, stop_on_signals,
    store_options,
};
use crate::namespace::{AllKeys, Version};

/// Runs `mount-s3 index` with the arguments after that word.
///
/// The exit code is 0 if the file is there, 1 if not, 2 for a wrong command line.
#[must_use]
pub(super) fn run(arguments: Vec<OsString>) -> ExitCode {
    run_helper("index", parse_helper(arguments), |arguments| {
        let clock = Clock::monotonic();
        let index = make(arguments, &clock)?;
        let text = summary(arguments, &index, clock.now());
        // A failure to print cannot be reported.
        writeln!(std::io::stdout(), "{}", safe_line(&text)).ok();
        Ok(true)
    })
}

/// Makes the index.
fn make(arguments: &IndexArguments, clock: &Clock) -> Result<IndexFile, String> {
    let stop = stop_on_signals(true)?;
    let environment = Environment::read()?;
    let prefix = arguments.prefix()?;
    let options = store_options(&arguments.bucket, &arguments.store, &environment)?;
    let header = IndexHeader {
        bucket: options.bucket.clone(),
        prefix: prefix.to_owned(),
        region: options.region.clone(),
        endpoint_url: options.endpoint_url.clone(),
    };
    if !arguments.inventory.is_empty() {
        return from_inventory(arguments, header, &stop);
    }
    let (runtime, connected) = connect_helper(&environment, &options, prefix, None)?;
    let Connected { client, region, .. } = connected;
    let unwritable = |error| unwritable(arguments, &error);
    let header = IndexHeader { region, ..header };
    let mut builder = IndexBuilder::new(&arguments.output, header).map_err(unwritable)?;
    let listing = AllKeys::new(client, clock.clone(), prefix);
    fill(&runtime, listing, &stop, |keys| {
        for (key, version) in keys {
            builder.push(entry(key, &version)).map_err(unwritable)?;
        }
        Ok(())
    })?;
    builder.finish().map_err(unwritable)
}

/// Takes in all pages of `listing`, until somebody wants it to `stop`.
fn fill(
    runtime: &Runtime,
    mut listing: AllKeys,
    stop: &AtomicBool,
    mut take_in: impl FnMut(Vec<(String, Version)>) -> Result<(), String>,
) -> Result<(), String> {
    let progress = Progress::begin();
    loop {
        let page =
            runtime.block_on(async { tokio::time::timeout(STOP_POLL, listing.next()).await });
        check_stop(stop)?;
        match page {
            Ok(Ok(Some(keys))) => {
                progress.add(keys.len());
                take_in(keys)?;
            }
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => return Err(format!("cannot list the bucket: {error}")),
            Err(_) => {}
        }
    }
}

/// Makes the index of an inventory.
fn from_inventory(
    arguments: &IndexArguments,
    header: IndexHeader,
    stop: &AtomicBool,
) -> Result<IndexFile, String> {
    let columns = arguments.inventory_columns.as_ref();
    let inventory = Inventory::of(&arguments.inventory, columns)?;
    let is_named = !header.bucket.starts_with("arn:");
    if let Some(bucket) = inventory
        .bucket()
        .filter(|it| is_named && **it != header.bucket)
    {
        return Err(format!(
            "the inventory is of the bucket '{bucket}', not of '{}'",
            header.bucket
        ));
    }
    let unwritable = |error| unwritable(arguments, &error);
    let prefix = header.prefix.clone();
    let mut builder = IndexBuilder::new(&arguments.output, header).map_err(unwritable)?;
    let progress = Progress::begin();
    inventory.read(&prefix, |entry| {
        check_stop(stop)?;
        progress.add(1);
        builder.push(entry).map_err(unwritable)
    })?;
    builder.finish().map_err(unwritable)
}

fn unwritable(arguments: &IndexArguments, error: &IndexError) -> String {
    format!("cannot write {}: {error}", arguments.output.display())
}

/// An error if a signal has come.
fn check_stop(stop: &AtomicBool) -> Result<(), String> {
    if stop.load(Ordering::Relaxed) {
        return Err("interrupted; no file was written".to_owned());
    }
    Ok(())
}

fn entry(key: String, version: &Version) -> IndexEntry {
    let Version {
        size,
        etag,
        mtime,
        is_archived,
    } = version;
    IndexEntry::new(key, *size, *mtime, etag, *is_archived)
}

/// The index that was made, in one line.
fn summary(arguments: &IndexArguments, index: &IndexFile, took: Duration) -> String {
    let keys = index.keys();
    let len = std::fs::metadata(index.path()).map_or(0, |file| file.len());
    format!(
        "{} has {keys} keys of the bucket {}, {} of objects: {}, {} bytes a key, in {:.1} s",
        arguments.output.display(),
        index.header().bucket,
        indicatif::BinaryBytes(index.object_bytes()),
        indicatif::BinaryBytes(len),
        len.div_ceil(keys.max(1)),
        took.as_secs_f64(),
    )
}

/// How often it is looked for a signal.
const STOP_POLL: Duration = Duration::from_millis(100);
