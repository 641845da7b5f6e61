//! The index file of a mount, and whether it is of this mount's bucket.

use std::path::Path;
use std::sync::Arc;

use mountpoint_client::crt_client::CrtClientOptions;

use super::{MountConfig, StartError};
use crate::index::{IndexFile, IndexHeader};

/// The index that `config` names, if it names one. A region that only the index knows is set in
/// `options`.
pub(super) fn open(
    config: &MountConfig,
    options: &mut CrtClientOptions,
) -> Result<Option<Arc<IndexFile>>, StartError> {
    let path = config.index.as_deref();
    path.map(|path| open_index(path, &config.fs.prefix, options))
        .transpose()
}

/// The index at `path`, which has the names of the bucket of `options` under `prefix`. A region
/// that only the index knows is set in `options`.
///
/// # Errors
/// With a text for the user: the failure and its remedy.
pub fn open_index(
    path: &Path,
    prefix: &str,
    options: &mut CrtClientOptions,
) -> Result<Arc<IndexFile>, StartError> {
    let shown = path.display();
    let index = IndexFile::open(path)
        .map_err(|error| StartError::new(format!("cannot use --index {shown}: {error}")))?;
    let header = index.header();
    if let Err(reason) = check(header, &options.bucket, prefix) {
        return Err(StartError::new(format!(
            "cannot use --index {shown}: {reason}"
        )));
    }
    if header.endpoint_url != options.endpoint_url {
        tracing::warn!(
            "the index {shown} was made at {} and this mount reads at {}: files whose versions differ there cannot be \
             read",
            header.endpoint_url.as_deref().unwrap_or("AWS"),
            options.endpoint_url.as_deref().unwrap_or("AWS"),
        );
    }
    if options.region.is_none() {
        options.region.clone_from(&header.region);
    }
    let keys = index.keys();
    tracing::info!("names come from the index {shown}, which has {keys} keys");
    Ok(Arc::new(index))
}

/// Whether an index with `header` has all names of a bucket under `prefix`.
fn check(header: &IndexHeader, bucket: &str, prefix: &str) -> Result<(), String> {
    if header.bucket != bucket {
        return Err(format!(
            "it is of the bucket '{}', and this mount is of '{bucket}'",
            header.bucket
        ));
    }
    if !prefix.starts_with(&header.prefix) {
        let mounted = match prefix {
            "" => "the whole bucket".to_owned(),
            prefix => format!("'{prefix}'"),
        };
        return Err(format!(
            "it has the keys under '{}' only, and this mount is of {mounted}",
            header.prefix
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_of_one_bucket_and_covers_the_prefix() {
        for (made_of, mounted, expected) in [
            (("b", ""), ("b", ""), Ok(())),
            (("b", ""), ("b", "a/"), Ok(())),
            (("b", "a/"), ("b", "a/"), Ok(())),
            (("b", "a/"), ("b", "a/c/"), Ok(())),
            (
                ("b", "a/"),
                ("b", ""),
                Err("under 'a/' only, and this mount is of the whole"),
            ),
            (("b", "a/"), ("b", "ab/"), Err("this mount is of 'ab/'")),
            (
                ("b", ""),
                ("c", ""),
                Err("of the bucket 'b', and this mount is of 'c'"),
            ),
        ] {
            let header = IndexHeader {
                bucket: made_of.0.to_owned(),
                prefix: made_of.1.to_owned(),
                ..IndexHeader::default()
            };
            let outcome = check(&header, mounted.0, mounted.1);
            match expected {
                Ok(()) => assert_eq!(outcome, Ok(()), "{made_of:?} {mounted:?}"),
                Err(part) => assert!(
                    outcome.as_ref().is_err_and(|text| text.contains(part)),
                    "{outcome:?}"
                ),
            }
        }
    }
}
