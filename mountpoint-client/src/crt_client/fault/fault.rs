//! One failed attempt.

use std::time::Duration;

use crate::{ClientError, ErrorKind};

/// One failed attempt: the error, and what the retry policy needs besides its kind.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of one attempt"
)]
pub(in crate::crt_client) struct Fault {
    pub(in crate::crt_client) error: ClientError,
    /// The server's `Retry-After`.
    pub(in crate::crt_client) retry_after: Option<Duration>,
    /// The server said that the credentials have expired.
    pub(in crate::crt_client) expired: bool,
    /// The server does not know the credentials, or not with this secret: they may have been
    /// replaced.
    pub(in crate::crt_client) is_unknown_key: bool,
    /// The server refused without a reason: answers to HEAD have no body.
    pub(in crate::crt_client) is_mute: bool,
    /// The answer is not S3's, and its status is none that tells of an outage.
    pub(in crate::crt_client) is_foreign: bool,
    /// The attempt was given up because nothing moved.
    pub(in crate::crt_client) is_silence: bool,
    /// The server may have done what was asked, although the request is sent again.
    pub(in crate::crt_client) may_be_done: bool,
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        Self {
            may_be_done: matches!(error.kind, ErrorKind::Transient | ErrorKind::Conflict),
            error,
            retry_after: None,
            expired: false,
            is_unknown_key: false,
            is_mute: false,
            is_foreign: false,
            is_silence: false,
        }
    }
}
