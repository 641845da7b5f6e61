//! What the parts reach alone: the kernel's side with no store behind it, the client with no kernel before it.
//!
//! Each is a process of its own, as every system under test, so that its CPU time and memory are told apart.

mod client;
mod fuse;

pub(crate) use client::{ClientLimit, Found, run as run_client, takes as client_takes};
pub(crate) use fuse::{FuseLimit, run as run_fuse};

use anyhow::{Result, anyhow, bail};
use mountpoint_fs::cli::Invocation;
use mountpoint_fs::mount::{Environment, MountConfig};

/// The settings of a mount with this command line, as `mount-s3` understands it.
fn settings(arguments: &[&str]) -> Result<MountConfig> {
    let words = ["mount-s3"].iter().chain(arguments).map(Into::into);
    let Invocation::Mount(args) = Invocation::parse(words)? else {
        bail!("{arguments:?} does not mount");
    };
    let environment = Environment::read().map_err(|error| anyhow!(error))?;
    MountConfig::resolve(&args, &environment).map_err(|error| anyhow!(error))
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(2).enable_all().build()?)
}
