//! A server whose address is given: the objects are put there once, and stay.
//!
//! Invariant: nothing is overwritten or deleted that a run has not put there itself. An object of
//! another size under a key that a run needs, or objects below the folder for written files that no
//! run has marked, end the run.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use mountpoint_client::ObjectClient;
use mountpoint_client::testing::server::{SyntheticChecker, synthetic_bytes};
use mountpoint_client::types::{ListRequest, ObjectHeaders, PartNumber, PutCondition, Upload};

use super::setup::Requests;
use super::store::{Store, written_marker};
use crate::dataset::{FileSet, MIB, WRITTEN};
use crate::store_client::{StoreClient, get, parse_key, put};
use crate::workload::Conditions;

/// Larger objects are put in parts of this size: 10,000 of them are more than any object has.
const PART: u64 = 16 * MIB;
/// Written objects are read back in ranges of this size, the most that our client takes in one GET.
const RANGE: u64 = 8 * MIB;
/// Requests in flight while objects are put there, checked or removed: enough for a server in the
/// same region.
const IN_FLIGHT_MAX: usize = 8;
/// Keys of one DeleteObjects (S3's own limit).
const DELETE_MAX: usize = 1000;

pub(super) struct GivenStore {
    url: String,
    store: StoreClient,
}

impl GivenStore {
    /// Puts the missing objects of `sets` into the bucket.
    pub(super) fn prepare(url: &str, store: StoreClient, sets: &[FileSet]) -> Result<Self> {
        let this = Self {
            url: url.to_owned(),
            store,
        };
        let client = &this.store.client;
        this.store.block_on(async {
            for set in sets {
                put_missing(client, set).await?;
            }
            mark(client).await
        })?;
        this.remove_written()?;
        Ok(this)
    }
}

impl Store for GivenStore {
    fn url(&self) -> String {
        self.url.clone()
    }

    fn clear(&self) {}

    fn requests(&self) -> Option<Requests> {
        None
    }

    fn behave(&self, conditions: Conditions) -> Result<()> {
        ensure!(
            conditions == Conditions::default(),
            "only the embedded server can be slowed"
        );
        Ok(())
    }

    fn check(&self, files: FileSet) -> Result<()> {
        let StoreClient { client, pool, .. } = &self.store;
        self.store.block_on(async {
            // First whether all is there, which is what is waited for; then what it holds.
            let sizes = sizes_below(client, WRITTEN).await?;
            for index in 0..files.count {
                ensure!(
                    is_there(&sizes, files, index)?,
                    "{} is not in the bucket",
                    files.key(index)
                );
            }
            let ranges = (0..files.count).flat_map(|index| {
                let starts = (0..files.size).step_by(usize::try_from(RANGE).unwrap_or(1));
                starts.map(move |start| (index, start..(start + RANGE).min(files.size)))
            });
            let checks = stream::iter(ranges).map(|(index, range)| async move {
                let (key, offset) = (files.key(index), range.start);
                let block = get(client, pool, &key, range).await?;
                let mut checker = SyntheticChecker::new(files.seed(index), offset);
                let compared = checker.check(block.bytes(0..block.capacity()));
                compared.with_context(|| key)
            });
            checks
                .buffer_unordered(IN_FLIGHT_MAX)
                .try_for_each(|()| async { Ok(()) })
                .await
        })
    }

    fn remove_written(&self) -> Result<()> {
        let client = &self.store.client;
        self.store.block_on(async {
            let sizes = sizes_below(client, WRITTEN).await?;
            let keys = sizes.keys().filter(|key| **key != written_marker());
            let keys: Vec<_> = keys.map(|key| parse_key(key)).collect::<Result<_>>()?;
            for keys in keys.chunks(DELETE_MAX) {
                let objects = keys.iter().map(|key| (key.clone(), None));
                let left = client.delete_many(objects.collect()).await?;
                if let Some(failure) = left.first() {
                    bail!("what was written cannot be removed: {failure:?}");
                }
            }
            Ok(())
        })
    }
}

/// Whether the object is there; one of another size is an error.
fn is_there(sizes: &HashMap<String, u64>, files: FileSet, index: u64) -> Result<bool> {
    let key = files.key(index);
    let Some(size) = sizes.get(&key) else {
        return Ok(false);
    };
    let expected = files.size;
    ensure!(
        *size == expected,
        "the bucket holds {key} with {size} bytes, not {expected}: give a bucket of the benchmark's own with --bucket"
    );
    Ok(true)
}

/// Every object below a folder.
async fn sizes_below(client: &Arc<dyn ObjectClient>, folder: &str) -> Result<HashMap<String, u64>> {
    let mut sizes = HashMap::new();
    let mut request = ListRequest {
        prefix: format!("{folder}/"),
        ..ListRequest::default()
    };
    loop {
        let page = client.list(request.clone()).await?;
        let objects = page.objects.into_iter();
        sizes.extend(objects.map(|object| (object.key.as_str().to_owned(), object.size)));
        match page.continuation_token {
            Some(token) => request.continuation_token = Some(token),
            None => return Ok(sizes),
        }
    }
}

async fn put_missing(client: &Arc<dyn ObjectClient>, set: &FileSet) -> Result<()> {
    let sizes = sizes_below(client, set.prefix).await?;
    let mut missing = Vec::new();
    for index in 0..set.count {
        if !is_there(&sizes, *set, index)? {
            missing.push(index);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let (count, size) = (missing.len(), set.size / 1024);
    // The parent's terminal; there is nobody to tell if it has gone.
    let _gone = writeln!(
        io::stderr(),
        "putting {count} objects of {size} KiB below {}/",
        set.prefix
    );
    if set.size > PART {
        for index in missing {
            put_large(client, set, index).await?;
        }
        return Ok(());
    }
    let puts = stream::iter(missing).map(|index| async move {
        let (key, bytes) = (set.key(index), content(set, index, 0, set.size));
        put(client, &key, bytes).await
    });
    puts.buffer_unordered(IN_FLIGHT_MAX)
        .try_for_each(|()| async { Ok(()) })
        .await
}

fn content(set: &FileSet, index: u64, start: u64, end: u64) -> Bytes {
    Bytes::from(synthetic_bytes(set.seed(index), start..end))
}

/// Puts an object by parts. An upload that fails is aborted, so that no part is left that costs.
async fn put_large(client: &Arc<dyn ObjectClient>, set: &FileSet, index: u64) -> Result<()> {
    let key = parse_key(&set.key(index))?;
    let upload = client
        .create_upload(&key, ObjectHeaders::default(), None)
        .await?;
    let put = put_parts(client, set, index, &upload).await;
    if put.is_err() {
        let _best_effort = client.abort_upload(&upload).await;
    }
    put
}

async fn put_parts(
    client: &Arc<dyn ObjectClient>,
    set: &FileSet,
    index: u64,
    upload: &Upload,
) -> Result<()> {
    let parts = stream::iter(0..set.size.div_ceil(PART)).map(|part| async move {
        let (start, end) = (part * PART, ((part + 1) * PART).min(set.size));
        let number = PartNumber(u16::try_from(part + 1)?);
        let put = client.put_part(upload, number, content(set, index, start, end), None);
        anyhow::Ok(put.await?)
    });
    let parts = parts.buffered(IN_FLIGHT_MAX).try_collect().await?;
    let _version = client
        .complete_upload(upload, parts, PutCondition::None)
        .await?;
    Ok(())
}

/// Makes sure that the folder for written files is a run's own.
async fn mark(client: &Arc<dyn ObjectClient>) -> Result<()> {
    let marker = written_marker();
    let sizes = sizes_below(client, WRITTEN).await?;
    if sizes.contains_key(&marker) {
        return Ok(());
    }
    ensure!(
        sizes.is_empty(),
        "the bucket holds objects below {WRITTEN}/ that no run wrote: give a bucket of the benchmark's own with --bucket"
    );
    put(client, &marker, Bytes::new()).await
}

#[cfg(test)]
mod tests {
    use mountpoint_client::SimClient;
    use mountpoint_client::testing::sim::SimOptions;

    use super::*;
    use crate::dataset::Dataset;

    fn sim() -> Arc<SimClient> {
        Arc::new(SimClient::new(SimOptions::default()))
    }

    fn prepare(sim: &Arc<SimClient>, sets: &[FileSet]) -> Result<GivenStore> {
        let client = Arc::clone(sim) as Arc<dyn ObjectClient>;
        GivenStore::prepare("http://127.0.0.1:1", StoreClient::over(client), sets)
    }

    fn sizes(store: &GivenStore, folder: &str) -> HashMap<String, u64> {
        let client = &store.store.client;
        store.store.block_on(sizes_below(client, folder)).unwrap()
    }

    /// As a workload writes them.
    fn write(store: &GivenStore, files: FileSet) {
        let client = &store.store.client;
        let put = store.store.block_on(async {
            for index in 0..files.count {
                let bytes = content(&files, index, 0, files.size);
                put(client, &files.key(index), bytes).await?;
            }
            anyhow::Ok(())
        });
        put.unwrap();
    }

    #[test]
    fn what_is_missing_is_put_there_and_can_be_read() {
        let data = Dataset::new(true);
        let large = FileSet {
            size: 2 * PART + 5,
            ..data.large
        };
        let sim = sim();
        let store = prepare(&sim, &[data.deep, large]).unwrap();
        assert_eq!(sizes(&store, "deep").len() as u64, data.deep.count);
        let StoreClient { client, pool, .. } = &store.store;
        let key = large.key(0);
        let last = store
            .store
            .block_on(get(client, pool, &key, PART..large.size));
        let last = last.unwrap();
        assert_eq!(
            last.bytes(0..last.capacity()),
            large.content(0, PART, large.size)
        );
        // The second time there is nothing to do.
        let before = sizes(&store, "deep");
        assert_eq!(sizes(&prepare(&sim, &[data.deep]).unwrap(), "deep"), before);
    }

    #[test]
    fn what_was_written_is_compared_and_removed() {
        let files = Dataset::new(true).written_small.first(3);
        let store = prepare(&sim(), &[]).unwrap();
        let said = |store: &GivenStore| store.check(files).map_err(|error| format!("{error:#}"));
        assert!(said(&store).unwrap_err().contains("is not in the bucket"));
        write(&store, files);
        assert_eq!(said(&store), Ok(()));
        write(&store, FileSet { seed: 1, ..files });
        let wrong = said(&store).unwrap_err();
        assert!(wrong.contains("and should be"), "{wrong}");
        store.remove_written().unwrap();
        assert_eq!(
            sizes(&store, WRITTEN),
            HashMap::from([(written_marker(), 0)])
        );
    }

    #[test]
    fn what_a_killed_run_left_is_removed_by_the_next() {
        let sim = sim();
        let files = Dataset::new(true).written_small.first(2);
        write(&prepare(&sim, &[]).unwrap(), files);
        assert_eq!(sizes(&prepare(&sim, &[]).unwrap(), WRITTEN).len(), 1);
    }

    #[test]
    fn nothing_of_somebody_else_is_touched() {
        let data = Dataset::new(true);
        for (key, named) in [
            (data.deep.key(0), "deep/"),
            ("written/mine".to_owned(), "written/"),
        ] {
            let sim = sim();
            sim.put_pattern(&key, 7, 1);
            let error = prepare(&sim, &[data.deep]).err().unwrap().to_string();
            assert!(
                error.contains(named) && error.contains("--bucket"),
                "{error}"
            );
            let store = StoreClient::over(Arc::clone(&sim) as Arc<dyn ObjectClient>);
            let found = store.block_on(store.client.head(&parse_key(&key).unwrap()));
            assert_eq!(found.unwrap().size, 7);
        }
    }
}
