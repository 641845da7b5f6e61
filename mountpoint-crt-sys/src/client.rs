//! One S3 client of the CRT.

use std::time::Duration;

use bytes::Bytes;

use crate::block::BlockFill;
use crate::{Cancel, CrtError, GetHandler, Message, RangedGet, Runtime, SendHandler, Signing};

/// Whom TLS trusts.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// PEM certificates that replace the trust store of the operating system.
    pub ca_bundle: Option<Vec<u8>>,
}

/// Settings of a [`Client`].
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// `https://host[:port]`; the scheme decides about TLS.
    pub endpoint: String,
    pub signing: Signing,
    pub tls: TlsOptions,
    pub throughput_target_gbps: f64,
    /// Bytes of the largest block that will be asked for.
    pub part_size_max: usize,
    pub connect_timeout: Duration,
    /// A connection that moves less than 1 B/s for this long is closed. Whole seconds.
    pub stall_timeout: Duration,
    pub network_interface: Option<String>,
}

/// One S3 client of the CRT. Cheap to clone; requests in flight keep it alive.
#[derive(Clone, Debug)]
pub struct Client {}

impl Client {
    /// Starts a client. No connection is made yet.
    pub fn new(runtime: &Runtime, options: &ClientOptions) -> Result<Self, CrtError> {
        let _ = (runtime, options);
        unimplemented!()
    }

    /// One ranged GET; the bytes land in the unfilled rest of `fill`.
    ///
    /// Panics unless the range is as long as the unfilled rest and not empty.
    pub fn get(&self, request: RangedGet, fill: BlockFill, handler: Box<dyn GetHandler>) -> Cancel {
        let _ = (request, fill, handler);
        unimplemented!()
    }

    /// One request with a body in memory; the answer's body is collected, up to 1 MiB.
    pub fn send(&self, request: Message, body: Bytes, handler: SendHandler) -> Cancel {
        let _ = (request, body, handler);
        unimplemented!()
    }
}
