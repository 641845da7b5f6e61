//! The command line of `mount-s3 warm`.

use std::path::PathBuf;

use clap::{Parser, value_parser};

use super::patterns::{Pattern, parse_pattern};
use crate::cli::{BucketArg, CacheFlags, StoreFlags, mebibytes};

/// Fetch objects into the cache of a mount before they are read.
///
/// A mount with the same --cache, bucket, endpoint and key of encryption then reads them without a
/// GET. Only what the cache lacks is fetched: a run that was interrupted goes on where it ended,
/// and a second run fetches nothing. The exit code is 0 if everything is in the cache, 1 if
/// something is not, 2 for a wrong command line. Takes the flags of a mount that reach the bucket.
#[derive(Clone, Debug, Parser)]
#[command(name = "mount-s3 warm", bin_name = "mount-s3 warm", max_term_width = 110, after_help = EXAMPLES)]
pub(super) struct WarmArguments {
    /// Objects to fetch: BUCKET, BUCKET/PREFIX/, an object or a directory as BUCKET/KEY, each also
    /// as s3://…; or the ARN or alias of an access point. Several must be of one bucket
    #[arg(value_name = "BUCKET[/PREFIX]", required = true, value_parser = parse_source)]
    pub(super) sources: Vec<SourceArg>,

    /// Directory of the cache, as of the mount
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) cache: PathBuf,

    /// Most space for the cache, as the mount has it [default: all but 5 % of the file system]
    #[arg(long, value_name = "MiB", value_parser = mebibytes(1..=u64::MAX))]
    pub(super) max_cache_size: Option<u64>,

    /// Take names, sizes and versions from this file of `mount-s3 index`, with no LIST and no HEAD
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub(super) index: Option<PathBuf>,

    /// Fetch the keys that this file names, one a line and below the prefix; - is standard input
    #[arg(long, value_name = "FILE|-", help_heading = "Selection")]
    pub(super) files_from: Option<PathBuf>,

    /// Fetch only keys that match this pattern, or another --include
    ///
    /// Patterns are of the key below the prefix: * and ? match within a name, ** across
    /// directories, {a,b} and [a-z] as in a shell. A pattern without '/' is compared with every
    /// name of the key ('*.jpg', 'tmp'), one with '/' with the whole key ('train/*.jpg'), and a
    /// directory that matches stands for all below it.
    #[arg(long, value_name = "GLOB", help_heading = "Selection", value_parser = parse_pattern)]
    pub(super) include: Vec<Pattern>,

    /// Leave out keys that match this pattern, whatever --include says
    #[arg(long, value_name = "GLOB", help_heading = "Selection", value_parser = parse_pattern)]
    pub(super) exclude: Vec<Pattern>,

    /// Most bytes to fetch in a second, in megabytes (10⁶ bytes)
    #[arg(long, value_name = "MB/s", help_heading = "Client options", value_parser = value_parser!(u64).range(1..=MB_MAX))]
    pub(super) maximum_bandwidth: Option<u64>,

    /// Print the summary as one line of JSON
    #[arg(long)]
    pub(super) json: bool,

    /// The bucket, the credentials and the client.
    #[command(flatten)]
    pub(super) store: StoreFlags,
}

/// A part of a bucket: all of it, a prefix, or a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceArg {
    /// The bucket.
    pub(super) bucket: BucketArg,
    /// The text behind the bucket: empty, a prefix with `/` at its end, or a key.
    pub(super) path: String,
}

impl WarmArguments {
    /// The bucket of all sources.
    ///
    /// # Errors
    /// A text for the user, if there are several buckets.
    pub(super) fn bucket(&self) -> Result<&BucketArg, String> {
        let first = &self.sources[0].bucket;
        match self.sources.iter().find(|it| it.bucket.name != first.name) {
            None => Ok(first),
            Some(other) => Err(format!(
                "one run fetches from one bucket, and these are '{}' and '{}': run the command once for each",
                first.name, other.bucket.name
            )),
        }
    }

    /// Prefixes and keys to fetch, without those that another prefix covers.
    ///
    /// # Errors
    /// A text for the user, if the arguments contradict each other.
    pub(super) fn paths(&self) -> Result<Vec<String>, String> {
        let mut paths: Vec<String> = self.sources.iter().map(|it| it.path.clone()).collect();
        if let Some(flag) = self
            .store
            .bucket
            .prefix
            .as_deref()
            .filter(|it| !it.is_empty())
        {
            if paths.iter().any(|path| !path.is_empty()) {
                return Err(
                    "give the prefix either by --prefix or behind the bucket, not by both"
                        .to_owned(),
                );
            }
            paths = vec![flag.to_owned()];
        }
        paths.sort();
        paths.dedup();
        let all = paths.clone();
        let covers = |one: &String, other: &String| {
            let is_prefix = one.is_empty() || one.ends_with('/');
            one != other && is_prefix && other.starts_with(one.as_str())
        };
        paths.retain(|path| !all.iter().any(|other| covers(other, path)));
        if self.files_from.is_some() {
            match &paths[..] {
                [prefix] if prefix.is_empty() || prefix.ends_with('/') => {}
                _ => {
                    return Err(
                        "--files-from names keys below one prefix: give BUCKET or BUCKET/PREFIX/, once"
                            .to_owned(),
                    );
                }
            }
        }
        Ok(paths)
    }

    /// The cache flags as a mount has them.
    pub(super) fn cache_flags(&self) -> CacheFlags {
        CacheFlags {
            cache: Some(self.cache.clone()),
            max_cache_size: self.max_cache_size,
            ..CacheFlags::default()
        }
    }
}

/// Splits a source into its bucket and the text behind it.
fn parse_source(text: &str) -> Result<SourceArg, String> {
    let bucket_of = |text: &str| text.parse::<BucketArg>().map_err(|error| error.to_string());
    if text.starts_with("arn:") {
        return Ok(SourceArg {
            bucket: bucket_of(text)?,
            path: String::new(),
        });
    }
    let rest = text.strip_prefix("s3://").unwrap_or(text);
    if rest.starts_with("arn:") {
        return Err(bucket_of(text).err().unwrap_or_default());
    }
    let (name, path) = rest.split_once('/').unwrap_or((rest, ""));
    Ok(SourceArg {
        bucket: bucket_of(name)?,
        path: path.to_owned(),
    })
}

/// 1 EB/s, which does not overflow as bytes.
const MB_MAX: u64 = 1 << 40;

const EXAMPLES: &str = "\
Examples:
  mount-s3 warm my-bucket/imagenet/ --cache /nvme/cache            all objects of a prefix
  mount-s3 warm my-bucket --cache /nvme/cache --include '*.parquet' --exclude tmp/
                                                                   some of a bucket
  mount-s3 warm my-bucket/models/llama/ my-bucket/tokens.bin --cache /nvme/cache
                                                                   a directory and an object
  mount-s3 warm my-bucket --cache /nvme/cache --files-from epoch.txt --maximum-bandwidth 500
                                                                   the keys of a list, at most 500 MB/s
  mount-s3 my-bucket /mnt/data --cache /nvme/cache                 the mount that finds them there";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use std::ffi::OsString;

    use super::*;
    use crate::mount::parse_helper;

    #[track_caller]
    fn check(line: &str, expected: Result<(&str, &[&str]), &str>) {
        let arguments = line.split_whitespace().map(OsString::from).collect();
        let parsed = parse_helper::<WarmArguments>(arguments).map_err(|error| error.to_string());
        let parsed = parsed.and_then(|parsed| Ok((parsed.bucket()?.name.clone(), parsed.paths()?)));
        match (&parsed, expected) {
            (Ok((bucket, paths)), Ok(expected)) => {
                let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
                assert_eq!((&**bucket, &paths[..]), expected, "{line}");
            }
            (Err(error), Err(part)) => assert!(error.contains(part), "{line}: {error}"),
            _ => panic!("{line}: {parsed:?}"),
        }
    }

    #[test]
    fn every_flag_is_in_the_document() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../doc/CONFIGURATION.md");
        let text = std::fs::read_to_string(path).unwrap();
        let command = WarmArguments::command();
        let flags = command.get_arguments().filter(|arg| !arg.is_hide_set());
        for flag in flags.filter_map(clap::Arg::get_long) {
            assert!(text.contains(&format!("`--{flag}")), "--{flag}");
        }
    }

    #[test]
    fn command_lines() {
        WarmArguments::command().debug_assert();
        check("bucket --cache c", Ok(("bucket", &[""])));
        check("bucket/ --cache c", Ok(("bucket", &[""])));
        check("bucket/a/b/ --cache c", Ok(("bucket", &["a/b/"])));
        check("s3://bucket/a/b --cache c", Ok(("bucket", &["a/b"])));
        check(
            "bucket --prefix a/ --cache c --region r-1",
            Ok(("bucket", &["a/"])),
        );
        check(
            "--cache c bucket/b s3://bucket/a/ bucket/a/c/ bucket/a/d bucket/b",
            Ok(("bucket", &["a/", "b"])),
        );
        check("bucket bucket/a --cache c", Ok(("bucket", &[""])));
        check(
            "arn:aws:s3:us-east-1:123456789012:accesspoint/x --prefix a/ --cache c",
            Ok(("arn:aws:s3:us-east-1:123456789012:accesspoint/x", &["a/"])),
        );
        check(
            "bucket other/a --cache c",
            Err("run the command once for each"),
        );
        check("bucket", Err("--cache"));
        check("--cache c", Err("BUCKET"));
        check("b! --cache c", Err("not a bucket name"));
        check("bucket/a/ --prefix b/ --cache c", Err("not by both"));
        check("bucket --cache c --files-from f", Ok(("bucket", &[""])));
        check("bucket/a --cache c --files-from f", Err("below one prefix"));
        check(
            "bucket/a/ bucket/b/ --cache c --files-from -",
            Err("below one prefix"),
        );
        check("bucket --cache c --include [", Err("--include"));
        check("bucket --cache c --maximum-bandwidth 0", Err("1.."));
        check("bucket --cache c --max-cache-size 0", Err("1.."));
        check("bucket --cache c --read-only", Err("--read-only"));
    }
}
