//! Measures the product beside its peers on one S3 server. See doc/BENCHMARKING.md.

mod clock;
mod dataset;
mod histogram;
mod machine;
mod measure;
mod mount;
mod plot;
mod process;
mod reader;
mod report;
mod run;
mod server;
mod summary;
mod system;
mod workload;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::server::Setup;

#[derive(Debug, Parser)]
#[command(name = "benchmark", about, args_conflicts_with_subcommands = true)]
struct CommandLine {
    #[command(subcommand)]
    helper: Option<Helper>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Subcommand)]
enum Helper {
    /// The S3 server alone; the benchmark starts it itself.
    #[command(hide = true)]
    Serve(Setup),
}

#[derive(Clone, Debug, Args)]
struct Settings {
    /// The product's binary
    #[arg(long, value_name = "PROGRAM")]
    mount_s3: Option<PathBuf>,
    /// A peer: mountpoint-s3, rclone, s3fs, geesefs, goofys or mount-s3, found in PATH unless a program is
    /// given, with variables before and arguments behind it: `mount-s3:x=A=1 ./mount-s3 --read-mode direct`;
    /// ratios are to the first
    #[arg(long = "peer", value_name = "NAME[:MARK][=PROGRAM]")]
    peers: Vec<String>,
    /// Also every peer that PATH holds
    #[arg(long)]
    peers_found: bool,
    /// all, a group, names, or beginnings of names with a *, separated by commas; `list` shows them
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "all"
    )]
    workload: Vec<String>,
    /// How often each system carries out each workload; they take turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Time after which reads end, in seconds [default: 5, with --quick 2.5]
    #[arg(long, value_name = "N")]
    seconds: Option<f64>,
    /// Do not drop the machine's page cache before each run; mounts are fresh in any case
    #[arg(long)]
    keep_caches: bool,
    /// Folder for results
    #[arg(long, value_name = "FOLDER", default_value = "benchmark/results")]
    results: PathBuf,
    #[command(flatten)]
    setup: Setup,
}

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    let done = match command_line.helper {
        Some(Helper::Serve(setup)) => server::serve(setup),
        None => run::run(&command_line.settings),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Tells the person at the terminal.
fn say(text: &str) {
    // There is nobody to tell if the terminal has gone.
    let _gone = writeln!(io::stderr().lock(), "{text}");
}
