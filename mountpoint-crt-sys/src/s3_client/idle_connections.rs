//! Connections that outlive the last request.
//!
//! C closes a client's idle connections some 5 s after its last request, when nothing refers to the
//! endpoint that they belong to. [`IdleConnections`] holds one reference more. Knows no time: the
//! caller decides when it ends.
//!
//! Lock: inside a request's slot lock; C's client lock is taken inside it. Neither is held when a
//! reference is given back. C makes no callback under its lock.

use std::mem;

use mountpoint_s3_crt_sys as sys;
use parking_lot::Mutex;

use super::hook;
use crate::ffi::Handle;

/// Whether a client's connections are kept. Must end before the client.
#[derive(Default)]
pub(crate) struct IdleConnections(Mutex<EndpointState>);

#[derive(Default)]
enum EndpointState {
    #[default]
    No,
    /// From the next request on, which knows the endpoint.
    Wanted,
    Held(#[expect(dead_code, reason = "owned, to be given back")] Handle<sys::aws_s3_endpoint>),
}

impl IdleConnections {
    /// True if they were not kept before.
    pub(crate) fn want(&self) -> bool {
        let mut state = self.0.lock();
        let is_new = matches!(*state, EndpointState::No);
        if is_new {
            *state = EndpointState::Wanted;
        }
        is_new
    }

    pub(crate) fn let_go(&self) {
        let held = mem::take(&mut *self.0.lock());
        drop(held);
    }

    /// A request was started.
    ///
    /// # Safety
    ///
    /// As for [`hook::endpoint_of`].
    pub(crate) unsafe fn started(&self, meta_request: *mut sys::aws_s3_meta_request) {
        let mut state = self.0.lock();
        if matches!(*state, EndpointState::Wanted) {
            // SAFETY: the caller's contract.
            if let Some(endpoint) = unsafe { hook::endpoint_of(meta_request) } {
                *state = EndpointState::Held(endpoint);
            }
        }
    }
}
