//! The switch whether requests ask S3 for stored checksums.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::{ClientError, ErrorKind};

/// Whether the server knows the header that asks for checksums.
///
/// Some servers refuse every request with a header that they do not know. One refusal proves
/// nothing: the header is left out as soon as a request that was refused with it has succeeded
/// without.
#[derive(Debug)]
pub(in crate::crt_client) struct ChecksumMode {
    is_unknown: AtomicBool,
    /// Whether reads ask; other requests ask in any case.
    pub(in crate::crt_client) checks_reads: bool,
}

impl ChecksumMode {
    pub(in crate::crt_client) fn new(checks_reads: bool) -> Self {
        Self {
            is_unknown: AtomicBool::new(false),
            checks_reads,
        }
    }

    /// The outcome of `send` with the header, or without it where the server does not know it.
    pub(in crate::crt_client) async fn ask<T, A>(
        &self,
        send: impl Fn(Option<(String, String)>) -> A,
    ) -> Result<T, ClientError>
    where
        A: Future<Output = Result<T, ClientError>>,
    {
        let mut asking = Asking::default();
        let mut outcome = send(asking.header(self)).await;
        if let Err(error) = &outcome
            && asking.may_be_refused(error)
        {
            outcome = send(None).await;
        }
        if outcome.is_ok() {
            asking.succeeded(self);
        }
        outcome
    }
}

/// Whether one request asks for the checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::crt_client) enum Asking {
    #[default]
    No,
    Yes,
    /// No longer: the server refused an attempt that asked for a checksum.
    Refused,
}

impl Asking {
    /// The header of the next attempt that asks for the checksum, if it is to ask.
    pub(in crate::crt_client) fn header(
        &mut self,
        mode: &ChecksumMode,
    ) -> Option<(String, String)> {
        if *self == Self::Refused || mode.is_unknown.load(Ordering::Relaxed) {
            return None;
        }
        *self = Self::Yes;
        Some(("x-amz-checksum-mode".to_owned(), "ENABLED".to_owned()))
    }

    /// Whether the attempt that ended with `error` is to be repeated without the header.
    pub(in crate::crt_client) fn may_be_refused(&mut self, error: &ClientError) -> bool {
        let may_be = *self == Self::Yes && error.kind == ErrorKind::Unsupported;
        if may_be {
            *self = Self::Refused;
        }
        may_be
    }

    /// The request succeeded.
    pub(in crate::crt_client) fn succeeded(self, mode: &ChecksumMode) {
        if self == Self::Refused && !mode.is_unknown.swap(true, Ordering::Relaxed) {
            tracing::info!(
                "the server refuses requests for checksums (x-amz-checksum-mode): read bytes are compared with no checksum"
            );
        }
    }
}
