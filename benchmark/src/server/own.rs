//! The embedded server with synthetic objects.

use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use mountpoint_client::testing::server::{
    Fault, LogMode, Operation, PartTags, Rule, Server, ServerOptions, SyntheticChecker,
};

use super::setup::{Access, Requests, Setup};
use super::store::{Store, written_marker};
use crate::dataset::{BUCKET, CACHE_BUCKET, Dataset, FileSet, WRITTEN};
use crate::recorded::Recorded;
use crate::workload::Conditions;

pub(super) struct OwnStore(Server);

impl OwnStore {
    pub(super) fn start(setup: &Setup) -> Result<Self> {
        let access = Access::embedded();
        let server = Server::start(ServerOptions {
            address: (setup.address, 0).into(),
            credentials: Some((access.key_id, access.secret)),
            worker_threads: thread::available_parallelism().map_or(2, usize::from),
            has_tls: true,
            log: LogMode::Counters,
            part_tags: PartTags::Checksum,
            ..ServerOptions::default()
        })?;
        server.store().create_bucket(BUCKET);
        server.store().create_bucket(CACHE_BUCKET);
        for set in Dataset::new(setup.quick).file_sets() {
            for index in 0..set.count {
                let (key, seed) = (set.key(index), set.seed(index));
                server.store().put_synthetic(BUCKET, &key, set.size, seed);
            }
        }
        if let Some(path) = &setup.replay {
            for file in Recorded::read(path)?.files {
                let store = server.store();
                store.put_synthetic(BUCKET, &file.key(), file.size, file.seed);
            }
        }
        server.store().put(BUCKET, &written_marker(), "");
        Ok(Self(server))
    }
}

impl Store for OwnStore {
    fn url(&self) -> String {
        self.0.url()
    }

    fn clear(&self) {
        self.0.log().clear();
    }

    fn requests(&self) -> Option<Requests> {
        let log = self.0.log();
        let get = log.counters(Operation::GetObject);
        let in_flight = Operation::ALL
            .iter()
            .map(|operation| log.counters(*operation).in_flight);
        Some(Requests {
            gets: get.requests,
            heads: log.count(Operation::HeadObject),
            lists: log.count(Operation::ListObjectsV2) + log.count(Operation::ListObjects),
            all: log.count_all(),
            in_flight: in_flight.sum(),
            bytes: get.bytes_sent,
        })
    }

    fn behave(&self, conditions: Conditions) -> Result<()> {
        let faults = self.0.faults();
        faults.clear();
        if conditions.latency_ms > 0 {
            faults.add(Rule::always(Fault::Latency {
                fixed: Duration::from_millis(conditions.latency_ms),
                jitter: Duration::ZERO,
            }));
        }
        if let Some(late) = conditions.late {
            faults.add(Rule {
                probability: late.percent as f64 / 100.0,
                ..Rule::always(Fault::Latency {
                    fixed: Duration::from_millis(late.by_ms),
                    jitter: Duration::ZERO,
                })
            });
        }
        if conditions.bandwidth_mbps > 0 {
            let bytes_per_second = conditions.bandwidth_mbps * 1_000_000 / 8;
            faults.add(Rule::always(Fault::Bandwidth(bytes_per_second)));
        }
        Ok(())
    }

    fn check(&self, files: FileSet) -> Result<()> {
        for index in 0..files.count {
            let key = files.key(index);
            let Some(object) = self.0.store().object(BUCKET, &key) else {
                bail!("{key} is not in the bucket");
            };
            let (size, expected) = (object.size(), files.size);
            ensure!(size == expected, "{key} has {size} bytes, not {expected}");
            let mut checker = SyntheticChecker::new(files.seed(index), 0);
            for piece in object.pieces() {
                let compared = checker.check(&piece);
                compared.map_err(|mismatch| anyhow::anyhow!("{key}: {mismatch}"))?;
            }
        }
        Ok(())
    }

    fn remove_written(&self) -> Result<()> {
        let prefix = format!("{WRITTEN}/");
        let keys = self.0.store().keys(BUCKET).into_iter();
        for key in keys.filter(|key| key.starts_with(&prefix) && *key != written_marker()) {
            self.0.store().delete(BUCKET, &key);
        }
        for key in self.0.store().keys(CACHE_BUCKET) {
            self.0.store().delete(CACHE_BUCKET, &key);
        }
        Ok(())
    }
}
