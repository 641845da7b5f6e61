//! The flags, with mountpoint-s3's names, meanings and defaults.
//!
//! A flag that is here works. doc/CONFIGURATION.md has a row for each; a test compares the two.

use std::path::PathBuf;

use clap::{Parser, value_parser};

use super::BucketArg;

/// Where a flag stands in `--help`.
const BUCKET: &str = "Bucket options";
const CREDENTIALS: &str = "AWS credentials options";
const MOUNT: &str = "Mount options";
const CLIENT: &str = "Client options";
const LOGGING: &str = "Logging options";

/// Version and commit, for `--version`.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("MOUNTPOINT_COMMIT"),
    ")"
);

/// Mount an S3 bucket, or any bucket of an S3-compatible server, as a local directory.
///
/// The mount is read-only in this version. Unmount with `umount DIRECTORY` (or `fusermount3 -u DIRECTORY` as an
/// ordinary user), or end the process with SIGTERM.
#[derive(Clone, Debug, Parser)]
#[command(name = "mount-s3", version = VERSION, max_term_width = 110, after_help = EXAMPLES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line that we are compatible with"
)]
pub struct CliArgs {
    /// Bucket to mount: its name, or s3://BUCKET/PREFIX/
    #[arg(value_name = "BUCKET_NAME")]
    pub bucket: BucketArg,

    /// Directory to mount it at; it must exist
    #[arg(value_name = "DIRECTORY")]
    pub directory: PathBuf,

    /// Mount only the keys under this prefix; must end with '/' [default: the whole bucket]
    #[arg(long, help_heading = BUCKET, value_name = "PREFIX", value_parser = parse_prefix)]
    pub prefix: Option<String>,

    /// AWS region of the bucket [default: AWS_REGION, the profile's region, or us-east-1]
    #[arg(long, help_heading = BUCKET, value_name = "REGION", value_parser = parse_region)]
    pub region: Option<String>,

    /// URL of an S3-compatible server, such as http://127.0.0.1:9000 [default: AWS_ENDPOINT_URL, or the
    /// region's endpoint]
    #[arg(long, help_heading = BUCKET, value_name = "URL", value_parser = parse_endpoint)]
    pub endpoint_url: Option<String>,

    /// Address the bucket as https://ENDPOINT/BUCKET instead of https://BUCKET.ENDPOINT; most S3-compatible
    /// servers need it
    #[arg(long, help_heading = BUCKET)]
    pub force_path_style: bool,

    /// Send requests without a signature, for public buckets
    #[arg(long, help_heading = CREDENTIALS, conflicts_with = "profile")]
    pub no_sign_request: bool,

    /// Profile of ~/.aws/config to take credentials from
    #[arg(long, help_heading = CREDENTIALS, value_name = "NAME")]
    pub profile: Option<String>,

    /// Stay in the foreground and log to the terminal
    #[arg(short, long, help_heading = MOUNT)]
    pub foreground: bool,

    /// Mount read-only
    #[arg(long, help_heading = MOUNT)]
    pub read_only: bool,

    /// Unmount when the process ends, however it ends
    #[arg(long, help_heading = MOUNT)]
    pub auto_unmount: bool,

    /// Let root use the mount, besides its owner
    #[arg(long, help_heading = MOUNT, conflicts_with = "allow_other")]
    pub allow_root: bool,

    /// Let every user use the mount; an ordinary user needs user_allow_other in /etc/fuse.conf
    #[arg(long, help_heading = MOUNT)]
    pub allow_other: bool,

    /// Owner of files and directories [default: the current user]
    #[arg(long, help_heading = MOUNT, value_name = "UID")]
    pub uid: Option<u32>,

    /// Group of files and directories [default: the current group]
    #[arg(long, help_heading = MOUNT, value_name = "GID")]
    pub gid: Option<u32>,

    /// Permission bits of directories, in octal [default: 0755]
    #[arg(long, help_heading = MOUNT, value_name = "MODE", value_parser = parse_mode)]
    pub dir_mode: Option<u16>,

    /// Permission bits of files, in octal [default: 0644]
    #[arg(long, help_heading = MOUNT, value_name = "MODE", value_parser = parse_mode)]
    pub file_mode: Option<u16>,

    /// Throughput to plan connections for, in Gbit/s
    #[arg(long, help_heading = CLIENT, value_name = "N", default_value_t = 10, value_parser = value_parser!(u32).range(1..=3200))]
    pub maximum_throughput_gbps: u32,

    /// Most threads that take requests from the kernel; none of them ever waits for S3
    #[arg(long, help_heading = CLIENT, value_name = "N", default_value_t = 16, value_parser = value_parser!(u16).range(1..=1024))]
    pub max_threads: u16,

    /// Largest range of one GET, in bytes
    #[arg(long, help_heading = CLIENT, value_name = "SIZE", default_value_t = 8_388_608, value_parser = value_parser!(u64).range(1_048_576..=268_435_456))]
    pub read_part_size: u64,

    /// Memory for data that was read and read ahead, in MiB [default: a quarter of the machine's or the
    /// cgroup's, at most 8 GiB]
    #[arg(long, help_heading = CLIENT, value_name = "MiB", value_parser = value_parser!(u64).range(64..=1_048_576))]
    pub memory_target: Option<u64>,

    /// Log to files in this directory instead of syslog; it is made if need be
    #[arg(short, long, help_heading = LOGGING, value_name = "DIRECTORY")]
    pub log_directory: Option<PathBuf>,

    /// Log debug messages
    #[arg(short, long, help_heading = LOGGING)]
    pub debug: bool,

    /// Log debug messages of the AWS Common Runtime too
    #[arg(long, help_heading = LOGGING)]
    pub debug_crt: bool,

    /// Log nothing
    #[arg(long, help_heading = LOGGING, conflicts_with_all = ["log_directory", "debug", "debug_crt"])]
    pub no_log: bool,
}

impl CliArgs {
    /// The prefix, from the flag or from the URI; empty for the whole bucket.
    ///
    /// # Errors
    /// A text for the user, if both give one.
    pub fn prefix(&self) -> Result<&str, String> {
        match (&self.prefix, self.bucket.prefix.as_str()) {
            (Some(_), uri) if !uri.is_empty() => Err(
                "give the prefix either by --prefix or in the s3:// URI, not by both".to_owned(),
            ),
            (Some(flag), _) => Ok(flag),
            (None, uri) => Ok(uri),
        }
    }
}

/// Shown at the end of `--help`.
const EXAMPLES: &str = "\
Examples:
  mount-s3 my-bucket /mnt/data                          the bucket, in the background
  mount-s3 s3://my-bucket/imagenet/ /mnt/data           one prefix of it
  mount-s3 my-bucket /mnt/data --endpoint-url http://127.0.0.1:9000 --force-path-style
                                                        a bucket of an S3-compatible server
  mount-s3 open-data /mnt/data --no-sign-request        a public bucket
  umount /mnt/data                                      the end of it

Credentials come from the usual places: AWS_ACCESS_KEY_ID, ~/.aws, SSO, a container's or an instance's role.
All flags and variables: doc/CONFIGURATION.md. When something is wrong: doc/TROUBLESHOOTING.md.";

fn parse_prefix(text: &str) -> Result<String, String> {
    match text {
        "" => {
            Err("a prefix cannot be empty; leave --prefix out to mount the whole bucket".to_owned())
        }
        _ if !text.ends_with('/') => Err(format!("a prefix must end with '/': --prefix {text}/")),
        _ if text.len() > 1023 => {
            Err("a prefix must be shorter than an S3 key: at most 1023 bytes".to_owned())
        }
        _ => Ok(text.to_owned()),
    }
}

fn parse_region(text: &str) -> Result<String, String> {
    let valid = !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if valid {
        Ok(text.to_owned())
    } else {
        Err("a region is a name such as us-east-1".to_owned())
    }
}

fn parse_endpoint(text: &str) -> Result<String, String> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(format!(
            "an endpoint is a URL with a scheme: http://{text} or https://{text}"
        ));
    };
    if !matches!(scheme, "http" | "https") {
        return Err(format!(
            "the scheme of an endpoint is http or https, not {scheme}"
        ));
    }
    let authority = rest.trim_end_matches('/');
    if authority.is_empty() || authority.contains(['/', '?', '#', '@', ' ']) {
        return Err(
            "an endpoint is a scheme, a host and a port, with no path: http://127.0.0.1:9000"
                .to_owned(),
        );
    }
    Ok(format!("{scheme}://{authority}"))
}

fn parse_mode(text: &str) -> Result<u16, String> {
    match u16::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("a mode is an octal number from 0 to 0777, such as 0755".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

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
        check("s3://bucket/a/b/ /mnt", Ok("a/b/"));
        check("s3://bucket /mnt", Ok(""));
        check("s3://bucket/a/ /mnt --prefix b/", Err("not by both"));
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
        check("bucket /mnt --file-mode 888", Err("octal"));
        check("bucket /mnt --dir-mode 7777", Err("octal"));
        check("bucket /mnt --dir-mode 0750 --file-mode 640", Ok(""));
        check("bucket /mnt --max-threads 0", Err("1..=1024"));
        check("bucket /mnt --maximum-throughput-gbps x", Err("invalid"));
        check(
            "bucket /mnt --allow-root --allow-other",
            Err("cannot be used with"),
        );
        check(
            "bucket /mnt --no-sign-request --profile p",
            Err("cannot be used with"),
        );
        check("bucket /mnt --region us_east", Err("us-east-1"));
        check("bucket /mnt --no-such-flag", Err("--no-such-flag"));
    }
}
