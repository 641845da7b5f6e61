//! Keeping data files of which no record tells what they are.
//!
//! Without the journal nobody knows whether the close of such a file had returned, so its bytes
//! stay until the user has looked at them.

use std::io;
use std::time::SystemTime;

use mountpoint_client::types::Key;

use super::description::{Description, FORMAT, KeptPlace, KeptRange};
use super::keep::{end_version, new_version};
use crate::config::StagingConfig;
use crate::file::control::text_of;
use crate::file::directory::{DataFileName, StagingDirectory};

/// Keeps the data file `file`, which may be of an object `key`. Returns its name when the disk has
/// it; `None` for an empty file, which is removed. Blocks.
pub(in crate::file) fn keep_unknown(
    directory: &StagingDirectory,
    config: &StagingConfig,
    file: &str,
    key: Option<&Key>,
    now: SystemTime,
) -> io::Result<Option<String>> {
    let found = directory.files().find_file(file)?;
    let found = found.ok_or(io::ErrorKind::NotFound)?;
    let metadata = found.metadata()?;
    let size = metadata.len();
    if size == 0 {
        directory.remove_data_file(file);
        return Ok(None);
    }
    let written = metadata.modified().map(text_of).unwrap_or_default();
    let description = Description {
        format: FORMAT,
        bucket: config.bucket.clone(),
        endpoint: config.endpoint.clone(),
        key: key.map(Key::to_string).unwrap_or_default(),
        host: config.host.clone(),
        time: text_of(now),
        reason: format!(
            "the journal was removed, so nobody knows which version of which file these bytes are, and whether its \
             close had returned; they were written until {written}, and what was not written of the file is zeros"
        ),
        size,
        base: None,
        metadata: Vec::new(),
        ranges: vec![KeptRange {
            start: 0,
            end: size,
            place: KeptPlace::First,
        }],
    };
    let number = DataFileName::parse(file).map_or(1, |name| name.0.saturating_add(1));
    let folder = directory.kept();
    let id = new_version(directory, (now, number), &description)?;
    found.sync_all()?;
    directory
        .files()
        .move_file(file, folder, &format!("{id}.1"))?;
    end_version(folder, &id)?;
    Ok(Some(id))
}
