//! What an earlier process has left in the journal of a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mountpoint_client::types::Key;

use super::commit::{DamagedVersion, FoundRecord, RecoveredVersion, check_formats, recover};
use super::context::WriteBack;
use super::control::{DamagedFiles, PendingRow, pending_id, text_of};
use super::directory::{DataFileName, JournalBucket, StagingDirectory};
use super::journal::{Journal, has_journal};
use super::kept::{keep_unknown, keep_version};
use super::local::FileMemory;
use super::queue::UploadQueue;
use crate::clock::Clock;
use crate::config::StagingConfig;

/// The files that an earlier process has left in the journal.
#[derive(Default)]
pub(super) struct Left {
    pub(super) write_back: Option<WriteBack>,
    pub(super) versions: Vec<RecoveredVersion>,
    /// Names of data files that a record needs.
    pub(super) needed: BTreeSet<DataFileName>,
    pub(super) damaged: DamagedFiles,
    /// The journal that earlier mounts had is gone, and what it said of data files with it.
    pub(super) is_journal_lost: bool,
}

impl Left {
    /// Leaves the newest version of each key. A kill between the record of a rename and that of the
    /// removal of the file that it replaces leaves both: the older one is released. Any other older
    /// version was acknowledged, and is kept.
    fn drop_replaced(
        &mut self,
        journal: &Journal,
        (directory, config, now): (&StagingDirectory, &StagingConfig, SystemTime),
    ) {
        let mut newest = BTreeMap::new();
        let mut renamed_over = BTreeSet::new();
        for found in &self.versions {
            let version = newest.entry(found.version.key.clone()).or_insert(0);
            *version = found.id.version.max(*version);
            renamed_over.extend(found.version.over);
        }
        self.versions.retain(|found| {
            let key = &found.version.key;
            let is_newest = newest.get(key) == Some(&found.id.version);
            if is_newest {
                return true;
            }
            if renamed_over.contains(&found.id.key.0) {
                tracing::info!(key, "a file that an earlier mount replaced is not uploaded");
            } else {
                let reason = "an earlier mount has committed a newer file of this name".to_owned();
                let files = &found.files;
                match keep_version(directory, config, files, &found.version, (reason, now)) {
                    Ok(id) => tracing::error!(
                        key,
                        "two files of this name wait for their upload: the older one is kept as {id}, see \
                         `mount-s3 staged list {}`",
                        config.directory.display()
                    ),
                    Err(error) => {
                        tracing::error!(
                            key,
                            "two files of this name wait for their upload: the older one stays in the journal: {error}"
                        );
                        return false;
                    }
                }
            }
            // Without it, the next start releases it.
            drop(journal.release(found.id));
            false
        });
    }

    /// Removes the data files that no record needs, or keeps them if the journal is lost.
    /// `key_of` may know whose they are.
    pub(super) fn clear<'a>(
        &self,
        directory: &StagingDirectory,
        (config, now): (&StagingConfig, SystemTime),
        key_of: &dyn Fn(DataFileName) -> Option<&'a Key>,
    ) -> Result<(), String> {
        let is_needed = |name: DataFileName| self.needed.contains(&name);
        let mut leftovers = directory.leftovers(&is_needed)?;
        if !self.is_journal_lost {
            return Ok(directory.remove_leftovers(&leftovers)?);
        }
        leftovers.sort();
        let mut count = 0;
        for file in leftovers {
            let Some(name) = DataFileName::parse(&file).filter(|name| name.is_data(&file)) else {
                continue;
            };
            match keep_unknown(directory, config, &file, key_of(name), now) {
                Ok(kept) => count += u64::from(kept.is_some()),
                Err(error) => {
                    let place = directory.path().display();
                    tracing::error!("{file} stays in {place}, and could not be kept: {error}");
                }
            }
        }
        if count > 0 {
            let place = config.directory.display();
            tracing::error!(
                "the journal in {place} was removed: {count} data files of which it told may be of files whose close had \
                 returned, and are kept; see `mount-s3 staged list {place}`"
            );
        }
        Ok(())
    }

    /// Tells of a version that cannot be uploaded.
    fn add_damaged(
        &mut self,
        name: DataFileName,
        damaged: &DamagedVersion,
        directory: &StagingDirectory,
    ) {
        let version = damaged.version.as_ref();
        let key = version.map(|it| it.key.clone()).unwrap_or_default();
        let (id, place) = (pending_id(name.0), directory.path().display());
        let reason = &damaged.reason;
        tracing::error!(
            key,
            "a file of an earlier mount is not uploaded: {reason}; what is left of it stays in {place} as {id}"
        );
        self.damaged.add(PendingRow {
            id,
            size: version.map(|it| it.size).unwrap_or_default(),
            time: version.map(|it| text_of(it.mtime())).unwrap_or_default(),
            tries: 0,
            error: Some(match key.is_empty() {
                true => reason.clone(),
                false => format!("{key}: {reason}"),
            }),
            key,
        });
    }

    /// Reads the journal, or begins one if the mount writes back. Blocks.
    pub(super) fn find(
        config: &StagingConfig,
        (directory, memory): (&Arc<StagingDirectory>, &Arc<FileMemory>),
        clock: &Clock,
    ) -> Result<Self, String> {
        let mut left = Self::default();
        let disk = directory.journal(config.write_back.is_some())?;
        let has_journal = disk.as_ref().map_or(Ok(false), |disk| has_journal(&**disk));
        let has_journal = has_journal.map_err(|error| error.to_string())?;
        left.is_journal_lost = !has_journal && directory.had_journal()?;
        let Some(disk) = disk else {
            return Ok(left);
        };
        let opened = Journal::open(disk, directory.journal_limits(), clock.clone());
        let (journal, records) = opened.map_err(|error| {
            let place = directory.path().display();
            format!("cannot use the staging directory {place}: {error}")
        })?;
        if records.is_empty() && config.write_back.is_none() {
            return Ok(left);
        }
        check_formats(directory, &journal, &records)?;
        let bucket = JournalBucket {
            name: config.bucket.clone(),
            endpoint: config.endpoint.clone(),
        };
        if let Some(other) = directory.claim_for(&bucket, !records.is_empty())? {
            let (place, count) = (config.directory.display(), records.len());
            return Err(format!(
                "{place} has {count} files that wait for their upload to {other}, and not to {bucket}: mount that bucket \
                 with it, or name another directory; `mount-s3 staged list {place}` shows them"
            ));
        }
        for record in &records {
            let name = DataFileName(record.id.key.0);
            directory.skip_names(name.0.saturating_add(1));
            match recover((directory, memory), &journal, record)? {
                FoundRecord::Version(found) => left.versions.push(*found),
                FoundRecord::Removed => {
                    // Without it, the next start releases it.
                    drop(journal.release(record.id));
                    continue;
                }
                FoundRecord::Damaged(damaged) => left.add_damaged(name, &damaged, directory),
            }
            left.needed.insert(name);
        }
        left.drop_replaced(&journal, (directory, config, clock.wall()));
        let delay = config.write_back.map_or(Duration::ZERO, |it| it.delay);
        let queue = UploadQueue::start(delay, clock);
        let queue = queue.map_err(|error| format!("cannot start a thread: {error}"))?;
        left.write_back = Some(WriteBack { journal, queue });
        Ok(left)
    }
}
