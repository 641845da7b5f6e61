//! The bucket that the journal's versions are to be stored in.

use std::fmt;
use std::io::{self, Read as _, Write as _};

use serde::{Deserialize, Serialize};

use crate::local_disk::{Disk as _, Folder};

/// A bucket, and where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JournalBucket {
    /// Its name or ARN.
    pub(crate) name: String,
    /// The endpoint's URL; empty for AWS.
    pub(crate) endpoint: String,
}

impl JournalBucket {
    /// The bucket that `folder` names; `None` if it names none.
    pub(super) fn read(folder: &Folder) -> io::Result<Option<Self>> {
        let Some(file) = folder.find_file(FILE)? else {
            return Ok(None);
        };
        let mut text = String::new();
        file.take(LEN_MAX).read_to_string(&mut text)?;
        Ok(Some(serde_json::from_str(&text)?))
    }

    /// Names it in `folder`. Durable when this returns.
    pub(super) fn write(&self, folder: &Folder) -> io::Result<()> {
        folder.remove(NEW_FILE)?;
        let mut file = folder.create_file(NEW_FILE)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        folder.move_file(NEW_FILE, folder, FILE)?;
        folder.sync()
    }
}

impl fmt::Display for JournalBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, endpoint } = self;
        match endpoint.is_empty() {
            true => write!(f, "{name}"),
            false => write!(f, "{name} at {endpoint}"),
        }
    }
}

const FILE: &str = "bucket";
const NEW_FILE: &str = "bucket.new";

/// More than two names of the longest kind have.
const LEN_MAX: u64 = 64 << 10;
