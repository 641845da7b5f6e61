//! The requests on which the server takes no conditions, remembered for the mount.
//!
//! Nothing is guessed: a server lacks conditions if it refuses a request with one and accepts that
//! request without.

use std::sync::atomic::{AtomicBool, Ordering};

use mountpoint_client::types::PutCondition;
use mountpoint_client::{ClientError, ErrorKind};

/// A request that takes a condition. A server may take conditions on one and not on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conditional {
    /// A copy of a whole object.
    Copy,
    /// The completion of an upload.
    Complete,
    /// A PUT of few bytes.
    Put,
}

/// The requests on which the server has shown to take no conditions.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    lacking: [AtomicBool; 3],
}

impl Conditions {
    /// The condition `wanted`, or none where the server takes none.
    pub(super) fn reduce(&self, request: Conditional, wanted: &PutCondition) -> PutCondition {
        match self.lacking(request).load(Ordering::Relaxed) {
            true => PutCondition::None,
            false => wanted.clone(),
        }
    }

    /// Whether a request that failed with `error` on the condition `used` is repeated without one.
    pub(super) fn is_refused(used: &PutCondition, error: &ClientError) -> bool {
        *used != PutCondition::None && error.kind == ErrorKind::Unsupported
    }

    /// Remembers that the server refused the condition `wanted` and accepted the condition `used`.
    pub(super) fn learn(&self, request: Conditional, wanted: &PutCondition, used: &PutCondition) {
        if wanted != used {
            self.lacking(request).store(true, Ordering::Relaxed);
        }
    }

    /// Runs `change` on the condition `wanted`; without one where the server takes none.
    pub(super) async fn make<T, F: Future<Output = Result<T, ClientError>>>(
        &self,
        request: Conditional,
        wanted: &PutCondition,
        change: impl Fn(PutCondition) -> F,
    ) -> Result<T, ClientError> {
        let mut used = self.reduce(request, wanted);
        loop {
            match change(used.clone()).await {
                Ok(made) => {
                    self.learn(request, wanted, &used);
                    return Ok(made);
                }
                Err(error) if Self::is_refused(&used, &error) => used = PutCondition::None,
                Err(error) => return Err(error),
            }
        }
    }

    fn lacking(&self, request: Conditional) -> &AtomicBool {
        &self.lacking[request as usize]
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    /// A server that takes no conditions on copies, and the requests that it got.
    #[test]
    fn a_refusal_is_asked_for_once_and_believed_when_the_rest_is_done() {
        let conditions = Conditions::default();
        let asked = |request, is_done: bool| {
            let asked = std::cell::RefCell::new(Vec::new());
            let change = |condition: PutCondition| {
                let is_refused = condition != PutCondition::None || !is_done;
                asked.borrow_mut().push(condition);
                std::future::ready(match is_refused {
                    true => Err(ClientError::new(ErrorKind::Unsupported, "no")),
                    false => Ok(()),
                })
            };
            let made = conditions.make(request, &PutCondition::Absent, change);
            assert_eq!(made.now_or_never().unwrap().is_ok(), is_done);
            asked.into_inner()
        };
        let both = [PutCondition::Absent, PutCondition::None];
        assert_eq!(asked(Conditional::Copy, false), both);
        assert_eq!(asked(Conditional::Copy, true), both);
        assert_eq!(asked(Conditional::Copy, true), [PutCondition::None]);
        assert_eq!(asked(Conditional::Complete, true), both);
    }
}
