//! Arguments of `mount-s3 BUCKET_NAME DIRECTORY`, with mountpoint-s3's names, meanings and
//! defaults.
//!
//! Each flag works, or reports that it has no effect ([`CliArgs::warnings`]).
//! doc/CONFIGURATION.md has a row for each; a test compares the two, and both with mountpoint-s3's
//! list.

use std::path::PathBuf;

use clap::Parser;

use super::{
    BucketArg, BucketFlags, CacheFlags, CachePassthrough, ClientFlags, CredentialsFlags,
    LoggingFlags, MetadataFlags, MetricsFlags, MountFlags, StagingFlags, WriteFlags,
};

/// Version and commit, for `--version`.
pub const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("MOUNTPOINT_COMMIT"),
    ")"
);

/// Mount an S3 bucket, or any bucket of an S3-compatible server, as a local directory.
///
/// New files can be written, from their beginning to their end; --allow-changes lets existing ones
/// be replaced, appended to, removed and renamed, and keeps modes, owners and times. Unmount with
/// `umount DIRECTORY` (or `fusermount3 -u DIRECTORY` as an ordinary user), or end the process with
/// SIGTERM.
#[derive(Clone, Debug, Parser)]
#[command(name = "mount-s3", version = VERSION, max_term_width = 110, after_help = EXAMPLES)]
pub struct CliArgs {
    /// Bucket to mount: its name, s3://BUCKET/PREFIX/, or the ARN or alias of an access point
    #[arg(value_name = "BUCKET_NAME")]
    pub bucket: BucketArg,

    /// Directory to mount it at, which must exist; or /dev/fd/N, an open descriptor of /dev/fuse
    #[arg(value_name = "DIRECTORY")]
    pub directory: PathBuf,

    /// Stay in the foreground and log to the terminal
    #[arg(short, long)]
    pub foreground: bool,

    /// The bucket and its address.
    #[command(flatten)]
    pub bucket_flags: BucketFlags,

    /// The credentials.
    #[command(flatten)]
    pub credentials: CredentialsFlags,

    /// The mount's appearance and its permitted users.
    #[command(flatten)]
    pub mount: MountFlags,

    /// The validity of names.
    #[command(flatten)]
    pub metadata: MetadataFlags,

    /// Content on a local disk.
    #[command(flatten)]
    pub cache: CacheFlags,

    /// Written files on a local disk.
    #[command(flatten)]
    pub staging: StagingFlags,

    /// The client of S3.
    #[command(flatten)]
    pub client: ClientFlags,

    /// Permitted changes.
    #[command(flatten)]
    pub write: WriteFlags,

    /// The log.
    #[command(flatten)]
    pub logging: LoggingFlags,

    /// The measurements, and their sinks.
    #[command(flatten)]
    pub metrics: MetricsFlags,

    /// Whether the flags come from `/etc/fstab`.
    #[arg(skip)]
    pub is_fstab: bool,
}

impl CliArgs {
    /// The prefix, from the flag or from the URI; empty for the whole bucket.
    ///
    /// # Errors
    /// A text for the user, if both may give one.
    pub fn prefix(&self) -> Result<&str, String> {
        match self.bucket_flags.prefix.as_deref() {
            None | Some("") => Ok(&self.bucket.prefix),
            Some(_) if self.bucket.is_uri => Err(
                "give the prefix either by --prefix or in the s3:// URI, not by both".to_owned(),
            ),
            Some(flag) => Ok(flag),
        }
    }

    /// The mount's source in the mount table: the bucket as typed, because mount(8) finds the line
    /// of `/etc/fstab` by it; with a prefix from a flag, the URI of both.
    #[must_use]
    pub fn source_name(&self) -> String {
        let bucket = &self.bucket;
        match self.bucket_flags.prefix.as_deref() {
            Some(prefix) if !(prefix.is_empty() || self.is_fstab || bucket.name.contains(':')) => {
                format!("s3://{}/{prefix}", bucket.name)
            }
            _ => bucket.text.clone(),
        }
    }

    /// Reasons why this version refuses these arguments; empty if it accepts them.
    #[must_use]
    pub fn refusals(&self) -> Vec<String> {
        let conflict = self.write.conflict().map(str::to_owned);
        let refusals = conflict.into_iter().chain(self.index_refusal());
        refusals.chain(self.staging_refusal()).collect()
    }

    /// Whether nothing can be changed: by the flag, or because an index has no changes.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.mount.read_only || self.metadata.index.is_some()
    }

    /// Why these flags cannot stand beside `--staging`.
    fn staging_refusal(&self) -> Option<String> {
        self.staging.staging.as_ref()?;
        let in_the_way = if self.is_read_only() {
            "--staging cannot be used with --read-only or --index: nothing would be written"
        } else if self.write.incremental_upload {
            "--staging cannot be used with --incremental-upload: a staged file is stored as a whole"
        } else if self.cache.cache_passthrough == CachePassthrough::On {
            "--staging cannot be used with --cache-passthrough on: the kernel would not see what is written"
        } else {
            return None;
        };
        Some(in_the_way.to_owned())
    }

    /// Why these flags cannot stand beside `--index`.
    fn index_refusal(&self) -> Option<String> {
        self.metadata.index.as_ref()?;
        if self.write.posix_metadata {
            return Some(
                "--posix-metadata cannot be used with --index: an index has no metadata of objects"
                    .to_owned(),
            );
        }
        let changing = self.write.changing();
        (!changing.is_empty()).then(|| {
            let flags = changing.join(", ");
            format!("{flags} cannot be used with --index, whose mount is read-only")
        })
    }

    /// Differences between the arguments and the mount's behaviour.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.metadata.warnings();
        warnings.extend(self.cache.warnings());
        if self.credentials.no_sign_request && self.credentials.profile.is_some() {
            warnings.push(
                "--no-sign-request sends requests without credentials: --profile has no effect"
                    .to_owned(),
            );
        }
        let idle = self.write.changing();
        if self.mount.read_only && !idle.is_empty() {
            let verb = if idle.len() == 1 { "has" } else { "have" };
            let idle = idle.join(", ");
            warnings.push(format!(
                "nothing can be changed with --read-only: {idle} {verb} no effect"
            ));
        }
        warnings
    }
}

/// Shown at the end of `--help`.
const EXAMPLES: &str = "\
Examples:
  mount-s3 my-bucket /mnt/data                          the bucket, in the background
  mount-s3 s3://my-bucket/imagenet/ /mnt/data           one prefix of it
  mount-s3 my-bucket /mnt/data --endpoint-url http://127.0.0.1:9000 --force-path-style
                                                        a bucket of an S3-compatible server
  mount-s3 my-bucket /mnt/data --allow-changes          with all changes that S3 can make
  mount-s3 my-bucket /mnt/data --allow-changes --staging /var/tmp
                                                        with large files changed anywhere, too: SQLite
  mount-s3 my-bucket /mnt/data --read-only              with none
  mount-s3 open-data /mnt/data --no-sign-request        a public bucket
  mount-s3 arn:aws:s3:us-east-1:123456789012:accesspoint/team /mnt/data
                                                        an access point
  umount /mnt/data                                      the end of it

In /etc/fstab, flags are options without their dashes, and '\\' stands before a ',', '\\' or '\"' of a value:
  s3://my-bucket/imagenet/  /mnt/data  mount-s3  _netdev,nosuid,nodev,ro,allow-other,region=eu-central-1  0  0

Helper commands (each has --help with examples; s3://doctor is always a bucket):
  mount-s3 doctor [BUCKET]                              what works here, what does not, what to do
  mount-s3 bench BUCKET [DIR]                           how fast the bucket is from here, and why
  mount-s3 index BUCKET -o FILE                         all names of a bucket in a file
  mount-s3 warm BUCKET[/PREFIX] --cache DIR             objects in the cache before they are read
  mount-s3 cache stat|list|verify|evict|clear DIR       look after that cache
  mount-s3 staged list|status|flush|export|discard DIR  look after files that are not stored
  mount-s3 stats [DIR]                                  show what mounts do, and what they wait for
  mount-s3 trace DIR -o FILE                            each request and its waits, for ui.perfetto.dev
  mount-s3 completions bash|zsh|fish                    completions for a shell, on standard output
  mount-s3 man [COMMAND]                                the manual page, on standard output

Credentials come from the usual places: AWS_ACCESS_KEY_ID, ~/.aws, SSO, a container's or an instance's role.
The packages have documents in /usr/share/doc/mountpoint-fs: CONFIGURATION.md has all variables, TROUBLESHOOTING.md what
to do when something is wrong.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[track_caller]
    fn check(args: &str, expected: Result<&str, &str>) {
        let parsed = CliArgs::try_parse_from(["mount-s3"].into_iter().chain(args.split(' ')));
        match (parsed, expected) {
            (Ok(parsed), Ok(prefix)) => {
                assert_eq!(parsed.prefix().as_deref(), Ok(prefix), "{args}");
            }
            (Err(error), Err(text)) => assert!(error.to_string().contains(text), "{args}: {error}"),
            (Ok(parsed), Err(text)) => {
                let error = parsed.prefix().expect_err(args);
                assert!(error.contains(text), "{args}: {error}");
            }
            (Err(error), Ok(_)) => panic!("{args}: {error}"),
        }
    }

    #[test]
    fn flags() {
        CliArgs::command().debug_assert();
        check("bucket /mnt", Ok(""));
        check("bucket /mnt --prefix a/b/", Ok("a/b/"));
        check("bucket /mnt --prefix=", Ok(""));
        check("s3://bucket/a/b/ /mnt", Ok("a/b/"));
        check("s3://bucket/a/b/ /mnt --prefix=", Ok("a/b/"));
        check("s3://bucket /mnt --prefix=", Ok(""));
        check("s3://bucket /mnt", Ok(""));
        check("s3://bucket/a/ /mnt --prefix b/", Err("not by both"));
        check("s3://bucket /mnt --prefix b/", Err("not by both"));
        check("bucket /mnt --prefix a", Err("must end with '/'"));
        check("bucket", Err("DIRECTORY"));
        check("Bucket_! /mnt", Err("bucket name"));
        check(
            "bucket /mnt --endpoint-url localhost:9000",
            Err("http://localhost:9000"),
        );
        check(
            "bucket /mnt --endpoint-url ftp://localhost",
            Err("http or https"),
        );
        check("bucket /mnt --endpoint-url http://h/path", Err("no path"));
        check("bucket /mnt --endpoint-url http://127.0.0.1:9000/", Ok(""));
    }

    #[test]
    fn values_of_flags() {
        check("bucket /mnt --bucket-type directory", Ok(""));
        check("bucket /mnt --bucket-type general-purpose", Ok(""));
        check(
            "bucket /mnt --bucket-type outpost",
            Err("general-purpose, directory"),
        );
        check("bucket /mnt --expected-bucket-owner 12", Err("12 digits"));
        check("bucket /mnt --file-mode 888", Err("octal"));
        check("bucket /mnt --dir-mode 7777", Err("octal"));
        check("bucket /mnt --dir-mode 0750 --file-mode 640", Ok(""));
        check("bucket /mnt --uid 0", Err("1.."));
        check("bucket /mnt --gid 0", Err("1.."));
        check("bucket /mnt --uid 1 --gid 1", Ok(""));
        check("bucket /mnt --max-threads 0", Err("1.."));
        check("bucket /mnt --max-threads 100000", Ok(""));
        check("bucket /mnt --maximum-throughput-gbps x", Err("invalid"));
        check("bucket /mnt --maximum-throughput-gbps 0", Err("1.."));
        check("bucket /mnt --memory-target 511", Err("512.."));
        check("bucket /mnt --memory-target 512", Ok(""));
        check(
            "bucket /mnt --memory-target 1GiB",
            Err("without a unit: 1024"),
        );
        check(
            "bucket /mnt --part-size 8MiB",
            Err("without a unit: 8388608"),
        );
        check("bucket /mnt --write-part-size 1m", Err("from 5242880"));
        check("bucket /mnt --uid root", Err("`id NAME`"));
        check(
            "bucket /mnt --part-size 8388608 --read-part-size 8388608",
            Err("cannot be used"),
        );
        check(
            "bucket /mnt --write-part-size 8388608 --part-size 8388608",
            Err("cannot be used"),
        );
        check(
            "bucket /mnt --read-part-size 8388608 --write-part-size 8388608",
            Ok(""),
        );
        check("bucket /mnt --part-size 5368709121", Err("5368709120"));
        check("bucket /mnt --bind eth0 --bind eth1", Ok(""));
        check("bucket /mnt --bind no/interface", Err("ip link"));
        check(
            "bucket /mnt --allow-root --allow-other",
            Err("cannot be used with"),
        );
        check("bucket /mnt --no-sign-request --profile p", Ok(""));
        check("bucket /mnt --region us_east", Err("us-east-1"));
        check("bucket /mnt --no-log", Ok(""));
        check("bucket /mnt --no-log --debug", Err("cannot be used with"));
        check(
            "bucket /mnt --no-log --debug-crt",
            Err("cannot be used with"),
        );
        check("bucket /mnt --no-log -l /tmp", Err("cannot be used with"));
        check(
            "bucket /mnt --no-log --log-metrics",
            Err("cannot be used with"),
        );
        check("bucket /mnt --no-such-flag", Err("--no-such-flag"));
    }

    #[test]
    fn syntax_of_flags_without_effect() {
        check("bucket /mnt --sse aws:kms", Ok(""));
        check("bucket /mnt --sse AES256", Ok(""));
        check("bucket /mnt --sse aes256", Err("aws:kms:dsse"));
        check(
            "bucket /mnt --sse-kms-key-id arn:aws:kms:r:1:key/x",
            Err("--sse"),
        );
        check(
            "bucket /mnt --sse aws:kms --sse-kms-key-id alias/x",
            Err("ARN"),
        );
        check("bucket /mnt --upload-checksums crc64nvme", Ok(""));
        check(
            "bucket /mnt --upload-checksums md5",
            Err("crc32c, crc64nvme, off"),
        );
        check("bucket /mnt --write-part-size 5242879", Err("5242880"));
        check("bucket /mnt --max-cache-size 1", Err("--cache"));
        check("bucket /mnt --cache /c --max-cache-size 0", Ok(""));
        check("bucket /mnt --cache-block-size 1", Err("--cache"));
        check(
            "bucket /mnt --cache /c --cache-xz b--use1-az4--x-s3",
            Ok(""),
        );
        check(
            "bucket /mnt --cache-xz b--use1-az4--x-s3 --cache-block-size 1",
            Ok(""),
        );
        check(
            "bucket /mnt --cache-xz s3://b--use1-az4--x-s3/p/",
            Err("without a prefix"),
        );
        check("bucket /mnt --cache-bucket s3://other/p/", Ok(""));
        check(
            "bucket /mnt --cache-bucket other --cache-endpoint-url http://h:9000",
            Ok(""),
        );
        check(
            "bucket /mnt --cache-bucket s3://other/p",
            Err("end with '/'"),
        );
        check("bucket /mnt --cache-endpoint-url http://h", Err("--cache-"));
        check(
            "bucket /mnt --cache-xz b--use1-az4--x-s3 --cache-bucket other",
            Err("cannot be used with"),
        );
        check(
            "bucket /mnt --metadata-ttl soon",
            Err("'minimal' or 'indefinite'"),
        );
        check(
            "bucket /mnt --otlp-export-interval 60",
            Err("--otlp-endpoint"),
        );
        check(
            "bucket /mnt --otlp-endpoint http://h:4318 --otlp-export-interval 0",
            Err("1.."),
        );
    }

    #[test]
    fn flags_that_a_read_only_mount_cannot_honour_are_named() {
        let warned = |flags: &str| {
            let all = ["mount-s3", "bucket", "/mnt"].into_iter();
            let args = all.chain(flags.split(' ').filter(|word| !word.is_empty()));
            CliArgs::try_parse_from(args).unwrap().warnings().join(";")
        };
        assert_eq!(warned("--read-only"), "");
        assert_eq!(warned("--allow-delete"), "");
        let all = "--allow-delete, --allow-overwrite have no effect";
        assert!(warned("--allow-overwrite --read-only --allow-delete").ends_with(all));
        assert!(warned("--read-only --allow-rename").ends_with("--allow-rename has no effect"));
    }

    #[test]
    fn sources_tell_buckets_apart() {
        for (args, is_fstab, source) in [
            ("bucket /mnt", false, "bucket"),
            ("s3://bucket /mnt", false, "s3://bucket"),
            ("s3://bucket/a/ /mnt", true, "s3://bucket/a/"),
            ("bucket /mnt --prefix a/", false, "s3://bucket/a/"),
            ("bucket /mnt --prefix a/", true, "bucket"),
            ("s3://bucket /mnt --prefix=", false, "s3://bucket"),
        ] {
            let all = ["mount-s3"].into_iter().chain(args.split(' '));
            let mut parsed = CliArgs::try_parse_from(all).unwrap();
            parsed.is_fstab = is_fstab;
            assert_eq!(parsed.source_name(), source, "{args}");
        }
    }

    /// Checks that `args` are mounted with one warning, or refused with one text, for each of
    /// `flags`.
    #[track_caller]
    fn check_told(args: &str, told: fn(&CliArgs) -> Vec<String>, flags: &[&str]) {
        let all = ["mount-s3", "bucket", "/mnt"]
            .into_iter()
            .chain(args.split(' '));
        let texts = told(&CliArgs::try_parse_from(all).unwrap());
        assert_eq!(texts.len(), flags.len(), "{args}: {texts:?}");
        for (flag, text) in flags.iter().zip(&texts) {
            assert!(text.starts_with(flag), "{args}: {text}");
            assert!(!text.contains('\n'), "{args}: {text}");
        }
    }

    #[test]
    fn conflicts_are_refused() {
        check_told(
            "--index /i --read-only --metadata-ttl 5",
            CliArgs::refusals,
            &[],
        );
        for (args, told) in [
            (
                "--index /i --allow-delete --allow-rename",
                "--allow-delete, --allow-rename cannot",
            ),
            (
                "--index /i --allow-changes --read-only",
                "--allow-changes cannot",
            ),
            ("--index /i --posix-metadata", "--posix-metadata cannot"),
        ] {
            check_told(args, CliArgs::refusals, &[told]);
        }
        for args in [
            "--read-only",
            "--metadata-ttl minimal --negative-metadata-ttl 60",
            "--allow-delete --sse AES256 --write-part-size 5242880",
            "--cache /c --log-metrics",
        ] {
            check_told(args, CliArgs::refusals, &[]);
        }
        check_told(
            "--sse AES256 --sse-kms-key-id arn:aws:kms:r:1:key/x",
            CliArgs::refusals,
            &["--sse-kms-key-id cannot"],
        );
    }

    #[test]
    fn each_flag_without_effect_has_one_warning() {
        for (args, flags) in [
            ("--cache /c", &[][..]),
            ("--cache-xz b--use1-az4--x-s3", &[]),
            ("--cache-bucket s3://other/p/", &[]),
            ("--log-metrics", &[]),
            ("--otlp-endpoint http://h:4318", &[]),
            ("--cache /c --max-cache-size 0", &["--max-cache-size "]),
            (
                "--cache /c --cache-xz b--use1-az4--x-s3 --cache-block-size 1",
                &["--cache-block-size "],
            ),
            ("--read-only", &[]),
        ] {
            check_told(args, CliArgs::warnings, flags);
        }
    }
}
