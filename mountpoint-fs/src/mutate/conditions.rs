//! The requests on which the server keeps conditions, remembered for the mount.
//!
//! Nothing is guessed, and nothing is concluded from another request or another condition. A server
//! refuses a condition if it refuses a request with it and accepts that request without. It seems
//! to ignore one if it accepts a request whose condition must fail: a change of an object on the
//! condition that it is a version that no object has, or that there is none. It has made the change
//! that was wanted then, or an equal object; or another host has just removed the object, so the
//! condition is sent all the same. A condition that was seen to be kept counts as kept from then
//! on. Before that, the bucket is looked at just before each request that needs it.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use mountpoint_client::types::{ETag, Key, ListRequest, PutCondition};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};

use super::deletion::absent_version;

/// A request that takes a condition. A server may keep conditions on one and not on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conditional {
    /// A copy of a whole object.
    Copy,
    /// The completion of an upload.
    Complete,
    /// A PUT of a whole object.
    Put,
}

/// The precaution for a condition that was not seen to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Nothing: the caller has looked at the bucket, or looks at it afterwards.
    None,
    /// The bucket is looked at.
    Look,
    /// As `Look`, and the request is sent once more, on a condition that must fail.
    Trial,
}

/// What the server was seen to do with one condition on one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Unknown,
    /// The server refused one that must fail, or the source had another version: the next success
    /// tells.
    Refused,
    Kept,
    /// The server seems to ignore such conditions: they are sent, and not relied on.
    Ignored,
    /// The server takes no request with such a condition.
    Refuses,
}

impl Standing {
    /// The standing of this number.
    fn of(number: u8) -> Self {
        let all = [Self::Refused, Self::Kept, Self::Ignored, Self::Refuses];
        let found = all.into_iter().find(|one| *one as u8 == number);
        found.unwrap_or(Self::Unknown)
    }

    /// Whether `self` gives way to `new`. Requests run in parallel, and another host may have
    /// removed the object of a trial: a trial that passes says less than a condition that was kept.
    fn gives_way_to(self, new: Self) -> bool {
        match new {
            Self::Kept | Self::Refuses => true,
            Self::Refused => self == Self::Unknown,
            Self::Ignored => self != Self::Kept,
            Self::Unknown => false,
        }
    }
}

/// The standing of each request, by its condition: that an object has a version, or that there is
/// none.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    standings: [[AtomicU8; 2]; 3],
    /// Whether a trial of [`Self::make`] runs.
    is_trying: AtomicBool,
}

/// The one trial at a time, until it is dropped.
struct TrialTurn<'a>(&'a AtomicBool);

impl Drop for TrialTurn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Conditions {
    /// Whether the server seems to keep no conditions such as `wanted`.
    pub(super) fn lacks(&self, request: Conditional, wanted: &PutCondition) -> bool {
        let standing = self.standing(request, wanted);
        matches!(standing, Standing::Ignored | Standing::Refuses)
    }

    /// Whether no trial is needed any more.
    fn is_known(&self, request: Conditional, wanted: &PutCondition) -> bool {
        self.keeps(request, wanted) || self.lacks(request, wanted)
    }

    fn refuses(&self, request: Conditional, wanted: &PutCondition) -> bool {
        self.standing(request, wanted) == Standing::Refuses
    }

    /// Whether the server was seen to keep conditions such as `wanted`.
    pub(crate) fn keeps(&self, request: Conditional, wanted: &PutCondition) -> bool {
        self.standing(request, wanted) == Standing::Kept
    }

    /// Runs `change` of `key` on the condition `wanted`. A condition that was not seen to be kept
    /// is proven first, as `proof` says.
    pub(crate) async fn make<T, F: Future<Output = Result<T, ClientError>>>(
        &self,
        client: &dyn ObjectClient,
        (request, key): (Conditional, &Key),
        (wanted, proof): (&PutCondition, Proof),
        change: impl Fn(PutCondition) -> F,
    ) -> Result<T, ClientError> {
        if proof != Proof::None && !self.keeps(request, wanted) {
            look(client, key, wanted).await?;
        }
        let turn = match proof {
            Proof::Trial => self.turn(request, wanted),
            Proof::None | Proof::Look => None,
        };
        if turn.is_some()
            && matches!(wanted, PutCondition::Match(_))
            && let Some(made) = self.prove(request, wanted, &change).await?
        {
            return Ok(made);
        }
        let made = self
            .make_on(client, (request, key), wanted, &change)
            .await?;
        // That there is no object can only fail where there is one.
        if turn.is_some() && *wanted == PutCondition::Absent {
            match self.prove(request, wanted, &change).await {
                Ok(Some(again)) => return Ok(again),
                // Its source has the version: that was seen just now.
                Ok(None) => self.believe_refusal(request, wanted),
                Err(_) => {}
            }
        }
        Ok(made)
    }

    /// The turn to try a condition of which nothing is known; `None` if another trial runs, and
    /// where none is needed. Files that are stored side by side are not all sent twice.
    fn turn(&self, request: Conditional, wanted: &PutCondition) -> Option<TrialTurn<'_>> {
        if self.is_known(request, wanted) {
            return None;
        }
        let is_free = !self.is_trying.swap(true, Ordering::AcqRel);
        is_free.then(|| TrialTurn(&self.is_trying))
    }

    /// Runs `change` on the condition `wanted`; without one where the server takes none.
    async fn make_on<T, F: Future<Output = Result<T, ClientError>>>(
        &self,
        client: &dyn ObjectClient,
        (request, key): (Conditional, &Key),
        wanted: &PutCondition,
        change: impl Fn(PutCondition) -> F,
    ) -> Result<T, ClientError> {
        let mut used = match self.refuses(request, wanted) {
            true => PutCondition::None,
            false => wanted.clone(),
        };
        loop {
            match change(used.clone()).await {
                Ok(made) => {
                    self.learn(request, wanted, &used);
                    return Ok(made);
                }
                Err(error)
                    if used != PutCondition::None && error.kind == ErrorKind::Unsupported =>
                {
                    look(client, key, wanted).await?;
                    used = PutCondition::None;
                }
                Err(error) => {
                    // Of a copy, it may be the source that has another version.
                    if used != PutCondition::None
                        && request != Conditional::Copy
                        && error.kind == ErrorKind::PreconditionFailed
                    {
                        self.set(request, wanted, Standing::Kept);
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Runs `change` of an object on a condition such as `wanted` that must fail, unless it is
    /// known what the server does. Returns what was made, by a server that ignores conditions.
    pub(super) async fn prove<T, F: Future<Output = Result<T, ClientError>>>(
        &self,
        request: Conditional,
        wanted: &PutCondition,
        change: impl Fn(PutCondition) -> F,
    ) -> Result<Option<T>, ClientError> {
        let fails = match wanted {
            PutCondition::None => return Ok(None),
            PutCondition::Match(_) => PutCondition::Match(absent_version()),
            PutCondition::Absent => PutCondition::Absent,
        };
        if self.is_known(request, wanted) {
            return Ok(None);
        }
        match change(fails).await {
            Ok(made) => {
                tracing::warn!(
                    ?request,
                    ?wanted,
                    "the server ignores this condition: requests that keep theirs are used where there are such, and \
                     the bucket is looked at before the others; two hosts that change one file may overwrite each other"
                );
                self.set(request, wanted, Standing::Ignored);
                Ok(Some(made))
            }
            Err(error) => {
                let standing = match (error.kind.clone(), wanted) {
                    (ErrorKind::PreconditionFailed, _) if request != Conditional::Copy => {
                        Standing::Kept
                    }
                    (ErrorKind::PreconditionFailed, _)
                    | (ErrorKind::NotFound, PutCondition::Match(_)) => Standing::Refused,
                    // Another way is taken for the copy itself.
                    (ErrorKind::Unsupported, _) if request == Conditional::Copy => {
                        Standing::Refuses
                    }
                    // It may be the source of a copy that is not there, the made-up version that is
                    // no ETag to the server, or the condition that it does not take, of which the
                    // request itself tells.
                    (
                        ErrorKind::NotFound
                        | ErrorKind::Unsupported
                        | ErrorKind::InvalidRequest
                        | ErrorKind::Conflict,
                        _,
                    ) => Standing::Unknown,
                    _ => return Err(error),
                };
                self.set(request, wanted, standing);
                Ok(None)
            }
        }
    }

    /// Remembers that the server was asked for the condition `wanted` and accepted the condition
    /// `used`.
    fn learn(&self, request: Conditional, wanted: &PutCondition, used: &PutCondition) {
        if wanted != used {
            if !self.refuses(request, wanted) {
                tracing::warn!(
                    ?request,
                    ?wanted,
                    "the server takes no such condition: two hosts that change one file may overwrite each other"
                );
            }
            self.set(request, wanted, Standing::Refuses);
        } else if self.standing(request, wanted) == Standing::Refused {
            self.set(request, wanted, Standing::Kept);
        }
    }

    /// Takes conditions such as `wanted` for kept if their trial was refused, and could be for no
    /// other reason.
    pub(super) fn believe_refusal(&self, request: Conditional, wanted: &PutCondition) {
        self.learn(request, wanted, wanted);
    }

    /// Takes all conditions for kept, or for unknown. That new files are not replaced stays
    /// unknown.
    #[cfg(test)]
    pub(super) fn believe(&self, are_kept: bool) {
        let known = match are_kept {
            true => Standing::Kept,
            false => Standing::Unknown,
        };
        for (request, standings) in self.standings.iter().enumerate() {
            standings[0].store(known as u8, Ordering::Relaxed);
            if request == Conditional::Copy as usize {
                standings[1].store(known as u8, Ordering::Relaxed);
            }
        }
    }

    fn standing(&self, request: Conditional, wanted: &PutCondition) -> Standing {
        match self.place(request, wanted) {
            Some(place) => Standing::of(place.load(Ordering::Relaxed)),
            // There is nothing to be kept.
            None => Standing::Kept,
        }
    }

    fn set(&self, request: Conditional, wanted: &PutCondition, standing: Standing) {
        if let Some(place) = self.place(request, wanted) {
            let update = |known| {
                let gives_way = Standing::of(known).gives_way_to(standing);
                gives_way.then_some(standing as u8)
            };
            place
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update)
                .ok();
        }
    }

    fn place(&self, request: Conditional, wanted: &PutCondition) -> Option<&AtomicU8> {
        let [versions, absences] = &self.standings[request as usize];
        match wanted {
            PutCondition::None => None,
            PutCondition::Match(_) => Some(versions),
            PutCondition::Absent => Some(absences),
        }
    }
}

/// Looks at the bucket in the place of a condition: the error is that of a condition that fails.
pub(crate) async fn look(
    client: &dyn ObjectClient,
    key: &Key,
    wanted: &PutCondition,
) -> Result<(), ClientError> {
    if *wanted == PutCondition::None {
        return Ok(());
    }
    let there = match client.head(key).await {
        Ok(there) => Some(there.etag),
        Err(error) if error.kind == ErrorKind::NotFound => None,
        // A user without the permission to read may list; an object without an ETag is listed; and
        // the body of a listing's refusal tells of expired credentials.
        Err(error)
            if matches!(
                error.kind,
                ErrorKind::Denied | ErrorKind::InvalidRequest | ErrorKind::InvalidResponse
            ) && client.lists_in_order() =>
        {
            listed(client, key).await?
        }
        Err(error) => return Err(error),
    };
    let (kind, what) = match (wanted, there) {
        (PutCondition::Match(etag), Some(there)) if there.matches(etag) => return Ok(()),
        (PutCondition::Absent | PutCondition::None, None) => return Ok(()),
        (PutCondition::Match(_), None) => (ErrorKind::NotFound, "it was deleted"),
        (PutCondition::Match(_), Some(_)) => {
            (ErrorKind::PreconditionFailed, "it has another version")
        }
        (PutCondition::Absent | PutCondition::None, Some(_)) => {
            (ErrorKind::PreconditionFailed, "it exists")
        }
    };
    Err(ClientError::new(kind, format!("{key}: {what}")))
}

/// The ETag of the object `key` in a listing, if it is there.
async fn listed(client: &dyn ObjectClient, key: &Key) -> Result<Option<ETag>, ClientError> {
    let listed = client.list(ListRequest {
        prefix: key.to_string(),
        max_keys: Some(1),
        ..ListRequest::default()
    });
    let is_there = |found: &Key| {
        let shown = found.as_str();
        shown.strip_suffix(Key::NO_ETAG).unwrap_or(shown) == key.as_str()
    };
    let mut objects = listed.await?.objects.into_iter();
    let found = objects.find(|object| is_there(&object.key));
    Ok(found.map(|object| object.etag))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use futures::FutureExt as _;
    use mountpoint_client::SimClient;
    use mountpoint_client::testing::sim::SimOptions;

    use super::*;

    fn key() -> Key {
        Key::parse("key").unwrap()
    }

    fn bucket(has_object: bool) -> (SimClient, PutCondition) {
        let client = SimClient::new(SimOptions::default());
        if !has_object {
            return (client, PutCondition::Absent);
        }
        let version = PutCondition::Match(client.put_object("key", "bytes").etag);
        (client, version)
    }

    /// A server that takes no conditions on copies, and the requests that it got.
    #[test]
    fn a_refusal_is_asked_for_once_and_believed_when_the_rest_is_done() {
        let conditions = Conditions::default();
        let (client, key) = (bucket(false).0, key());
        let asked = |request, is_done: bool| {
            let asked = RefCell::new(Vec::new());
            let change = |condition: PutCondition| {
                let is_refused = condition != PutCondition::None || !is_done;
                asked.borrow_mut().push(condition);
                std::future::ready(match is_refused {
                    true => Err(ClientError::new(ErrorKind::Unsupported, "no")),
                    false => Ok(()),
                })
            };
            let wanted = (&PutCondition::Absent, Proof::Look);
            let made = conditions.make(&client, (request, &key), wanted, change);
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
            let version = PutCondition::Match(ETag::from_header("\"version\""));
            let prove = || {
                let proven = conditions.prove(Conditional::Copy, &version, change);
                proven.now_or_never().unwrap().unwrap()
            };
            assert_eq!(prove().is_some(), answer.is_ok());
            assert_eq!(conditions.lacks(Conditional::Copy, &version), is_lacking);
            // The refusal may have been that of the source's version: it counts with a success.
            prove();
            assert_eq!(asked.get(), 1 + u32::from(!is_lacking));
            conditions.believe_refusal(Conditional::Copy, &version);
            prove();
            assert_eq!(asked.get(), 1 + u32::from(!is_lacking));
            assert!(!conditions.lacks(Conditional::Complete, &version));
            assert!(!conditions.lacks(Conditional::Copy, &PutCondition::Absent));
        }
    }

    /// A trial that another host's removal lets pass, a trial behind it, and an answer that does
    /// not tell of the condition.
    #[test]
    fn a_condition_that_seems_to_be_ignored_is_sent_until_it_is_seen_to_be_kept() {
        let conditions = Conditions::default();
        let (client, key) = (bucket(false).0, key());
        let (on, absent) = ((Conditional::Put, &key), PutCondition::Absent);
        let change = |condition| {
            assert_eq!(condition, PutCondition::Absent);
            std::future::ready(Ok(()))
        };
        for proof in [Proof::Trial, Proof::None] {
            let made = conditions.make(&client, on, (&absent, proof), change);
            made.now_or_never().unwrap().unwrap();
            assert!(conditions.lacks(Conditional::Put, &absent));
        }
        for (kind, keeps) in [
            (ErrorKind::Transient, false),
            (ErrorKind::PreconditionFailed, true),
        ] {
            let refuses =
                |_| std::future::ready(Err::<(), _>(ClientError::new(kind.clone(), "no")));
            let made = conditions.make(&client, on, (&absent, Proof::None), refuses);
            made.now_or_never().unwrap().unwrap_err();
            assert_eq!(conditions.keeps(Conditional::Put, &absent), keeps);
        }
        conditions.set(Conditional::Put, &absent, Standing::Ignored);
        conditions.set(Conditional::Put, &absent, Standing::Refused);
        assert!(conditions.keeps(Conditional::Put, &absent));
    }

    /// The request itself, with its own condition, tells what the server takes.
    #[test]
    fn a_trial_whose_failure_tells_nothing_fails_nothing() {
        for kind in [
            ErrorKind::Unsupported,
            ErrorKind::InvalidRequest,
            ErrorKind::Conflict,
        ] {
            let conditions = Conditions::default();
            let (client, version) = bucket(true);
            let (key, on) = (key(), Conditional::Put);
            let change = |condition: PutCondition| {
                std::future::ready(match condition == version {
                    true => Ok(()),
                    false => Err(ClientError::new(kind.clone(), "no")),
                })
            };
            let made = conditions.make(&client, (on, &key), (&version, Proof::Trial), change);
            made.now_or_never().unwrap().unwrap();
            assert!(!conditions.is_known(on, &version), "{kind:?}");
        }
    }

    /// What is known of one request and one condition says nothing of another one.
    #[test]
    fn until_a_condition_was_seen_to_be_kept_the_bucket_is_looked_at() {
        let requests = [Conditional::Copy, Conditional::Complete, Conditional::Put];
        for request in requests {
            for has_object in [true, false] {
                let conditions = Conditions::default();
                conditions.believe(true);
                let (client, wanted) = bucket(has_object);
                let place = conditions.place(request, &wanted).unwrap();
                place.store(Standing::Unknown as u8, Ordering::Relaxed);
                // Another host changes what was seen, and the server ignores conditions.
                client.put_object("key", "theirs");
                let never = |_| -> std::future::Ready<Result<(), ClientError>> {
                    panic!("another host's bytes are replaced")
                };
                let key = key();
                let made = conditions.make(&client, (request, &key), (&wanted, Proof::Look), never);
                let refused = made.now_or_never().unwrap().unwrap_err();
                assert_eq!(refused.kind, ErrorKind::PreconditionFailed);
                assert!(!conditions.keeps(request, &wanted));
            }
        }
    }

    #[test]
    fn one_more_request_shows_whether_a_condition_is_kept() {
        for request in [Conditional::Complete, Conditional::Put] {
            for has_object in [true, false] {
                for ignores in [true, false] {
                    let conditions = Conditions::default();
                    let (client, wanted) = bucket(has_object);
                    let fails = match &wanted {
                        PutCondition::Absent => PutCondition::Absent,
                        _ => PutCondition::Match(absent_version()),
                    };
                    let made = RefCell::new(0);
                    let change = |condition: PutCondition| {
                        let mut made = made.borrow_mut();
                        let is_failed = condition == fails && (has_object || *made > 0);
                        if is_failed && !ignores {
                            let no = ClientError::new(ErrorKind::PreconditionFailed, "no");
                            return std::future::ready(Err(no));
                        }
                        *made += 1;
                        std::future::ready(Ok(*made))
                    };
                    let key = key();
                    let on = (request, &key);
                    let made = conditions.make(&client, on, (&wanted, Proof::Trial), change);
                    let last = made.now_or_never().unwrap().unwrap();
                    assert_eq!(last, 1 + i32::from(ignores && !has_object));
                    assert_eq!(conditions.keeps(request, &wanted), !ignores);
                    assert_eq!(conditions.lacks(request, &wanted), ignores);
                }
            }
        }
    }
}
