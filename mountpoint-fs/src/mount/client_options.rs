//! Settings of the S3 client: flags before variables before defaults.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mountpoint_client::credentials::{CredentialsMode, EndpointSettings};
use mountpoint_client::crt_client::{CrtClientOptions, ServerSideEncryption, SseCustomerKey};
use mountpoint_client::endpoint::BucketType;
use mountpoint_client::instance::MetadataUse;

use super::Environment;
use super::environment::AwsFiles;
use crate::cli::{
    BucketArg, BucketFlags, BucketTypeArg, ClientFlags, CredentialsFlags, Sse, StoreFlags,
    WriteFlags, parse_endpoint,
};
use crate::config::limits;

/// Settings of the client of a bucket. Helper commands that talk to S3 resolve theirs here, too.
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
    options.credentials = if credentials.no_sign_request {
        CredentialsMode::Unsigned
    } else {
        CredentialsMode::Default {
            profile: credentials.profile.clone(),
        }
    };
    set_bucket(&mut options, flags, environment)?;
    if let Some(gbps) = client.maximum_throughput_gbps {
        #[expect(
            clippy::cast_precision_loss,
            reason = "far above any network before it matters"
        )]
        let gbps = gbps as f64;
        options.throughput_target_gbps = Some(gbps);
    }
    options.checks_reads = !environment.unchecked_reads.unwrap_or(false);
    options.part_size_max =
        usize::try_from(read_part_size(client)).map_err(|error| error.to_string())?;
    options.network_interfaces.clone_from(&client.bind);
    options.instance_metadata = match environment {
        _ if environment.ec2_metadata_disabled => MetadataUse::Never,
        _ if environment.ec2_metadata_named => MetadataUse::Always,
        _ => MetadataUse::Auto,
    };
    options.proxy.clone_from(&environment.proxy);
    options.event_loop_threads = environment.event_loop_threads;
    options.ca_bundle = ca_bundle(client, environment)?;
    if let Some(attempts) = environment.max_attempts {
        options.max_attempts = attempts;
    }
    let prefix = client.user_agent_prefix.as_deref().unwrap_or_default();
    if !prefix.is_empty() {
        options.user_agent = format!("{prefix} {}", options.user_agent);
    }
    Ok(options)
}

/// Settings of the client of a helper command.
///
/// # Errors
/// A text for the user.
pub fn store_options(
    bucket: &BucketArg,
    flags: &StoreFlags,
    environment: &Environment,
) -> Result<CrtClientOptions, String> {
    let (credentials, client) = (&flags.credentials, &flags.client);
    client_options(bucket, &flags.bucket, credentials, client, environment)
}

/// Sets where the bucket is, and how requests to it look.
fn set_bucket(
    options: &mut CrtClientOptions,
    flags: &BucketFlags,
    environment: &Environment,
) -> Result<(), String> {
    options.region = flags.region.clone().or_else(|| environment.region.clone());
    options.endpoint_url = match &flags.endpoint_url {
        Some(url) => Some(url.clone()),
        None => endpoint_from_elsewhere(&options.credentials, environment)?,
    };
    options.force_path_style = flags.force_path_style;
    options.transfer_acceleration = flags.transfer_acceleration;
    options.dual_stack = flags.dual_stack;
    options.fips = flags.fips;
    options.requester_pays = flags.requester_pays;
    options.bucket_type = flags.bucket_type.map(|bucket_type| match bucket_type {
        BucketTypeArg::GeneralPurpose => BucketType::GeneralPurpose,
        BucketTypeArg::Directory => BucketType::Directory,
    });
    options
        .expected_bucket_owner
        .clone_from(&flags.expected_bucket_owner);
    options.sse_customer_key = flags
        .sse_customer_key_file
        .as_deref()
        .map(sse_customer_key)
        .transpose()?;
    Ok(())
}

/// The endpoint by variables, else by the profile's files, as in every program that uses AWS.
fn endpoint_from_elsewhere(
    credentials: &CredentialsMode,
    environment: &Environment,
) -> Result<Option<String>, String> {
    let profile = match credentials {
        CredentialsMode::Default { profile } => profile.as_deref(),
        CredentialsMode::Unsigned | CredentialsMode::Static(_) => None,
    };
    let files = match environment.aws_files {
        AwsFiles::OfProcess => EndpointSettings::of_profile(profile),
        AwsFiles::None => EndpointSettings::default(),
    };
    endpoint_url(environment, &files)
}

fn endpoint_url(
    environment: &Environment,
    files: &EndpointSettings,
) -> Result<Option<String>, String> {
    let ignores = environment.ignores_endpoint_urls;
    if ignores.unwrap_or(files.ignores_urls) {
        return Ok(None);
    }
    match (&environment.endpoint_url, &files.url) {
        (Some(url), _) => url.clone().map(Some),
        (None, Some(url)) => parse_endpoint(url)
            .map(Some)
            .map_err(|why| format!("endpoint_url in the configuration of AWS: {why}")),
        (None, None) => Ok(None),
    }
}

/// The encryption of new objects.
pub(super) fn encryption(flags: &WriteFlags) -> Option<ServerSideEncryption> {
    let key_id = || flags.sse_kms_key_id.clone();
    flags.sse.map(|sse| match sse {
        Sse::Aes256 => ServerSideEncryption::Aes256,
        Sse::Kms => ServerSideEncryption::Kms { key_id: key_id() },
        Sse::KmsDsse => ServerSideEncryption::KmsDsse { key_id: key_id() },
    })
}

/// Largest range of one GET, in bytes. A range above the largest block is cut: the bytes are equal.
#[must_use]
pub fn read_part_size(client: &ClientFlags) -> u64 {
    client.read_part_size().min(limits::PART_MAX)
}

fn ca_bundle(client: &ClientFlags, environment: &Environment) -> Result<Option<Vec<u8>>, String> {
    let (name, path) = match (&client.ca_bundle, &environment.ca_bundle) {
        (Some(path), _) => ("--ca-bundle ", path.as_path()),
        (None, Some(path)) => ("AWS_CA_BUNDLE=", Path::new(path)),
        (None, None) => return Ok(None),
    };
    read_bounded(path, CA_BUNDLE_MAX)
        .map(Some)
        .map_err(|error| {
            let path = path.display();
            format!("cannot read {name}{path}: {error}; it is a file of PEM certificates")
        })
}

/// Reads the key of a file: 32 bytes, or their base64 between white space. No message contains any
/// of them.
fn sse_customer_key(path: &Path) -> Result<SseCustomerKey, String> {
    let shown = path.display();
    let bytes = read_bounded(path, KEY_FILE_MAX)
        .map_err(|error| format!("cannot read --sse-customer-key-file {shown}: {error}"))?;
    let is_raw = bytes.len() == SseCustomerKey::LEN;
    let decoded = match is_raw {
        true => Ok(bytes),
        false => BASE64_STANDARD.decode(bytes.trim_ascii()),
    };
    let key: Option<[u8; SseCustomerKey::LEN]> =
        decoded.ok().and_then(|bytes| bytes.try_into().ok());
    key.map(SseCustomerKey::new).ok_or_else(|| {
        format!(
            "--sse-customer-key-file {shown} holds no key: it must be 32 bytes, or the base64 of 32 bytes \
             (openssl rand -base64 32)"
        )
    })
}

/// Reads a file of `max` bytes at most. An endless device is an error as well.
fn read_bounded(path: &Path, max: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(max + 1).read_to_end(&mut bytes))
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > max {
        return Err(format!("the file is larger than {max} bytes"));
    }
    Ok(bytes)
}

/// Largest file of trusted certificates; the system's own is about 0.2 MB.
const CA_BUNDLE_MAX: u64 = 16 << 20;

/// Largest file that may hold a customer's key: its base64 is 44 bytes.
const KEY_FILE_MAX: u64 = 1 << 10;

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
            endpoint_url: Some(Ok("http://variable".to_owned())),
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
        let bad = Environment {
            endpoint_url: Some(Err("why".to_owned())),
            ..Environment::default()
        };
        assert_eq!(resolve("", &bad).unwrap_err(), "why");
        assert!(resolve("--endpoint-url http://flag", &bad).is_ok());
    }

    #[test]
    fn endpoints_of_files_come_after_variables_and_may_be_ignored() {
        const IGNORES: EndpointSettings = EndpointSettings {
            url: None,
            ignores_urls: true,
        };
        let file = |url: &str| EndpointSettings {
            url: Some(url.to_owned()),
            ignores_urls: false,
        };
        for (variable, ignored, files, expected) in [
            (None, None, EndpointSettings::default(), Ok(None)),
            (
                None,
                None,
                file("http://f:9000/"),
                Ok(Some("http://f:9000")),
            ),
            (
                Some("http://v"),
                None,
                file("http://f"),
                Ok(Some("http://v")),
            ),
            (Some("http://v"), Some(true), file("http://f"), Ok(None)),
            (Some("http://v"), None, IGNORES, Ok(None)),
            (Some("http://v"), Some(false), IGNORES, Ok(Some("http://v"))),
            (
                None,
                None,
                file("f:9000"),
                Err("endpoint_url in the configuration"),
            ),
        ] {
            let environment = Environment {
                endpoint_url: variable.map(|url| Ok(url.to_owned())),
                ignores_endpoint_urls: ignored,
                ..Environment::default()
            };
            match (endpoint_url(&environment, &files), expected) {
                (Ok(url), expected) => assert_eq!(Ok(url.as_deref()), expected, "{files:?}"),
                (Err(error), Err(part)) => assert!(error.starts_with(part), "{error}"),
                (Err(error), Ok(_)) => panic!("{error}"),
            }
        }
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
        let options = resolve("--user-agent-prefix=", &Environment::default()).unwrap();
        assert!(options.user_agent.starts_with("mountpoint/"), "none");
    }

    #[test]
    fn flags_of_the_bucket() {
        let environment = Environment::default();
        let options = resolve("", &environment).unwrap();
        assert!(!options.transfer_acceleration && !options.dual_stack && !options.fips);
        assert!(!options.requester_pays && options.bucket_type.is_none());
        let flags = "--transfer-acceleration --dual-stack --fips --requester-pays \
                     --bucket-type directory --expected-bucket-owner 123456789012";
        let options = resolve(flags, &environment).unwrap();
        assert!(options.transfer_acceleration && options.dual_stack && options.fips);
        assert!(options.requester_pays);
        assert_eq!(options.bucket_type, Some(BucketType::Directory));
        assert_eq!(
            options.expected_bucket_owner.as_deref(),
            Some("123456789012")
        );
        let options = resolve("--bucket-type general-purpose", &environment).unwrap();
        assert_eq!(options.bucket_type, Some(BucketType::GeneralPurpose));
    }

    #[test]
    fn metadata_of_the_instance() {
        for (ec2_metadata_disabled, ec2_metadata_named, expected) in [
            (false, false, MetadataUse::Auto),
            (false, true, MetadataUse::Always),
            (true, true, MetadataUse::Never),
        ] {
            let environment = Environment {
                ec2_metadata_disabled,
                ec2_metadata_named,
                ..Environment::default()
            };
            let options = resolve("", &environment).unwrap();
            assert_eq!(options.instance_metadata, expected);
        }
    }

    #[test]
    fn keys_of_customers() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let key = [7; SseCustomerKey::LEN];
        let base64 = format!(" {}\n", BASE64_STANDARD.encode(key));
        let short = BASE64_STANDARD.encode([7; 31]);
        for (content, is_key) in [
            (&key[..], true),
            (base64.as_bytes(), true),
            (short.as_bytes(), false),
            (b"secret words", false),
            (b"", false),
            (&[7; 33], false),
            (&[b'A'; 10_000], false),
        ] {
            std::fs::write(&path, content).unwrap();
            let found = sse_customer_key(&path);
            match found {
                Ok(found) => assert!(is_key && found == SseCustomerKey::new(key)),
                Err(error) => {
                    assert!(!is_key, "{error}");
                    assert!(
                        error.contains("32 bytes") || error.contains("larger"),
                        "{error}"
                    );
                    assert!(!error.contains("secret"), "{error}");
                }
            }
        }
        let error = sse_customer_key(Path::new("/no/such/key")).unwrap_err();
        assert!(
            error.contains("--sse-customer-key-file /no/such/key: No such"),
            "{error}"
        );
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
                "the file is larger than".to_owned(),
            ),
        ] {
            let error = resolve(&args, environment).unwrap_err();
            assert!(error.contains(&expected), "{error}");
        }
    }
}
