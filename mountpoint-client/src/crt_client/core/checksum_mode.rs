//! The switch whether requests ask S3 for stored checksums, and how they get them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use mountpoint_crt_sys::ResponseHead;

use crate::{ClientError, ErrorKind};

/// Whether the server knows the header that asks for checksums.
///
/// Some servers refuse every request with a header that they do not know. One refusal proves
/// nothing: the header is left out as soon as a request that was refused with it has succeeded
/// without.
#[derive(Debug)]
pub(in crate::crt_client) struct ChecksumMode {
    is_unknown: AtomicBool,
    /// Whether an answer to a range that is a whole object had its checksum, as Amazon S3's have.
    comes_with_ranges: AtomicBool,
    /// Whether only answers to GETs without a Range were seen to have one.
    comes_with_wholes: AtomicBool,
    /// Whole objects in a row that had none.
    without: AtomicU32,
    /// Whether reads ask; other requests ask in any case.
    pub(in crate::crt_client) checks_reads: bool,
}

impl ChecksumMode {
    pub(in crate::crt_client) fn new(checks_reads: bool) -> Self {
        Self {
            is_unknown: AtomicBool::new(false),
            comes_with_ranges: AtomicBool::new(false),
            comes_with_wholes: AtomicBool::new(false),
            without: AtomicU32::new(0),
            checks_reads,
        }
    }

    /// Whether a GET that is to be compared, of a whole object whose size is known, is sent without
    /// a Range.
    pub(in crate::crt_client) fn asks_without_range(&self) -> bool {
        self.checks_reads
            && !self.is_unknown.load(Ordering::Relaxed)
            && !self.comes_with_ranges.load(Ordering::Relaxed)
    }

    /// Whether bytes that came with the answer `head` to a range, which has the whole object and no
    /// checksum, are to be asked for without a Range.
    pub(in crate::crt_client) fn asks_again(&self, head: &ResponseHead) -> bool {
        let may_have = self.comes_with_wholes.load(Ordering::Relaxed)
            || head.header("server") == Some(KNOWN_WITHOUT_RANGE);
        may_have && self.asks_without_range() && self.without.load(Ordering::Relaxed) < WITHOUT_MAX
    }

    /// Notes that an answer with a whole object had a checksum, or not.
    pub(in crate::crt_client) fn came(&self, has_checksum: bool, with_range: bool) {
        match (has_checksum, with_range) {
            (true, true) => self.comes_with_ranges.store(true, Ordering::Relaxed),
            (true, false) => {
                self.comes_with_wholes.store(true, Ordering::Relaxed);
                self.without.store(0, Ordering::Relaxed);
            }
            (false, false) => drop(self.without.fetch_add(1, Ordering::Relaxed)),
            (false, true) => {}
        }
    }

    /// Sends GETs with a Range alone from now on: the server's answer to one could not be used.
    pub(in crate::crt_client) fn needs_ranges(&self) {
        self.comes_with_ranges.store(true, Ordering::Relaxed);
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

/// The name in `Server` of one that sends checksums only with answers to GETs without a Range.
const KNOWN_WITHOUT_RANGE: &str = "MinIO";

/// Small objects without a checksum, in a row, after which no other is asked for twice to get one.
const WITHOUT_MAX: u32 = 3;

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
