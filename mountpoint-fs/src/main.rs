//! `mount-s3`: mounts an S3 bucket as a local directory.

use std::process::ExitCode;

use mountpoint_fs::cli::Helper;
use mountpoint_fs::{
    bench_command, cache_command, doctor, indexer, mount, staged_command, stats_command, warmer,
};

/// The commands of the program besides mounting.
const HELPERS: [Helper; 8] = [
    doctor::HELPER,
    bench_command::HELPER,
    indexer::HELPER,
    warmer::HELPER,
    cache_command::HELPER,
    staged_command::HELPER,
    stats_command::HELPER,
    stats_command::TRACE_HELPER,
];

fn main() -> ExitCode {
    mount::run(std::env::args_os(), &HELPERS)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use mountpoint_fs::cli::{HELPER_NAMES, Invocation};

    use super::*;

    /// `mount B D`, the name of the selected command, or the error's last line.
    fn meaning(line: &str) -> String {
        let words = ["mount-s3"].into_iter().chain(line.split(' '));
        match Invocation::parse(words.map(OsString::from), &HELPERS) {
            Ok(Invocation::Mount(args)) => {
                format!("mount {} {}", args.bucket.name, args.directory.display())
            }
            Ok(Invocation::Helper(helper, _)) => helper.name.to_owned(),
            Ok(Invocation::Completions(_) | Invocation::Candidates(_)) => "completions".to_owned(),
            Ok(Invocation::Man(_)) => "man".to_owned(),
            Err(error) => error
                .to_string()
                .lines()
                .last()
                .unwrap_or_default()
                .to_owned(),
        }
    }

    #[test]
    fn buckets_with_the_name_of_a_helper_command_can_be_mounted() {
        for name in HELPER_NAMES {
            let form = format!("A bucket named {name} is mounted with: mount-s3 s3://{name}");
            // The tests run where `src` is a directory.
            for (rest, expected) in [
                ("/dev/fd/3", format!("mount {name} /dev/fd/3")),
                (
                    "/dev/fd/3 --read-only --region eu-west-1",
                    format!("mount {name} /dev/fd/3"),
                ),
                (
                    "/mnt --read-only --allow-other",
                    format!("mount {name} /mnt"),
                ),
                ("src --read-only --allow-other", format!("mount {name} src")),
                ("/mnt --no-such-flag", format!("{form} /mnt")),
                ("src --no-such-flag", format!("{form} src")),
                ("/mnt -o ro", format!("mount {name} /mnt")),
            ] {
                let line = format!("{name} {rest}");
                // `doctor` and `bench` take every flag of a mount, behind a bucket.
                let is_bucket = rest.starts_with("src ") && ["doctor", "bench"].contains(&name);
                match is_bucket && !rest.contains("no-such") {
                    true => assert_eq!(meaning(&line), name, "{line}"),
                    false => assert_eq!(meaning(&line), expected, "{line}"),
                }
            }
            assert_eq!(
                meaning(&format!("s3://{name} /mnt")),
                format!("mount {name} /mnt")
            );
        }
    }

    #[test]
    fn helper_commands_keep_their_own_arguments() {
        for (line, expected) in [
            ("stats", "stats"),
            ("stats /mnt", "stats"),
            ("stats /mnt --once", "stats"),
            ("stats src", "stats"),
            ("trace /mnt -o file", "trace"),
            ("trace /mnt -o /file --seconds 3", "trace"),
            ("trace src -o file", "trace"),
            ("bench my-bucket /mnt", "bench"),
            ("bench my-bucket/a /mnt --json", "bench"),
            ("doctor my-bucket /mnt", "doctor"),
            ("index my-bucket -o names", "index"),
            ("index my-bucket/src/ -o names", "index"),
            ("warm my-bucket/a --cache /c", "warm"),
            ("cache stat /c", "cache"),
            ("staged list /s", "staged"),
            ("completions bash", "completions"),
            ("man stats", "man"),
            // Their own errors are told by themselves.
            ("warm my-bucket", "warm"),
            ("stats --typo", "stats"),
        ] {
            assert_eq!(meaning(line), expected, "{line}");
        }
    }
}
