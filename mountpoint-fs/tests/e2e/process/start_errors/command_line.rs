//! Invalid command lines.

use super::{Row, Target, check_all};
use crate::harness::BUCKET;

#[test]
fn command_lines() {
    let target = Target::new();
    let directory = target.path().to_str().unwrap();
    let row = |what: &str, flags: &[&str], texts: &[&'static str]| {
        Row::usage(what, texts).args([&[BUCKET, directory], flags].concat())
    };
    let bucket = |what: &str, bucket: &str, texts: &[&'static str]| {
        Row::usage(what, texts).args([bucket, directory])
    };
    check_all(&[
        Row::usage("nothing at all", &["BUCKET_NAME", "DIRECTORY", "--help"]),
        Row::usage("no directory", &["DIRECTORY", "--help"]).args([BUCKET]),
        bucket(
            "a short bucket name",
            "ab",
            &["'ab' is not a bucket name", "3 to 255"],
        ),
        bucket(
            "a bucket name with an odd character",
            "buck!et",
            &["letters, digits"],
        ),
        bucket(
            "a path for a bucket",
            "bucket/prefix",
            &["is not a bucket name"],
        ),
        bucket("a URI without a bucket", "s3://", &["is not a bucket name"]),
        bucket(
            "a URI whose prefix has no slash",
            "s3://bucket/a",
            &["must end with '/': s3://bucket/a/"],
        ),
        bucket(
            "half an ARN",
            "arn:aws:s3",
            &["is not an ARN of S3", "accesspoint/NAME"],
        ),
        row(
            "no account",
            &["--expected-bucket-owner", "12"],
            &["--expected-bucket-owner", "12 digits"],
        ),
        row(
            "an alias for a key",
            &["--sse", "aws:kms", "--sse-kms-key-id", "alias/x"],
            &["--sse-kms-key-id", "named by its ARN"],
        ),
        row(
            "an unknown flag",
            &["--no-such-flag"],
            &["--no-such-flag", "--help"],
        ),
        row(
            "a flag without its value",
            &["--prefix"],
            &["--prefix <PREFIX>"],
        ),
        row(
            "a flag twice",
            &["--region", "a-1", "--region", "b-1"],
            &["--region"],
        ),
        row(
            "a prefix without its slash",
            &["--prefix", "x"],
            &["must end with '/': --prefix x/"],
        ),
        row(
            "no region",
            &["--region", "us_east"],
            &["such as us-east-1"],
        ),
        row(
            "an endpoint without a scheme",
            &["--endpoint-url", "localhost:9000"],
            &["http://localhost:9000"],
        ),
        row(
            "an endpoint of another scheme",
            &["--endpoint-url", "ftp://h"],
            &["http or https, not ftp"],
        ),
        row(
            "an endpoint with a path",
            &["--endpoint-url", "http://h/p"],
            &["with no path"],
        ),
        row("no octal mode", &["--file-mode", "9"], &["octal", "0755"]),
        row(
            "a mode with too many bits",
            &["--dir-mode", "7777"],
            &["octal", "0777"],
        ),
        row(
            "no number for a user",
            &["--uid", "nobody"],
            &["--uid", "invalid"],
        ),
        row(
            "two kinds of sharing",
            &["--allow-root", "--allow-other"],
            &["cannot be used with"],
        ),
        row(
            "no log, but a verbose one",
            &["--no-log", "--debug"],
            &["cannot be used with"],
        ),
        row(
            "no threads",
            &["--max-threads", "0"],
            &["--max-threads", "1.."],
        ),
        row(
            "no throughput",
            &["--maximum-throughput-gbps", "0"],
            &["--maximum-throughput-gbps", "1.."],
        ),
        row(
            "tiny parts",
            &["--read-part-size", "1"],
            &["--read-part-size", "is not in"],
        ),
        row(
            "tiny memory",
            &["--memory-target", "1"],
            &["--memory-target", "is not in"],
        ),
    ]);
}

#[test]
fn what_only_looking_around_tells() {
    let target = Target::new();
    let directory = target.path().to_str().unwrap();
    let row = |what: &str, flags: &[&str], texts: &[&'static str]| {
        Row::new(what, texts).args([&[BUCKET, directory], flags].concat())
    };
    check_all(&[
        row(
            "more memory than there is",
            &["--memory-target", "1000000000"],
            &[
                "--memory-target 1000000000 is more than the",
                "control group (cgroup)",
                "give less",
            ],
        ),
        row(
            "a CA bundle that does not exist",
            &["--ca-bundle", "/no/such/ca.pem"],
            &[
                "cannot read --ca-bundle /no/such/ca.pem",
                "PEM certificates",
            ],
        ),
        row(
            "a log directory that cannot be made",
            &["--log-directory", "/dev/null/logs"],
            &[
                "cannot write a log file in /dev/null/logs",
                "name a directory that you may write to",
            ],
        ),
        row(
            "a log directory of the kernel's",
            &["--log-directory", "/proc/1"],
            &["cannot write a log file in /proc/1", "--log-directory"],
        ),
        row(
            "an interface that does not exist",
            &["--bind", "no-such0"],
            &[
                "network interface \"no-such0\" does not exist",
                "this machine has: lo",
            ],
        ),
        row(
            "a key file that does not exist",
            &["--sse-customer-key-file", "/no/such/key"],
            &["cannot read --sse-customer-key-file /no/such/key"],
        ),
        row(
            "acceleration at an endpoint of one's own",
            &["--transfer-acceleration", "--endpoint-url", "http://h"],
            &["acceleration", "--endpoint-url"],
        ),
        Row::new(
            "two prefixes",
            &["by --prefix or in the s3:// URI, not by both"],
        )
        .args(["s3://bucket/a/", directory, "--prefix", "b/"]),
        Row::new(
            "an access point without a name",
            &["Invalid ARN", "no name was provided"],
        )
        .args(["arn:aws:s3:us-east-1:123456789012:accesspoint/", directory]),
        Row::new(
            "a directory bucket, accelerated",
            &["directory buckets have no --transfer-acceleration"],
        )
        .args([
            "bucket--use1-az4--x-s3",
            directory,
            "--transfer-acceleration",
        ]),
    ]);
}
