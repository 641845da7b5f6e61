//! Rules by which the server misbehaves.
//!
//! A rule names the requests that it is for, how often it fires, and its fault. Decides only: the
//! service and the bodies act. Rules can be added and removed while requests are in flight; a
//! request is judged once, when it arrives.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;

use super::body::BodyFault;
use super::head::Head;
use crate::testing::server::clock;
use crate::testing::server::operation::Operation;

/// A fault of the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The answer's first byte comes later, by `fixed` and up to `jitter` more.
    Latency {
        /// Always.
        fixed: Duration,
        /// At most this much more, evenly distributed.
        jitter: Duration,
    },
    /// The answer's body comes no faster than this, in bytes per second.
    Bandwidth(u64),
    /// The request is not done; it is answered with this status and S3 error code.
    Error {
        /// HTTP status, 400 to 599.
        status: u16,
        /// S3's error code, as `InternalError`.
        code: &'static str,
    },
    /// The request is done, and then answered with this status and S3 error code.
    ErrorAfterwards {
        /// HTTP status, 400 to 599.
        status: u16,
        /// S3's error code, as `InternalError`.
        code: &'static str,
    },
    /// The request is done, and then answered with 200 and this S3 error code in the body.
    ErrorInBodyAfterwards(&'static str),
    /// The request is done, and then answered with this status and a page of HTML, as a gateway
    /// does that lost the server.
    PageAfterwards(u16),
    /// The request is not done, and answered with this status, 200 among them, and a page of HTML,
    /// as a gateway does whose server is away.
    Page(u16),
    /// The request is not done, and answered with this status and a body that has no end.
    EndlessError(u16),
    /// The request is done twice, and the second answer is passed on, as by a proxy that sends an
    /// unanswered request again.
    Twice,
    /// The request is not done, uploads of its key are dropped, and it is answered with 409
    /// ConditionalRequestConflict.
    ConflictEndsUpload,
    /// The request is not done; it is answered with 503 SlowDown.
    SlowDown,
    /// Requests above this many in a second are answered with 503 SlowDown.
    SlowDownAbove(u32),
    /// The connection is closed after this many bytes of the body.
    CutBody(u64),
    /// Nothing is sent after this many bytes of the body, and the connection stays open.
    Stall(u64),
    /// Nothing is sent after the first half of the body, and the connection stays open.
    StallAtHalf,
    /// Nothing is sent after the beginning of the answer's head, and the connection stays open.
    StallInHead,
    /// `Content-Length` states this many bytes more, or less, than the body has.
    WrongLength(i64),
    /// The `ETag` header names another version.
    WrongETag,
    /// There is no `ETag` header.
    NoETag,
    /// There is no `Content-Range` header.
    NoContentRange,
    /// Answers to ranges have no checksum, as MinIO's.
    NoChecksumOfRanges,
    /// The checksums in the answer's head are of other bytes.
    WrongChecksum,
    /// The request is not done; it is answered with 200 and this S3 error code in the body.
    ErrorInBody(&'static str),
    /// A ranged GET is answered with 200 and the whole object.
    IgnoreRange,
    /// A request with this header is not done, and answered with 501 NotImplemented.
    UnknownHeader(&'static str),
    /// `If-Match`, `If-None-Match`, dates and ETags in lists of deletions are not looked at;
    /// conditions of a copy's source are.
    IgnoreConditions,
    /// The encryption that is asked for is not applied, and no answer names it.
    IgnoreEncryption,
    /// An answer's element is called otherwise, or left out where the new name is empty:
    /// `("CopyPartResult", "CopyObjectResult")`.
    RenameElement(&'static str, &'static str),
    /// An answer's element has another text.
    ElementText(&'static str, &'static str),
    /// A `PUT` or `POST` without `Content-Length` is not done, and answered with 411.
    RequireLength,
    /// A PUT that is to append puts its bytes in the place of the object.
    IgnoreWriteOffset,
    /// One bit of the byte at this offset of the body is flipped.
    CorruptByte(u64),
    /// A connection is closed as soon as it is accepted. Has no operation and no key.
    RefuseConnection,
    /// The request is not done; the connection is closed instead of an answer.
    DropConnection,
    /// The request is done, and the connection is closed instead of an answer.
    DropConnectionAfterwards,
    /// The request is never answered.
    BlackHole,
    /// The request waits until the rule is removed.
    Hold,
    /// So many pages of a listing have no entries, and a token, in front of each page that has
    /// some.
    EmptyPages(u32),
    /// Every page of a listing is its first one, with a token that was not given before.
    RepeatPages,
    /// An unknown sub-resource is ignored and the plain operation is done: `PUT key?renameObject`
    /// puts an empty object, as some servers do.
    IgnoreSubresources,
}

/// Which requests a fault befalls, and how often. `..Rule::always(fault)` fills in the fields that
/// a test leaves open.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The fault.
    pub fault: Fault,
    /// Only this operation; `None` for all.
    pub operation: Option<Operation>,
    /// Only keys that begin with this; empty for all, and for requests without a key.
    pub key_prefix: String,
    /// Matching requests that are spared first.
    pub skip: u64,
    /// How often it fires at most; `None` for ever.
    pub count: Option<u64>,
    /// How likely a matching request is hit, 0 to 1, by a generator that begins with `seed`.
    pub probability: f64,
    /// Seed for probability and jitter.
    pub seed: u64,
}

impl Rule {
    /// A rule that hits every request.
    #[must_use]
    pub fn always(fault: Fault) -> Self {
        Self {
            fault,
            operation: None,
            key_prefix: String::new(),
            skip: 0,
            count: None,
            probability: 1.0,
            seed: 0,
        }
    }

    /// A rule that hits every request for one operation.
    #[must_use]
    pub fn on(operation: Operation, fault: Fault) -> Self {
        Self {
            operation: Some(operation),
            ..Self::always(fault)
        }
    }

    /// Limits the rule to `count` requests.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self {
            count: Some(count),
            ..self
        }
    }

    fn matches(&self, head: &Head) -> bool {
        let operation = self
            .operation
            .is_none_or(|operation| operation == head.operation);
        operation && head.key.starts_with(&self.key_prefix)
    }
}

/// Names a rule that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(u64);

/// The rules in force.
#[derive(Debug, Default)]
pub struct Faults {
    /// How many there are, so that without rules no request takes the lock.
    len: AtomicUsize,
    state: Mutex<ActiveRules>,
}

#[derive(Debug, Default)]
struct ActiveRules {
    rules: BTreeMap<RuleId, Active>,
    added: u64,
}

#[derive(Debug)]
struct Active {
    rule: Rule,
    random: StdRng,
    matched: u64,
    fired: u64,
    /// State of [`Fault::SlowDownAbove`]: when the current second began, and its requests.
    second: (Option<Instant>, u32),
    /// State of [`Fault::Hold`]: requests wait for its end.
    hold: watch::Sender<()>,
}

impl Faults {
    /// Most rules at once.
    pub const RULES_MAX: usize = 1024;

    /// Puts a rule in force. Where rules contradict each other, the one added last wins.
    ///
    /// # Panics
    /// If there are [`Faults::RULES_MAX`] rules: the test forgot to remove them.
    pub fn add(&self, rule: Rule) -> RuleId {
        let mut state = self.state.lock();
        assert!(state.rules.len() < Self::RULES_MAX, "too many fault rules");
        let id = RuleId(state.added);
        state.added += 1;
        let random = StdRng::seed_from_u64(rule.seed);
        state.rules.insert(
            id,
            Active {
                rule,
                random,
                matched: 0,
                fired: 0,
                second: (None, 0),
                hold: watch::Sender::new(()),
            },
        );
        self.len.store(state.rules.len(), Ordering::Release);
        id
    }

    /// Ends a rule. Returns how often it fired, or `None` if it was removed before.
    pub fn remove(&self, id: RuleId) -> Option<u64> {
        let mut state = self.state.lock();
        let fired = state.rules.remove(&id).map(|active| active.fired);
        self.len.store(state.rules.len(), Ordering::Release);
        fired
    }

    /// Ends every rule.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        state.rules.clear();
        self.len.store(0, Ordering::Release);
    }

    /// How often a rule in force has fired.
    #[must_use]
    pub fn fired(&self, id: RuleId) -> Option<u64> {
        self.state.lock().rules.get(&id).map(|active| active.fired)
    }

    /// The faults that befall this request.
    pub(crate) fn plan(&self, head: &Head) -> Option<Box<RequestFaults>> {
        if self.len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut plan = Box::<RequestFaults>::default();
        for active in self.state.lock().rules.values_mut() {
            let refuses = active.rule.fault == Fault::RefuseConnection;
            if !refuses && active.rule.matches(head) && active.fires() {
                plan.include(&active.rule.fault, &mut active.random);
                if active.rule.fault == Fault::Hold {
                    plan.holds.push(active.hold.subscribe());
                }
            }
        }
        Some(plan)
    }

    /// Whether the connection that was just accepted is to be closed.
    pub(crate) fn refuses_connection(&self) -> bool {
        if self.len.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut state = self.state.lock();
        let mut refusals = state
            .rules
            .values_mut()
            .filter(|active| active.rule.fault == Fault::RefuseConnection);
        refusals.any(Active::fires)
    }
}

impl Active {
    /// Whether a request that matches is hit.
    fn fires(&mut self) -> bool {
        self.matched += 1;
        let hit = self.matched > self.rule.skip
            && self.rule.count.is_none_or(|count| self.fired < count)
            && (self.rule.probability >= 1.0
                || self.random.random_bool(self.rule.probability.max(0.0)))
            && self.is_above_rate();
        self.fired += u64::from(hit);
        hit
    }

    fn is_above_rate(&mut self) -> bool {
        let Fault::SlowDownAbove(rate) = self.rule.fault else {
            return true;
        };
        let now = clock::instant();
        match &mut self.second {
            (Some(began), requests) if now - *began < Duration::from_secs(1) => *requests += 1,
            second => *second = (Some(now), 1),
        }
        self.second.1 > rate
    }
}

/// The faults of one request.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches, one for each fault"
)]
pub(crate) struct RequestFaults {
    pub(crate) delay: Duration,
    pub(crate) error: Option<(u16, &'static str)>,
    pub(crate) unknown_headers: Vec<&'static str>,
    pub(crate) error_afterwards: Option<(u16, &'static str)>,
    pub(crate) page_afterwards: Option<u16>,
    pub(crate) page: Option<u16>,
    pub(crate) endless_error: Option<u16>,
    pub(crate) twice: bool,
    pub(crate) ends_upload: bool,
    pub(crate) error_in_body: Option<&'static str>,
    pub(crate) drop_connection: bool,
    pub(crate) drop_afterwards: bool,
    pub(crate) black_hole: bool,
    /// Each ends with its rule.
    pub(crate) holds: Vec<watch::Receiver<()>>,
    pub(crate) quirks: Quirks,
    pub(crate) head: HeadFault,
    pub(crate) body: BodyFault,
}

/// Faults of the operation itself. They travel with the request, as an extension.
#[derive(Clone, Copy, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches, one for each fault"
)]
pub(crate) struct Quirks {
    pub(crate) ignore_range: bool,
    pub(crate) ignore_conditions: bool,
    pub(crate) ignore_subresources: bool,
    pub(crate) ignore_write_offset: bool,
    pub(crate) empty_pages: u32,
    pub(crate) repeat_pages: bool,
    pub(crate) ignore_encryption: bool,
    pub(crate) requires_length: bool,
    /// Not a fault: the answer of [`Head::unknown_subresource`].
    pub(crate) unknown_subresource: bool,
}

/// The faults of an answer's head.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches, one for each fault"
)]
pub(crate) struct HeadFault {
    pub(crate) length_error: i64,
    pub(crate) wrong_etag: bool,
    pub(crate) no_etag: bool,
    pub(crate) element: Option<(&'static str, &'static str)>,
    pub(crate) element_text: Option<(&'static str, &'static str)>,
    pub(crate) no_content_range: bool,
    pub(crate) no_checksum_of_ranges: bool,
    pub(crate) wrong_checksum: bool,
    pub(crate) stalls: bool,
}

impl RequestFaults {
    fn include(&mut self, fault: &Fault, random: &mut StdRng) {
        match fault {
            Fault::Latency { fixed, jitter } => {
                self.delay += *fixed + jitter.mul_f64(random.random::<f64>());
            }
            Fault::Bandwidth(rate) => self.body.bytes_per_second = Some(*rate),
            Fault::Error { status, code } => self.error = Some((*status, code)),
            Fault::ErrorAfterwards { status, code } => {
                self.error_afterwards = Some((*status, code));
            }
            Fault::ErrorInBodyAfterwards(code) => self.error_afterwards = Some((200, code)),
            Fault::PageAfterwards(status) => self.page_afterwards = Some(*status),
            Fault::Page(status) => self.page = Some(*status),
            Fault::EndlessError(status) => self.endless_error = Some(*status),
            Fault::Twice => self.twice = true,
            Fault::ConflictEndsUpload => self.ends_upload = true,
            Fault::SlowDown | Fault::SlowDownAbove(_) => self.error = Some((503, "SlowDown")),
            Fault::CutBody(after) => self.body.cut_after = Some(*after),
            Fault::Stall(after) => self.body.stall_after = Some(*after),
            Fault::StallAtHalf => self.body.stalls_at_half = true,
            Fault::StallInHead => self.head.stalls = true,
            Fault::WrongLength(error) => {
                self.head.length_error = *error;
                self.body.length_is_wrong = true;
            }
            Fault::WrongETag => self.head.wrong_etag = true,
            Fault::NoETag => self.head.no_etag = true,
            Fault::NoContentRange => self.head.no_content_range = true,
            Fault::NoChecksumOfRanges => self.head.no_checksum_of_ranges = true,
            Fault::IgnoreRange => self.quirks.ignore_range = true,
            Fault::UnknownHeader(name) => self.unknown_headers.push(name),
            Fault::IgnoreConditions => self.quirks.ignore_conditions = true,
            Fault::RenameElement(from, to) => self.head.element = Some((from, to)),
            Fault::ElementText(name, text) => self.head.element_text = Some((name, text)),
            Fault::RequireLength => self.quirks.requires_length = true,
            Fault::IgnoreEncryption => self.quirks.ignore_encryption = true,
            Fault::IgnoreWriteOffset => self.quirks.ignore_write_offset = true,
            Fault::EmptyPages(pages) => self.quirks.empty_pages = *pages,
            Fault::RepeatPages => self.quirks.repeat_pages = true,
            Fault::CorruptByte(at) => self.body.corrupt_at = Some(*at),
            Fault::RefuseConnection | Fault::Hold => {}
            Fault::DropConnection => self.drop_connection = true,
            Fault::DropConnectionAfterwards => self.drop_afterwards = true,
            Fault::WrongChecksum => self.head.wrong_checksum = true,
            Fault::ErrorInBody(code) => self.error_in_body = Some(code),
            Fault::BlackHole => self.black_hole = true,
            Fault::IgnoreSubresources => self.quirks.ignore_subresources = true,
        }
    }
}
