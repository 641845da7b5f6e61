//! Keeping a version that could not be stored.

use std::io::{self, Write as _};
use std::time::SystemTime;

use mountpoint_client::types::Key;
use time::OffsetDateTime;

use super::description::{BaseVersion, Description, FORMAT, KeptRange};
use crate::config::StagingConfig;
use crate::file::contents::{DataFileNo, Snapshot};
use crate::file::control::text_of;
use crate::file::directory::StagingDirectory;
use crate::file::local::DataFiles;
use crate::local_disk::{Disk as _, Folder};
use crate::write::Stored;

/// A version to keep.
#[derive(Debug)]
pub(in crate::file) struct Kept<'a> {
    pub(in crate::file) key: &'a Key,
    pub(in crate::file) base: Option<&'a Stored>,
    pub(in crate::file) metadata: Vec<(String, String)>,
    pub(in crate::file) contents: &'a Snapshot,
    pub(in crate::file) reason: String,
    pub(in crate::file) time: SystemTime,
}

/// Keeps a version: its data files move, nothing is copied. Returns its name when the disk has it.
pub(in crate::file) fn keep(
    directory: &StagingDirectory,
    config: &StagingConfig,
    files: &DataFiles,
    kept: &Kept<'_>,
) -> io::Result<String> {
    let folder = directory.kept();
    let new = new_version(directory, (kept.time, 1), &describe(config, kept))?;
    for (number, suffix) in [(DataFileNo::First, "1"), (DataFileNo::Second, "2")] {
        if let Some(file) = files.on_disk(number)? {
            file.sync_data()?;
            let name = files.name().of(number);
            let new_name = format!("{new}.{suffix}");
            // As long as the journal has a record of the version, the record needs its files.
            match files.is_recorded() {
                true => directory.files().link_file(&name, folder, &new_name)?,
                false => directory.files().move_file(&name, folder, &new_name)?,
            }
        }
    }
    end_version(folder, &new)?;
    Ok(new)
}

/// Makes `description` durable under a name that no version has, numbered from `number` on. It is
/// no version before its end.
pub(super) fn new_version(
    directory: &StagingDirectory,
    (now, mut number): (SystemTime, u64),
    description: &Description,
) -> io::Result<String> {
    let text = serde_json::to_vec(description)?;
    let now = OffsetDateTime::from(now);
    let (date, time) = (now.date(), now.time());
    let date = date.to_string().replace('-', "");
    let time = format!("{:02}{:02}{:02}", time.hour(), time.minute(), time.second());
    loop {
        let id = format!("{date}-{time}-{number}");
        let is_taken = directory.kept().find_file(&format!("{id}.json"))?.is_some();
        let made = directory.kept().create_file(&format!("{id}.new"));
        match made {
            Ok(mut file) if !is_taken => {
                file.write_all(&text)?;
                file.sync_all()?;
                return Ok(id);
            }
            Ok(_) => directory.kept().remove(&format!("{id}.new"))?,
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) => {}
        }
        number = number.wrapping_add(1);
    }
}

/// Makes the version `id` one, whose data files are there. Durable when this returns.
pub(super) fn end_version(folder: &Folder, id: &str) -> io::Result<()> {
    folder.move_file(&format!("{id}.new"), folder, &format!("{id}.json"))?;
    folder.sync()
}

fn describe(config: &StagingConfig, kept: &Kept<'_>) -> Description {
    let size = kept.contents.size();
    Description {
        format: FORMAT,
        bucket: config.bucket.clone(),
        endpoint: config.endpoint.clone(),
        key: kept.key.to_string(),
        host: config.host.clone(),
        time: text_of(kept.time),
        reason: kept.reason.clone(),
        size,
        base: kept.base.map(|base| BaseVersion {
            etag: base.etag.as_str().to_owned(),
            size: base.size,
        }),
        metadata: kept.metadata.clone(),
        ranges: kept
            .contents
            .pieces(0..size)
            .iter()
            .map(KeptRange::of)
            .collect(),
    }
}
