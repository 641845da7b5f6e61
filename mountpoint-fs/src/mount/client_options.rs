//! How the bucket is reached: flags before variables before defaults.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use mountpoint_client::credentials::CredentialsMode;
use mountpoint_client::crt_client::CrtClientOptions;

use super::Environment;
use crate::cli::{BucketArg, BucketFlags, ClientFlags, CredentialsFlags};
use crate::config::limits;

/// Settings of the client of a bucket. The helper commands that talk to S3 resolve theirs here, too.
///
/// # Errors
/// A text for the user: a file that a flag or a variable names cannot be used.
pub fn client_options(
    bucket: &BucketArg,
    flags: &BucketFlags,
    credentials: &CredentialsFlags,
    client: &ClientFlags,
    environment: &Environment,
) -> Result<CrtClientOptions, String> {
    let mut options = CrtClientOptions::new(&bucket.name);
    options.region = flags.region.clone().or_else(|| environment.region.clone());
    options.endpoint_url = flags
        .endpoint_url
        .clone()
        .or_else(|| environment.endpoint_url.clone());
    options.force_path_style = flags.force_path_style;
    options.credentials = if credentials.no_sign_request {
        CredentialsMode::Unsigned
    } else {
        CredentialsMode::Default {
            profile: credentials.profile.clone(),
        }
    };
    if let Some(gbps) = client.maximum_throughput_gbps {
        #[expect(
            clippy::cast_precision_loss,
            reason = "far above any network before it matters"
        )]
        let gbps = gbps as f64;
        options.throughput_target_gbps = Some(gbps);
    }
    options.part_size_max =
        usize::try_from(read_part_size(client)).map_err(|error| error.to_string())?;
    options.network_interfaces.clone_from(&client.bind);
    options.proxy.clone_from(&environment.proxy);
    options.event_loop_threads = environment.event_loop_threads;
    options.ca_bundle = ca_bundle(client, environment)?;
    if let Some(attempts) = environment.max_attempts {
        options.max_attempts = attempts;
    }
    if let Some(prefix) = &client.user_agent_prefix {
        options.user_agent = format!("{prefix} {}", options.user_agent);
    }
    Ok(options)
}

/// Largest range of one GET, in bytes. One that is larger than a block may be is cut: the bytes are the same.
pub(super) fn read_part_size(client: &ClientFlags) -> u64 {
    client.read_part_size().min(limits::PART_MAX)
}

fn ca_bundle(client: &ClientFlags, environment: &Environment) -> Result<Option<Vec<u8>>, String> {
    let (name, path) = match (&client.ca_bundle, &environment.ca_bundle) {
        (Some(path), _) => ("--ca-bundle ", path.as_path()),
        (None, Some(path)) => ("AWS_CA_BUNDLE=", Path::new(path)),
        (None, None) => return Ok(None),
    };
    read_bounded(path, limits::CA_BUNDLE_MAX)
        .map(Some)
        .map_err(|error| {
            let path = path.display();
            format!("cannot read {name}{path}: {error}; it is a file of PEM certificates")
        })
}

/// A file that must not be larger than `max` bytes; a device that never ends is an error as well.
fn read_bounded(path: &Path, max: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(max + 1).read_to_end(&mut bytes))
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > max {
        return Err(format!("it is larger than {max} bytes"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::CliArgs;

    fn resolve(args: &str, environment: &Environment) -> Result<CrtClientOptions, String> {
        let all = ["mount-s3", "bucket", "/mnt"]
            .into_iter()
            .chain(args.split_whitespace());
        let args = CliArgs::try_parse_from(all).unwrap();
        client_options(
            &args.bucket,
            &args.bucket_flags,
            &args.credentials,
            &args.client,
            environment,
        )
    }

    #[test]
    fn flags_win_over_variables_over_defaults() {
        let environment = Environment {
            region: Some("variable".to_owned()),
            endpoint_url: Some("http://variable".to_owned()),
            ..Environment::default()
        };
        for (args, region, endpoint_url) in [
            ("", Some("variable"), Some("http://variable")),
            ("--region flag", Some("flag"), Some("http://variable")),
            (
                "--endpoint-url http://flag",
                Some("variable"),
                Some("http://flag"),
            ),
        ] {
            let options = resolve(args, &environment).unwrap();
            assert_eq!(options.region.as_deref(), region, "{args}");
            assert_eq!(options.endpoint_url.as_deref(), endpoint_url, "{args}");
        }
        assert_eq!(resolve("", &Environment::default()).unwrap().region, None);
    }

    #[test]
    fn part_sizes() {
        for (args, expected) in [
            ("", 8 << 20),
            ("--part-size 16777216", 16 << 20),
            ("--read-part-size 16777216", 16 << 20),
            ("--part-size 5368709120", 256 << 20),
        ] {
            let options = resolve(args, &Environment::default()).unwrap();
            assert_eq!(options.part_size_max, expected, "{args}");
        }
    }

    #[test]
    fn the_rest() {
        let options = resolve(
            "--bind eth0 --bind eth1 --user-agent-prefix tool/1 --maximum-throughput-gbps 100 --force-path-style",
            &Environment::default(),
        )
        .unwrap();
        assert_eq!(options.network_interfaces, ["eth0", "eth1"]);
        assert!(
            options.user_agent.starts_with("tool/1 mountpoint/"),
            "{}",
            options.user_agent
        );
        assert_eq!(options.throughput_target_gbps, Some(100.0));
        assert!(options.force_path_style);
    }

    #[test]
    fn files_that_cannot_be_used() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("ca.pem");
        let missing = missing.display();
        let none = Environment::default();
        let variable = Environment {
            ca_bundle: Some(missing.to_string()),
            ..Environment::default()
        };
        for (args, environment, expected) in [
            (
                format!("--ca-bundle {missing}"),
                &none,
                format!("cannot read --ca-bundle {missing}: No such"),
            ),
            (
                String::new(),
                &variable,
                format!("cannot read AWS_CA_BUNDLE={missing}: No such"),
            ),
            (
                "--ca-bundle /dev/zero".to_owned(),
                &none,
                "it is larger than".to_owned(),
            ),
        ] {
            let error = resolve(&args, environment).unwrap_err();
            assert!(error.contains(&expected), "{error}");
        }
    }
}
