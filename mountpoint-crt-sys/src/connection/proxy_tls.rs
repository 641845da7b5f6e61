//! TLS settings for connections to a proxy that speaks TLS itself, and through it.
//!
//! C asks the proxy for a tunnel before there is a request, and so before our own TLS
//! ([`crate::connection::tls`]) could begin: there C does all of it, with its own library. A
//! negotiation that fails there is logged at once, but its request ends 10 to 30 seconds later: the
//! library waits on purpose, so that nobody learns from its timing.

use std::time::Duration;

use mountpoint_s3_crt_sys as sys;

use crate::CrtError;
use crate::allocator::Allocator;
use crate::error::OwnError;
use crate::ffi::{Handle, check, cursor};

/// Settings in C's form. The server name is not among them: the S3 client sets it from the
/// endpoint's host.
pub(crate) struct TlsConnectionOptions(sys::aws_tls_connection_options);

impl TlsConnectionOptions {
    pub(crate) fn new(
        allocator: Allocator,
        ca_bundle: Option<&[u8]>,
        negotiation_max: Duration,
    ) -> Result<Self, CrtError> {
        // C calls every bundle that it cannot use an invalid argument.
        let context = new_context(allocator, ca_bundle)
            .map_err(|error| ca_bundle.map_or(error, |_| OwnError::CaBundle.into()))?;
        let mut connection = sys::aws_tls_connection_options::default();
        // SAFETY: fills an empty struct; takes its own reference of the context.
        unsafe {
            sys::aws_tls_connection_options_init_from_ctx(&raw mut connection, context.as_ptr());
        };
        connection.timeout_ms = u32::try_from(negotiation_max.as_millis()).unwrap_or(u32::MAX);
        Ok(Self(connection))
    }

    /// Sets the name that the server's certificate must be for.
    pub(crate) fn named(mut self, allocator: Allocator, name: &str) -> Result<Self, CrtError> {
        let name = cursor(name.as_bytes());
        // SAFETY: filled by `new`; copies the name.
        check(unsafe {
            sys::aws_tls_connection_options_set_server_name(
                &raw mut self.0,
                allocator.as_ptr(),
                &raw const name,
            )
        })?;
        Ok(self)
    }

    pub(crate) fn as_ptr(&self) -> *const sys::aws_tls_connection_options {
        &raw const self.0
    }
}

impl Drop for TlsConnectionOptions {
    fn drop(&mut self) {
        // SAFETY: filled by `new`, cleaned up once.
        unsafe { sys::aws_tls_connection_options_clean_up(&raw mut self.0) };
    }
}

fn new_context(
    allocator: Allocator,
    ca_bundle: Option<&[u8]>,
) -> Result<Handle<sys::aws_tls_ctx>, CrtError> {
    let settings = ContextOptions::new(allocator, ca_bundle)?;
    // SAFETY: copies what it needs of the settings.
    let raw = unsafe { sys::aws_tls_client_ctx_new(allocator.as_ptr(), &raw const settings.0) };
    // SAFETY: a new reference, or null.
    unsafe { Handle::own(raw) }
}

struct ContextOptions(sys::aws_tls_ctx_options);

impl ContextOptions {
    fn new(allocator: Allocator, ca_bundle: Option<&[u8]>) -> Result<Self, CrtError> {
        let mut this = Self(sys::aws_tls_ctx_options::default());
        // SAFETY: fills an empty struct.
        unsafe {
            sys::aws_tls_ctx_options_init_default_client(&raw mut this.0, allocator.as_ptr());
        };
        if let Some(bundle) = ca_bundle {
            let bundle = cursor(bundle);
            // SAFETY: copies the bundle.
            check(unsafe {
                sys::aws_tls_ctx_options_override_default_trust_store(
                    &raw mut this.0,
                    &raw const bundle,
                )
            })?;
        }
        Ok(this)
    }
}

impl Drop for ContextOptions {
    fn drop(&mut self) {
        // SAFETY: filled by `new`, cleaned up once.
        unsafe { sys::aws_tls_ctx_options_clean_up(&raw mut self.0) };
    }
}
