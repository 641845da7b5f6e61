//! Flags that select the credentials.

use clap::Args;

/// Flags under "AWS credentials options".
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "AWS credentials options")]
pub struct CredentialsFlags {
    /// Send requests without a signature, for public buckets; no credentials are looked for
    #[arg(long)]
    pub no_sign_request: bool,

    /// Profile of ~/.aws/config and ~/.aws/credentials to take credentials from [default:
    /// AWS_PROFILE, or default]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
}
