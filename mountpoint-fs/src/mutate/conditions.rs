//! The requests on which the server keeps conditions, remembered for the mount.
//!
//! Nothing is guessed. A server lacks conditions if it refuses a request with one and accepts that
//! request without, or if it accepts one that must fail: before the first copy on a condition, the
//! object is copied onto itself on the condition that it is a version that no object has. A server
//! that ignores it has made an equal object of the same version, or the change that was wanted.

use std::sync::atomic::{AtomicU8, Ordering};

use mountpoint_client::types::PutCondition;
use mountpoint_client::{ClientError, ErrorKind};

use super::deletion::absent_version;

/// A request that takes a condition. A server may keep conditions on one and not on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conditional {
    /// A copy of a whole object.
    Copy,
    /// The completion of an upload.
    Complete,
    /// A PUT of few bytes.
    Put,
}

/// What the server was seen to do with conditions on one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Unknown,
    /// It refused one that must fail, or the source had another version: the next success tells.
    Refused,
    Kept,
    /// It refuses or ignores them.
    Lacking,
}

/// The standing of each request.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    standings: [AtomicU8; 3],
}

impl Conditions {
    /// The condition `wanted`, or none where the server keeps none.
    pub(super) fn reduce(&self, request: Conditional, wanted: &PutCondition) -> PutCondition {
        match self.lacks(request) {
            true => PutCondition::None,
            false => wanted.clone(),
        }
    }

    /// Whether the server was seen to keep no conditions.
    pub(super) fn lacks(&self, request: Conditional) -> bool {
        self.standing(request) == Standing::Lacking
    }

    /// Whether the server was seen to keep conditions.
    pub(super) fn keeps(&self, request: Conditional) -> bool {
        self.standing(request) == Standing::Kept
    }

    /// Whether a request that failed with `error` on the condition `used` is repeated without one.
    pub(super) fn is_refused(used: &PutCondition, error: &ClientError) -> bool {
        *used != PutCondition::None && error.kind == ErrorKind::Unsupported
    }

    /// Remembers that the server was asked for the condition `wanted` and accepted the condition
    /// `used`.
    pub(super) fn learn(&self, request: Conditional, wanted: &PutCondition, used: &PutCondition) {
        if wanted != used {
            self.set(request, Standing::Lacking);
        } else if self.standing(request) == Standing::Refused && *used != PutCondition::None {
            self.set(request, Standing::Kept);
        }
    }

    /// Runs `change` on a condition that must fail, unless it is known what the server does.
    /// Returns what was made, by a server that ignores conditions.
    pub(super) async fn prove<T, F: Future<Output = Result<T, ClientError>>>(
        &self,
        request: Conditional,
        change: impl Fn(PutCondition) -> F,
    ) -> Result<Option<T>, ClientError> {
        if matches!(self.standing(request), Standing::Kept | Standing::Lacking) {
            return Ok(None);
        }
        match change(PutCondition::Match(absent_version())).await {
            Ok(made) => {
                tracing::warn!(
                    ?request,
                    "the server ignores conditions: other requests are used where they keep theirs"
                );
                self.set(request, Standing::Lacking);
                Ok(Some(made))
            }
            Err(error) => match error.kind {
                ErrorKind::PreconditionFailed | ErrorKind::NotFound => {
                    self.set(request, Standing::Refused);
                    Ok(None)
                }
                ErrorKind::Unsupported => {
                    self.set(request, Standing::Lacking);
                    Ok(None)
                }
                _ => Err(error),
            },
        }
    }

    /// Takes conditions for kept whose trials were refused, and could be for no other reason.
    pub(super) fn believe_refusals(&self) {
        for request in [Conditional::Copy, Conditional::Put] {
            let absent = PutCondition::Absent;
            self.learn(request, &absent, &absent);
        }
    }

    /// Takes all conditions for kept, or for unknown.
    #[cfg(test)]
    pub(super) fn believe(&self, are_kept: bool) {
        let known = match are_kept {
            true => Standing::Kept,
            false => Standing::Unknown,
        };
        for standing in &self.standings {
            standing.store(known as u8, Ordering::Relaxed);
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

    fn standing(&self, request: Conditional) -> Standing {
        let known = self.standings[request as usize].load(Ordering::Relaxed);
        let all = [Standing::Refused, Standing::Kept, Standing::Lacking];
        let found = all.into_iter().find(|one| *one as u8 == known);
        found.unwrap_or(Standing::Unknown)
    }

    fn set(&self, request: Conditional, standing: Standing) {
        self.standings[request as usize].store(standing as u8, Ordering::Relaxed);
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

    /// A server that ignores conditions, one that refuses them, and one that keeps them.
    #[test]
    fn a_condition_is_believed_after_it_was_seen_to_be_kept() {
        let refused = |kind| Err(ClientError::new(kind, "no"));
        for (answer, is_lacking) in [
            (Ok(()), true),
            (refused(ErrorKind::Unsupported), true),
            (refused(ErrorKind::PreconditionFailed), false),
            (refused(ErrorKind::NotFound), false),
        ] {
            let conditions = Conditions::default();
            let asked = std::cell::Cell::new(0);
            let change = |condition| {
                assert_eq!(condition, PutCondition::Match(absent_version()));
                asked.set(asked.get() + 1);
                std::future::ready(answer.clone())
            };
            let prove = || {
                let proven = conditions.prove(Conditional::Copy, change);
                proven.now_or_never().unwrap().unwrap()
            };
            assert_eq!(prove().is_some(), answer.is_ok());
            assert_eq!(conditions.lacks(Conditional::Copy), is_lacking);
            // The refusal may have been that of the source's version: it counts with a success.
            prove();
            assert_eq!(asked.get(), 1 + u32::from(!is_lacking));
            let absent = PutCondition::Absent;
            conditions.learn(Conditional::Copy, &absent, &absent);
            prove();
            assert_eq!(asked.get(), 1 + u32::from(!is_lacking));
            assert!(!conditions.lacks(Conditional::Complete));
        }
    }
}
