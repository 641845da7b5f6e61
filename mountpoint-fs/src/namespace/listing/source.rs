//! The requests of one listing, and the names in their answers.
//!
//! A listing is of a directory, or of all keys under a prefix.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use mountpoint_client::types::{ListOutput, ListRequest};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient, Pending};

use super::key_ranges::{From, RangeId, Ranges};
use super::page::Batch;
use super::unrepresentable::HiddenKeys;
use crate::clock::Clock;
use crate::config::limits::{LIST_PAGE_ENTRIES_MAX, LIST_PAGE_KEYS};
use crate::operation::FsError;

/// The client, and the prefix that it lists.
pub(super) struct ListSource {
    pub(super) client: Arc<dyn ObjectClient>,
    pub(super) clock: Clock,
    pub(super) prefix: Arc<str>,
    /// Notes the keys that a directory cannot show; `None` for all keys under the prefix.
    pub(super) hidden: Option<Arc<HiddenKeys>>,
}

/// A request for the next page of a range.
pub(super) struct InFlight {
    pub(super) range: RangeId,
    pub(super) from: From,
    pub(super) asked: Duration,
    pub(super) answer: Pending<ListOutput>,
}

impl ListSource {
    /// Sends a request.
    pub(super) fn ask(&self, from: &From) -> (Duration, Pending<ListOutput>) {
        let (mut start_after, mut continuation_token) = (None, None);
        match from {
            From::Start => {}
            From::Behind(key) => start_after = Some(format!("{}{key}", self.prefix)),
            From::Token(token) => continuation_token = Some(String::from(&**token)),
        }
        let asked = self.clock.now();
        let answer = self.client.list(ListRequest {
            prefix: self.prefix.to_string(),
            delimiter: self.hidden.as_ref().map(|_| "/".to_owned()),
            start_after,
            continuation_token,
            max_keys: Some(LIST_PAGE_KEYS),
        });
        (asked, answer)
    }

    /// The names of an answer, and how many times the server asked for fewer requests.
    pub(super) fn read(
        &self,
        answer: Result<ListOutput, ClientError>,
    ) -> Result<(Batch, u32), FsError> {
        let listed = answer?;
        if listed.objects.len() + listed.common_prefixes.len() > LIST_PAGE_ENTRIES_MAX / 2 {
            return Err(self.broken("more entries in a page than anybody asked for"));
        }
        let slow_downs = listed.slow_downs;
        let batch = match &self.hidden {
            Some(hidden) => {
                hidden.note(&self.prefix, &listed);
                Batch::of(&self.prefix, listed)
            }
            None => Batch::of_keys(&self.prefix, listed),
        };
        Ok((batch, slow_downs))
    }

    /// Takes the answer to `request` into `ranges`. Returns its error only if the reader waits for
    /// that page; other pages are requested again when the reader reaches them.
    pub(super) fn take_in(
        &self,
        ranges: &mut Ranges,
        request: InFlight,
        answer: Result<ListOutput, ClientError>,
    ) -> Result<(), FsError> {
        let InFlight {
            range, from, asked, ..
        } = request;
        let is_awaited = ranges.is_awaited(range);
        let outcome = self.read(answer).and_then(|(batch, slow_downs)| {
            if slow_downs > 0 {
                ranges.slow_down();
            }
            let arrived = ranges.arrived(range, from.clone(), batch, asked);
            arrived.map_err(|what| self.broken(what))
        });
        if let Err(error) = outcome {
            ranges.slow_down();
            ranges.failed(range, from);
            if is_awaited {
                return Err(error);
            }
            tracing::debug!("listing ahead failed: {error}");
        }
        Ok(())
    }

    /// The error of an answer that is none.
    pub(super) fn broken(&self, what: &str) -> FsError {
        let message = format!("listing of {:?}: the server sent {what}", self.prefix);
        FsError::Client(ClientError::new(ErrorKind::InvalidResponse, message))
    }
}

/// Polls a request once and returns it; a later poll gets an answer that is ready now.
pub(super) fn poll_once(
    answer: &mut Pending<ListOutput>,
    context: &mut Context<'_>,
) -> Pending<ListOutput> {
    match answer.poll_unpin(context) {
        Poll::Ready(arrived) => Box::pin(std::future::ready(arrived)),
        Poll::Pending => std::mem::replace(answer, Box::pin(std::future::pending())),
    }
}
