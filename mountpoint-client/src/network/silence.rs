//! The limit of the time in which nothing is heard of an answer.
//!
//! A connection that is cut without a word (a server that loses power, a firewall that forgets it)
//! just hangs: the kernel gives up after some 15 minutes if it has something to send (tcp(7),
//! `tcp_retries2`), and never if it has not. A server that copies or joins parts may be silent too,
//! so each attempt at a request waits twice as long as the one before.

use std::time::Duration;

use aws_smithy_runtime_api::client::result::ConnectorError;

use crate::attempt_report;

/// How long one attempt waits for the next piece of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SilenceLimit(Duration);

impl SilenceLimit {
    /// The limit of the attempt that this task makes, where that of a first one is `first`.
    pub(super) fn of_attempt(first: Duration) -> Self {
        let doublings = attempt_report::number().saturating_sub(1).min(31);
        Self(first.saturating_mul(1 << doublings))
    }

    /// The limit between two pieces of an answer that has begun, where that before it is `first`. A
    /// server that works in silence does so before it answers, so attempts do not differ.
    pub(super) fn of_body(first: Duration) -> Self {
        Self(first)
    }

    /// What `piece` of a body that has begun brings, if it comes in time.
    ///
    /// # Errors
    /// A timeout that [`Stalled`] has caused.
    pub(super) async fn goes_on<T>(
        self,
        piece: impl Future<Output = T>,
    ) -> Result<T, ConnectorError> {
        let heard = tokio::time::timeout(self.0, piece).await;
        heard.map_err(|_| ConnectorError::timeout(Stalled(self.0).into()))
    }

    /// What `piece` brings, if it comes in time.
    ///
    /// # Errors
    /// A timeout, which a retry may mend.
    pub(super) async fn heard<T>(
        self,
        piece: impl Future<Output = T>,
    ) -> Result<T, ConnectorError> {
        let heard = tokio::time::timeout(self.0, piece).await;
        heard.map_err(|_| {
            let what = format!("nothing was heard for {:.0} s", self.0.as_secs_f64());
            ConnectorError::timeout(what.into())
        })
    }
}

/// An answer has begun, and nothing more of it has come for this long.
#[derive(Debug, thiserror::Error)]
#[error("the answer stopped in its middle: nothing more came for {:.0} s", self.0.as_secs_f64())]
pub(crate) struct Stalled(Duration);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_attempt_waits_twice_as_long_as_the_one_before() {
        let first = Duration::from_secs(60);
        for (number, seconds) in [(1, 60), (2, 120), (4, 480), (40, 60 << 31)] {
            let limit = async { SilenceLimit::of_attempt(first) };
            let limit = attempt_report::numbered(number, limit).await;
            assert_eq!(limit.0.as_secs(), seconds, "attempt {number}");
        }
    }

    #[tokio::test]
    async fn silence_ends_with_a_timeout() {
        let limit = SilenceLimit(Duration::from_millis(1));
        let error = limit.heard(std::future::pending::<()>()).await.unwrap_err();
        assert!(error.is_timeout(), "{error:?}");
        assert_eq!(limit.heard(std::future::ready(1)).await.unwrap(), 1);
        let stalled = limit.goes_on(std::future::pending::<()>()).await;
        assert!(stalled.unwrap_err().is_timeout());
    }
}
