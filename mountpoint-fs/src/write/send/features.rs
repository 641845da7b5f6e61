//! Features that the server was seen to lack, so that it is asked for them only once.
//!
//! No feature is guessed by a server's name: a request with the feature is sent, and repeated
//! without it only after an answer that the server does not implement it (501, 405,
//! `NotImplemented`). What is known of its conditions, the mutator's `Conditions` know.

use std::sync::atomic::{AtomicBool, Ordering};

use mountpoint_client::types::{Checksum, ChecksumAlgorithm};
use mountpoint_client::{ClientError, ErrorKind};

/// The features of uploads that a server may lack.
#[derive(Debug, Default)]
pub(in crate::write) struct ServerFeatures {
    lacks_checksums: AtomicBool,
    /// The server has copied a part of an object into an upload.
    copies_parts: AtomicBool,
    /// The server was seen to copy no parts.
    lacks_copies: AtomicBool,
}

/// The checksums that one request uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::write) struct Uses {
    pub(in crate::write) checksum: Option<Checksum>,
    /// Of the upload that is made.
    pub(in crate::write) algorithm: Option<ChecksumAlgorithm>,
}

impl Uses {
    pub(in crate::write) fn checksum(checksum: Option<Checksum>) -> Self {
        Self {
            checksum,
            algorithm: None,
        }
    }

    pub(in crate::write) fn algorithm(algorithm: Option<ChecksumAlgorithm>) -> Self {
        Self {
            checksum: None,
            algorithm,
        }
    }
}

impl ServerFeatures {
    /// Whether the server copies parts of objects; `None` if that is not known.
    pub(in crate::write) fn copies_parts(&self) -> Option<bool> {
        if self.copies_parts.load(Ordering::Relaxed) {
            return Some(true);
        }
        self.lacks_copies.load(Ordering::Relaxed).then_some(false)
    }

    /// Notes that the server has copied a part, or has refused. A server that has copied once is
    /// expected to copy.
    pub(in crate::write) fn learn_copies(&self, copies: bool) {
        let known = match copies {
            true => &self.copies_parts,
            false => &self.lacks_copies,
        };
        known.store(true, Ordering::Relaxed);
    }

    /// `uses` without the features that the server lacks.
    pub(in crate::write) fn reduce(&self, uses: Uses) -> Uses {
        match self.lacks_checksums.load(Ordering::Relaxed) {
            true => Uses::default(),
            false => uses,
        }
    }

    /// `used` without the feature that was refused; `None` if the refusal has another reason.
    pub(in crate::write) fn without(&self, uses: Uses, error: &ClientError) -> Option<Uses> {
        let is_refused = error.kind == ErrorKind::Unsupported && uses != Uses::default();
        is_refused.then(Uses::default)
    }

    /// Notes that a request succeeded with `used`, after a refusal with `wanted`.
    pub(in crate::write) fn learn(&self, wanted: Uses, used: Uses) {
        if wanted != used && !self.lacks_checksums.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the server takes no checksums of uploads: they are sent without (--upload-checksums off)"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_refuses_is_left_out() {
        let features = ServerFeatures::default();
        let refusal = ClientError::new(ErrorKind::Unsupported, "501");
        let wanted = Uses::checksum(Some(Checksum::Crc32c(1)));
        let second = features.without(wanted, &refusal).unwrap();
        assert_eq!(second, Uses::default());
        assert!(features.without(second, &refusal).is_none());
        // Nothing was learnt until a request succeeded.
        assert_eq!(features.reduce(wanted), wanted);
        features.learn(wanted, wanted);
        assert_eq!(features.reduce(wanted), wanted);
        features.learn(wanted, second);
        assert_eq!(features.reduce(wanted), second);
    }

    #[test]
    fn other_failures_take_nothing_away() {
        let features = ServerFeatures::default();
        for kind in [
            ErrorKind::InvalidRequest,
            ErrorKind::PreconditionFailed,
            ErrorKind::Denied,
            ErrorKind::Transient,
        ] {
            let wanted = Uses::checksum(Some(Checksum::Crc32c(1)));
            let error = ClientError::new(kind, "x");
            assert!(features.without(wanted, &error).is_none());
        }
    }
}
