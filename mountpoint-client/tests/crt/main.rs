//! `CrtClient` against servers that are scripted answer by answer, or the embedded one with its
//! log.

#[cfg(feature = "server")]
mod answers;
#[cfg(feature = "server")]
mod append;
#[cfg(feature = "server")]
mod buckets;
#[cfg(feature = "server")]
mod checksums;
mod control;
#[cfg(feature = "server")]
mod gateways;
mod get;
#[cfg(feature = "server")]
mod hanging;
mod idle;
#[cfg(feature = "server")]
mod listing;
#[cfg(feature = "server")]
mod other_servers;
mod support;
