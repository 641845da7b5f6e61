//! `manifest.json` of an inventory.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::row::Columns;

/// How an inventory is written.
#[derive(Clone, Debug)]
pub(super) enum InventoryFormat {
    Csv(Columns),
    Parquet,
}

/// A manifest, with its files as they are on this machine.
#[derive(Debug)]
pub(super) struct Manifest {
    pub(super) bucket: String,
    pub(super) format: InventoryFormat,
    pub(super) files: Vec<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    source_bucket: String,
    file_format: String,
    file_schema: String,
    files: Vec<DataFile>,
}

#[derive(Debug, Deserialize)]
struct DataFile {
    /// Where it is in the bucket that inventories are written to.
    key: String,
    size: u64,
}

impl Manifest {
    /// Reads the manifest at `path`. Its files are beside it, in `data/` beside it, or in `data/`
    /// beside its directory, as `aws s3 sync` of an inventory leaves them.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text = std::fs::read(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
        let document: Document = serde_json::from_slice(&text)
            .map_err(|error| format!("{shown} is no manifest of an inventory: {error}"))?;
        let format = match &*document.file_format {
            "CSV" => {
                let columns = document.file_schema.parse();
                InventoryFormat::Csv(columns.map_err(|error: String| format!("{shown}: {error}"))?)
            }
            "Parquet" => InventoryFormat::Parquet,
            other => {
                return Err(format!(
                    "the inventory {shown} is in the format {other}: have S3 write one in Parquet or CSV"
                ));
            }
        };
        let directory = path.parent().unwrap_or_else(|| Path::new(""));
        let places = [
            directory.to_owned(),
            directory.join("data"),
            directory.join("../data"),
        ];
        let files = document.files.iter().map(|file| {
            let name = file.key.rsplit('/').next().unwrap_or_default();
            let found = places.iter().map(|place| place.join(name)).find(|it| it.is_file());
            let found = found.ok_or_else(|| {
                format!("{name}, which {shown} names, is neither beside it nor in data/ beside it or above it")
            })?;
            let len = found.metadata().map_or(0, |it| it.len());
            if len != file.size {
                let found = found.display();
                return Err(format!("{found} has {len} bytes; {shown} says {}", file.size));
            }
            Ok(found)
        });
        Ok(Self {
            bucket: document.source_bucket,
            format,
            files: files.collect::<Result<_, String>>()?,
        })
    }
}
