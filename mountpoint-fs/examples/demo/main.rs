//! `make demo`: a bucket mounted and read, with nothing but this machine.
//!
//! Starts the embedded S3 server with a small data set, mounts it in this process, lists it, reads
//! a large file and compares its checksum, and then stays mounted until Ctrl-C. With `--check` it
//! exits instead, with 0 only if everything was right.

mod data_set;
mod tour;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use mountpoint_client::credentials::{CredentialsMode, StaticKeys};
use mountpoint_client::crt_client::{CrtClient, CrtClientOptions};
use mountpoint_client::testing::server::Server;
use mountpoint_fs::config::FsConfig;
use mountpoint_fs::fuse::MountOptions;
use mountpoint_fs::mount::{FuseTuning, MountTarget, MountedBucket};

/// Mounts a bucket of an embedded S3 server and shows what that is like.
#[derive(Debug, Parser)]
struct DemoArgs {
    /// Verify everything and exit, instead of staying mounted
    #[arg(long)]
    check: bool,

    /// Where to mount [default: a new directory under the temporary one]
    directory: Option<PathBuf>,
}

type Failure = Box<dyn std::error::Error>;

#[expect(clippy::print_stderr, reason = "a program for the terminal")]
fn main() -> ExitCode {
    match run(&DemoArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "a program for the terminal")]
fn run(args: &DemoArgs) -> Result<(), Failure> {
    let server = data_set::start_server()?;
    println!(
        "An S3 server with bucket '{}' is at {}",
        data_set::BUCKET,
        server.url()
    );

    let temporary = tempfile::Builder::new()
        .prefix("mountpoint-demo-")
        .tempdir()?;
    let directory = args
        .directory
        .clone()
        .unwrap_or_else(|| temporary.path().to_owned());
    let mounted = mount(&server, &directory)?;
    println!("It is mounted at {}\n", directory.display());

    let toured = tour::walk(&directory)
        .and_then(|()| tour::read_and_verify(&directory.join(data_set::MODEL)));
    match toured {
        Ok(()) if args.check => {
            println!("\nAll was right.");
            mounted.end();
            Ok(())
        }
        Ok(()) => {
            tour::suggest(&directory, &server.url());
            mounted.serve();
            Ok(())
        }
        Err(error) => {
            mounted.end();
            Err(error)
        }
    }
}

fn mount(server: &Server, directory: &Path) -> Result<MountedBucket, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let options = CrtClientOptions {
        endpoint_url: Some(server.url()),
        force_path_style: true,
        credentials: CredentialsMode::Static(StaticKeys {
            access_key_id: data_set::ACCESS_KEY.to_owned(),
            secret_access_key: data_set::SECRET_KEY.to_owned(),
            session_token: None,
        }),
        ..CrtClientOptions::new(data_set::BUCKET)
    };
    let client = runtime.block_on(CrtClient::connect(options, runtime.handle().clone()))?;
    let fs = FsConfig {
        uid: nix::unistd::getuid().as_raw(),
        gid: nix::unistd::getgid().as_raw(),
        ..FsConfig::default()
    };
    let access = MountOptions {
        source_name: "mountpoint-demo".to_owned(),
        allow_other: false,
        allow_root: false,
        auto_unmount: false,
        read_only: true,
        transport: FuseTuning::default().transport,
    };
    Ok(MountedBucket::over(
        Arc::new(client),
        runtime,
        MountTarget::Directory(directory.to_owned()),
        &fs,
        &access,
        FuseTuning::default(),
    )?)
}
