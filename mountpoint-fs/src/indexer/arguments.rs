//! The command line of `mount-s3 index`.

use std::path::PathBuf;

use clap::Parser;

use super::inventory::Columns;
use crate::cli::{BucketArg, BucketArgError, StoreFlags};

/// Write the names, sizes, times and versions of a bucket to one file.
///
/// A mount with --index FILE takes names from it and asks S3 for bytes alone. The file appears when
/// it is complete, in the place of an older one. Takes the flags of a mount that reach the bucket.
#[derive(Clone, Debug, Parser)]
#[command(name = "mount-s3 index", bin_name = "mount-s3 index", max_term_width = 110, after_help = EXAMPLES)]
pub(super) struct IndexArguments {
    /// Bucket to list: its name, BUCKET/PREFIX/, s3://BUCKET/PREFIX/, or the ARN or alias of an
    /// access point
    #[arg(value_name = "BUCKET", value_parser = parse_bucket)]
    pub(super) bucket: BucketArg,

    /// File to write
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: PathBuf,

    /// Take the names from an inventory of S3 in Parquet or CSV, and send no request: its
    /// manifest.json, whose files are beside it, or the files themselves
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(super) inventory: Vec<PathBuf>,

    /// Columns of CSV files without a manifest, such as "Bucket, Key, Size, LastModifiedDate, ETag"
    #[arg(long, value_name = "NAMES", requires = "inventory")]
    pub(super) inventory_columns: Option<Columns>,

    /// The bucket, the credentials and the client.
    #[command(flatten)]
    pub(super) store: StoreFlags,
}

impl IndexArguments {
    /// The prefix, from the flag or from the bucket argument; empty for the whole bucket.
    ///
    /// # Errors
    /// A text for the user, if both give one.
    pub(super) fn prefix(&self) -> Result<&str, String> {
        match self.store.bucket.prefix.as_deref() {
            None | Some("") => Ok(&self.bucket.prefix),
            Some(_) if !self.bucket.prefix.is_empty() => Err(
                "give the prefix either by --prefix or behind the bucket, not by both".to_owned(),
            ),
            Some(flag) => Ok(flag),
        }
    }
}

/// The bucket of a mount, or a bucket with a prefix without the scheme.
fn parse_bucket(text: &str) -> Result<BucketArg, BucketArgError> {
    match text.parse() {
        Err(BucketArgError::PathWithoutScheme(_)) => format!("s3://{text}").parse(),
        parsed => parsed,
    }
}

const EXAMPLES: &str = "\
Examples:
  mount-s3 index my-bucket -o names.idx                 a whole bucket
  mount-s3 index my-bucket/imagenet/ -o imagenet.idx    one prefix of it
  mount-s3 index my-bucket -o names.idx --inventory 2026-01-01T01-00Z/manifest.json
                                                        from an inventory, without a request
  mount-s3 my-bucket /mnt/data --index names.idx        a mount that lists nothing";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use std::ffi::OsString;

    use super::*;
    use crate::mount::parse_helper;

    #[track_caller]
    fn check(line: &str, expected: Result<(&str, &str, &str), &str>) {
        let arguments = line.split_whitespace().map(OsString::from).collect();
        let parsed = parse_helper::<IndexArguments>(arguments).map_err(|error| error.to_string());
        let parsed = parsed.and_then(|parsed| {
            let prefix = parsed.prefix()?.to_owned();
            Ok((parsed.bucket.name, prefix, parsed.output))
        });
        match (&parsed, expected) {
            (Ok((bucket, prefix, output)), Ok(expected)) => {
                assert_eq!((&**bucket, &**prefix, output.to_str().unwrap()), expected);
            }
            (Err(error), Err(part)) => assert!(error.contains(part), "{line}: {error}"),
            _ => panic!("{line}: {parsed:?}"),
        }
    }

    #[test]
    fn command_lines() {
        IndexArguments::command().debug_assert();
        check("bucket -o f", Ok(("bucket", "", "f")));
        check("bucket/a/b/ --output f", Ok(("bucket", "a/b/", "f")));
        check("-o f s3://bucket/a/", Ok(("bucket", "a/", "f")));
        check(
            "bucket --prefix a/ -o f --region r-1",
            Ok(("bucket", "a/", "f")),
        );
        check("bucket/a -o f", Err("must end with '/': s3://bucket/a/"));
        check("bucket", Err("--output"));
        check("-o f", Err("BUCKET"));
        check("bucket/a/ --prefix a/ -o f", Err("not by both"));
        check("bucket -o f --read-only", Err("--read-only"));
        check("bucket --inventory a b -o f", Ok(("bucket", "", "f")));
        check("bucket -o f --inventory-columns Key", Err("--inventory"));
        check(
            "bucket -o f --inventory a --inventory-columns Key",
            Err("no column Size"),
        );
    }
}
