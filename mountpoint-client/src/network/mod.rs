//! How requests leave the machine: proxies, interfaces, whom TLS trusts, and the SDK's HTTP client
//! over them.
//!
//! Knows no S3 and no credentials. The CRT's clients and the SDK's take their decisions from here,
//! so that data and control requests go the same ways.
//!
//! Invariant: an interface's outstanding bytes are the sum of its live [`Lane`]s.

mod complete;
mod health;
mod http;
mod interface_speed;
mod interfaces;
mod no_proxy;
mod probe;
mod proxy;
mod silence;
mod trust;

pub(crate) use http::{HttpOptions, http_client};
pub(crate) use interface_speed::interfaces_gbps;
pub(crate) use interfaces::{DEAD_INTERFACE, Interfaces, Lane};
pub use no_proxy::NoProxy;
pub(crate) use probe::ProbeTarget;
pub(crate) use proxy::url_address;
pub use proxy::{Proxy, ProxySettings};
pub(crate) use silence::Stalled;
pub(crate) use trust::{authorities, trust};
