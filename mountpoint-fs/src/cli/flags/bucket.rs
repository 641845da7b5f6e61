//! Flags that name the bucket and the way to address it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::values::{parse_account, parse_endpoint, parse_prefix, parse_region};

/// Flags under "Bucket options".
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Bucket options")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line that we are compatible with"
)]
pub struct BucketFlags {
    /// Mount only the keys under this prefix; must end with '/' [default: the whole bucket]
    #[arg(long, value_name = "PREFIX", value_parser = parse_prefix)]
    pub prefix: Option<String>,

    /// AWS region of the bucket [default: AWS_REGION, the profile's region, or us-east-1]
    #[arg(long, value_name = "REGION", value_parser = parse_region)]
    pub region: Option<String>,

    /// URL of an S3-compatible server, such as http://127.0.0.1:9000 [default: AWS_ENDPOINT_URL, or
    /// the region's endpoint]
    #[arg(long, value_name = "URL", value_parser = parse_endpoint)]
    pub endpoint_url: Option<String>,

    /// Address the bucket as https://ENDPOINT/BUCKET instead of https://BUCKET.ENDPOINT; most
    /// S3-compatible servers need it
    #[arg(long)]
    pub force_path_style: bool,

    /// Use S3 Transfer Acceleration; the bucket must have it enabled
    #[arg(long)]
    pub transfer_acceleration: bool,

    /// Use the endpoint that has IPv6 addresses besides IPv4 ones
    #[arg(long)]
    pub dual_stack: bool,

    /// Use the endpoint with FIPS 140 cryptography, where the region has one
    #[arg(long)]
    pub fips: bool,

    /// Agree to pay for the requests to a bucket of somebody else
    #[arg(long)]
    pub requester_pays: bool,

    /// Kind of bucket [default: a directory bucket if the name ends with --x-s3]
    #[arg(long, value_name = "TYPE")]
    pub bucket_type: Option<BucketTypeArg>,

    /// Fail with "access denied" unless this account, 12 digits, owns the bucket
    #[arg(long, value_name = "AWS_ACCOUNT_ID", value_parser = parse_account)]
    pub expected_bucket_owner: Option<String>,

    /// File with the key of objects that are encrypted with a customer's key (SSE-C): 32 bytes, or
    /// their base64
    #[arg(long, value_name = "FILE")]
    pub sse_customer_key_file: Option<PathBuf>,
}

/// Value of `--bucket-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BucketTypeArg {
    /// A bucket of a region, as most are
    GeneralPurpose,
    /// A bucket of S3 Express One Zone
    Directory,
}
