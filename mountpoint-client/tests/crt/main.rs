//! `CrtClient` against servers that are scripted answer by answer, or the embedded one with its log.

#[cfg(feature = "server")]
mod append;
#[cfg(feature = "server")]
mod buckets;
mod control;
mod get;
mod idle;
mod support;
