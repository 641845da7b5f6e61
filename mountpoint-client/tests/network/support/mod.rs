//! Servers, networks and child processes that the tests use.

pub(crate) mod bucket;
pub(crate) mod child;
#[path = "../../../../mountpoint-crt-sys/src/tests/servers/http.rs"]
mod http;
pub(crate) mod network_namespace;
pub(crate) mod proxy_server;
pub(crate) mod services;
pub(crate) mod stub;
