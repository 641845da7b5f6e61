//! Features that the server was seen to lack, so that it is asked for them only once.
//!
//! No feature is guessed by a server's name: a request with the feature is sent, and repeated
//! without it only after an answer that the server does not implement it (501, 405,
//! `NotImplemented`).

use std::sync::atomic::{AtomicBool, Ordering};

use mountpoint_client::types::{Checksum, ChecksumAlgorithm, PutCondition};
use mountpoint_client::{ClientError, ErrorKind};

/// The features of uploads that a server may lack.
#[derive(Debug, Default)]
pub(in crate::write) struct ServerFeatures {
    lacks_conditions: AtomicBool,
    /// The server has refused to replace an object by one that came in one request.
    keeps_of_puts: AtomicBool,
    /// As `keeps_of_puts`, for objects that came in parts: some servers keep one condition only.
    keeps_of_uploads: AtomicBool,
    /// The trial whether the server keeps conditions has begun.
    is_tried: AtomicBool,
    lacks_checksums: AtomicBool,
    /// The server has copied a part of an object into an upload.
    copies_parts: AtomicBool,
    /// The server was seen to copy no parts.
    lacks_copies: AtomicBool,
}

/// How an object is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::write) enum Storing {
    Whole,
    InParts,
}

/// The features that one request uses.
#[derive(Clone, Debug)]
pub(in crate::write) struct Uses {
    pub(in crate::write) condition: PutCondition,
    pub(in crate::write) checksum: Option<Checksum>,
    /// Of the upload that is made.
    pub(in crate::write) algorithm: Option<ChecksumAlgorithm>,
}

impl Uses {
    pub(in crate::write) fn checksum(checksum: Option<Checksum>) -> Self {
        Self {
            checksum,
            ..Self::condition(PutCondition::None)
        }
    }

    pub(in crate::write) fn condition(condition: PutCondition) -> Self {
        Self {
            condition,
            checksum: None,
            algorithm: None,
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

    /// Notes that a request of `storing` with the features `used` was refused. The refusal may show
    /// that the server keeps conditions.
    pub(in crate::write) fn refused(&self, storing: Storing, used: &Uses, error: &ClientError) {
        if used.condition == PutCondition::Absent && error.kind == ErrorKind::PreconditionFailed {
            self.keeps(storing).store(true, Ordering::Relaxed);
        }
    }

    /// Whether the server is known to keep the condition of `storing` that no object exists.
    pub(in crate::write) fn keeps_conditions(&self, storing: Storing) -> bool {
        self.keeps(storing).load(Ordering::Relaxed)
    }

    fn keeps(&self, storing: Storing) -> &AtomicBool {
        match storing {
            Storing::Whole => &self.keeps_of_puts,
            Storing::InParts => &self.keeps_of_uploads,
        }
    }

    /// Begins the trial whether the server keeps conditions of whole objects. `false` if the answer
    /// is known, or another trial runs.
    pub(in crate::write) fn begin_probe(&self) -> bool {
        let is_lacking = self.lacks_conditions.load(Ordering::Relaxed);
        let is_known = self.keeps_conditions(Storing::Whole) || is_lacking;
        !is_known && !self.is_tried.swap(true, Ordering::Relaxed)
    }

    /// Ends a trial without an answer: a later one repeats it.
    pub(in crate::write) fn leave_unproven(&self) {
        self.is_tried.store(false, Ordering::Relaxed);
    }

    /// `uses` without the features that the server lacks.
    pub(in crate::write) fn reduce(&self, mut uses: Uses) -> Uses {
        if self.lacks_conditions.load(Ordering::Relaxed) {
            uses.condition = PutCondition::None;
        }
        if self.lacks_checksums.load(Ordering::Relaxed) {
            (uses.checksum, uses.algorithm) = (None, None);
        }
        uses
    }

    /// `used` without the feature that was refused; `None` if the refusal has another reason.
    pub(in crate::write) fn without(&self, uses: &Uses, error: &ClientError) -> Option<Uses> {
        if error.kind != ErrorKind::Unsupported {
            return None;
        }
        let mut reduced = uses.clone();
        if uses.checksum.is_some() || uses.algorithm.is_some() {
            (reduced.checksum, reduced.algorithm) = (None, None);
        } else if uses.condition != PutCondition::None {
            reduced.condition = PutCondition::None;
        } else {
            return None;
        }
        Some(reduced)
    }

    /// Notes that a request succeeded with `used`, after a refusal with `wanted`.
    pub(in crate::write) fn learn(&self, wanted: &Uses, used: &Uses) {
        let had_checksum = wanted.checksum.is_some() || wanted.algorithm.is_some();
        let has_checksum = used.checksum.is_some() || used.algorithm.is_some();
        if had_checksum && !has_checksum && !self.lacks_checksums.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the server takes no checksums of uploads: they are sent without (--upload-checksums off)"
            );
        }
        if wanted.condition != PutCondition::None
            && used.condition == PutCondition::None
            && !self.lacks_conditions.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                "the server takes no conditions on uploads: two hosts that create one file may overwrite each other"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(condition: PutCondition, checksum: bool) -> Uses {
        Uses {
            condition,
            checksum: checksum.then_some(Checksum::Crc32c(1)),
            algorithm: None,
        }
    }

    #[test]
    fn what_a_server_refuses_is_left_out_one_after_the_other() {
        let features = ServerFeatures::default();
        let refusal = ClientError::new(ErrorKind::Unsupported, "501");
        let wanted = uses(PutCondition::Absent, true);
        let second = features.without(&wanted, &refusal).unwrap();
        assert_eq!(
            (&second.condition, second.checksum),
            (&PutCondition::Absent, None)
        );
        let third = features.without(&second, &refusal).unwrap();
        assert_eq!(third.condition, PutCondition::None);
        assert!(features.without(&third, &refusal).is_none());
        // Nothing was learnt until a request succeeded.
        assert!(features.reduce(wanted.clone()).checksum.is_some());
        features.learn(&wanted, &second);
        let reduced = features.reduce(wanted.clone());
        assert_eq!(
            (reduced.condition, reduced.checksum),
            (PutCondition::Absent, None)
        );
        features.learn(&wanted, &third);
        assert_eq!(features.reduce(wanted).condition, PutCondition::None);
    }

    #[test]
    fn conditions_are_tried_once_unless_it_is_known() {
        let features = ServerFeatures::default();
        assert!(!features.keeps_conditions(Storing::Whole));
        assert!(features.begin_probe());
        assert!(!features.begin_probe());
        features.leave_unproven();
        assert!(features.begin_probe());
        let features = ServerFeatures::default();
        let refusal = ClientError::new(ErrorKind::PreconditionFailed, "412");
        features.refused(Storing::Whole, &uses(PutCondition::None, true), &refusal);
        let denial = ClientError::new(ErrorKind::Denied, "403");
        features.refused(Storing::Whole, &uses(PutCondition::Absent, true), &denial);
        assert!(!features.keeps_conditions(Storing::Whole));
        features.refused(Storing::Whole, &uses(PutCondition::Absent, true), &refusal);
        assert!(features.keeps_conditions(Storing::Whole));
        assert!(!features.keeps_conditions(Storing::InParts));
        features.refused(
            Storing::InParts,
            &uses(PutCondition::Absent, true),
            &refusal,
        );
        assert!(features.keeps_conditions(Storing::InParts));
        assert!(!features.begin_probe());
        let features = ServerFeatures::default();
        features.learn(
            &uses(PutCondition::Absent, false),
            &uses(PutCondition::None, false),
        );
        assert!(!features.begin_probe());
        assert!(!features.keeps_conditions(Storing::Whole));
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
            let error = ClientError::new(kind, "x");
            assert!(
                features
                    .without(&uses(PutCondition::Absent, true), &error)
                    .is_none()
            );
        }
    }
}
