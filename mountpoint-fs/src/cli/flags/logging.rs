//! Flags that select log lines and their destination.

use std::path::PathBuf;

use clap::Args;

/// Flags under "Logging options".
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Logging options")]
pub struct LoggingFlags {
    /// Log to files in this directory instead of syslog; it is made if need be
    #[arg(short, long, value_name = "DIRECTORY")]
    pub log_directory: Option<PathBuf>,

    /// Log debug messages
    #[arg(short, long)]
    pub debug: bool,

    /// Log debug messages of the AWS Common Runtime too
    #[arg(long)]
    pub debug_crt: bool,

    /// Log nothing
    #[arg(long, conflicts_with_all = ["log_directory", "debug", "debug_crt", "log_metrics"])]
    pub no_log: bool,
}
