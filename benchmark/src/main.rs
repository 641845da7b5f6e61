//! Measures the product beside its peers on one S3 server. See doc/BENCHMARKING.md.

mod allocations;
mod clock;
mod dataset;
mod engine;
mod limit;
mod process;
mod profile;
mod put;
mod reader_memory;
mod recorded;
mod replay;
mod results;
mod run;
mod server;
mod store_client;
mod system;
mod workload;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::limit::{ClientLimit, FuseLimit};
use crate::put::PutFile;
use crate::recorded::Pace;
use crate::replay::ReplayOptions;
use crate::server::{Needs, Setup};

#[derive(Debug, Parser)]
#[command(
    name = "benchmark",
    version,
    about,
    args_conflicts_with_subcommands = true
)]
struct CommandLine {
    #[command(subcommand)]
    helper: Option<Helper>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Subcommand)]
enum Helper {
    /// The cost of writing a small file in the allocator
    Allocations,
    /// Reads of a file of `mount-s3 trace`, below a directory of one's own
    Replay(ReplayOptions),
    /// The S3 server alone; the benchmark starts it itself.
    #[command(hide = true)]
    Serve(Needs),
    #[command(hide = true)]
    Put(PutFile),
    #[command(hide = true)]
    LimitFuse(FuseLimit),
    #[command(hide = true)]
    LimitClient(ClientLimit),
}

#[derive(Clone, Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent flags of a command line"
)]
struct Settings {
    /// The product's binary
    #[arg(long, value_name = "PROGRAM")]
    mount_s3: Option<PathBuf>,
    /// A peer: mountpoint-s3, rclone, s3fs, geesefs, goofys or mount-s3, found in PATH unless a
    /// program is given, with variables before and arguments behind it: `mount-s3:x=A=1 ./mount-s3
    /// --read-mode direct`; ratios are to the first
    #[arg(long = "peer", value_name = "NAME[:MARK][=PROGRAM]")]
    peers: Vec<String>,
    /// Also every peer that PATH holds
    #[arg(long)]
    peers_found: bool,
    /// The product again, once for each value of a variable
    #[arg(long, value_name = "VARIABLE=VALUE,VALUE", requires = "mount_s3")]
    sweep: Option<String>,
    /// Also what FUSE reaches with no store behind it, and the client with no FUSE before it
    #[arg(long)]
    limit: bool,
    /// all, a group, fuse, names, or beginnings of names with a *, separated by commas; `list`
    /// shows them
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "all"
    )]
    workload: Vec<String>,
    /// When the reads of --replay are issued
    #[arg(
        long,
        value_name = "PACE",
        value_enum,
        default_value_t,
        requires = "replay"
    )]
    replay_pace: Pace,
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
    /// The program that draws charts as PNG (benchmark/render); without it there are SVG files only
    #[arg(long, value_name = "PROGRAM")]
    render: Option<PathBuf>,
    /// Also what the mounts' CPU time goes into (with perf, from Debian's linux-perf); with
    /// --document its chart alone is replaced
    #[arg(long)]
    profile: bool,
    /// Also replace the rows of what was measured in the tables of this document
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
    /// The report's text instead of this command line, up to the name of the workload
    #[arg(long, value_name = "TEXT", hide = true)]
    command: Option<String>,
    #[command(flatten)]
    setup: Setup,
}

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    let done = match command_line.helper {
        Some(Helper::Allocations) => allocations::run(),
        Some(Helper::Replay(options)) => replay::run(&options),
        Some(Helper::Serve(needs)) => server::serve(&needs),
        Some(Helper::Put(options)) => put::run(&options),
        Some(Helper::LimitFuse(options)) => limit::run_fuse(options),
        Some(Helper::LimitClient(options)) => tell_found(&options),
        None => run::session::run(&command_line.settings),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Tells the parent.
fn tell_found(options: &ClientLimit) -> anyhow::Result<()> {
    let found = serde_json::to_string(&limit::run_client(options)?)?;
    Ok(writeln!(io::stdout(), "{found}")?)
}

/// Tells the person at the terminal.
fn say(text: &str) {
    // There is nobody to tell if the terminal has gone.
    let _gone = writeln!(io::stderr().lock(), "{text}");
}
