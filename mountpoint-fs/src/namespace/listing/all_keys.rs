//! All keys under a prefix, at any depth.
//!
//! [`AllKeys`] divides its keys into the same [`Ranges`] as [`Listing`](super::Listing): it
//! requests single pages at first, then several ranges of keys at once, and returns the pages in
//! order. The number of pages ahead of the reader is bounded, and with it the memory.
//!
//! The future of [`AllKeys::next`] may be dropped at any await: the requests stay in flight.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use mountpoint_client::ObjectClient;

use super::key_ranges::Ranges;
use super::page::Listed;
use super::source::{InFlight, ListSource};
use crate::clock::Clock;
use crate::namespace::version::{Found, Version};
use crate::operation::FsError;

/// Lists all keys under a prefix.
pub struct AllKeys {
    source: ListSource,
    ranges: Ranges,
    in_flight: Vec<InFlight>,
}

/// The keys of one page with their versions.
type KeyPage = Vec<(String, Version)>;

impl AllKeys {
    /// A listing of all keys that begin with `prefix`. Sends no request yet.
    #[must_use]
    pub fn new(client: Arc<dyn ObjectClient>, clock: Clock, prefix: &str) -> Self {
        Self {
            ranges: Ranges::new(client.lists_in_order()),
            source: ListSource {
                client,
                clock,
                prefix: Arc::from(prefix),
                hidden: None,
            },
            in_flight: Vec::new(),
        }
    }

    /// The next keys with their versions, in order if the bucket lists in order. `None` at the end.
    ///
    /// # Errors
    /// Errors of the request; the next call sends it again.
    pub async fn next(&mut self) -> Result<Option<KeyPage>, FsError> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<KeyPage>, FsError>> {
        let outcome = self.pump(context);
        if let Some(part) = self.ranges.take() {
            // The reader requests a failed page again when it reaches that page.
            return Poll::Ready(Ok(Some(self.whole_keys(part.entries))));
        }
        match outcome {
            Err(error) => Poll::Ready(Err(error)),
            Ok(()) if self.ranges.is_finished() => Poll::Ready(Ok(None)),
            Ok(()) => Poll::Pending,
        }
    }

    fn whole_keys(&self, entries: Vec<Listed>) -> KeyPage {
        let keys = entries.into_iter().filter_map(|entry| match entry.found {
            Found::File(version) => {
                Some((format!("{}{}", self.source.prefix, entry.name), version))
            }
            Found::Directory => None,
        });
        keys.collect()
    }

    /// Processes the answers that have arrived and sends the next requests. Returns the error of a
    /// page only if the reader waits for that page.
    fn pump(&mut self, context: &mut Context<'_>) -> Result<(), FsError> {
        loop {
            let mut requests = self.in_flight.iter_mut().enumerate();
            let arrived =
                requests.find_map(|(at, request)| match request.answer.poll_unpin(context) {
                    Poll::Ready(answer) => Some((at, answer)),
                    Poll::Pending => None,
                });
            if let Some((at, answer)) = arrived {
                let request = self.in_flight.swap_remove(at);
                self.source.take_in(&mut self.ranges, request, answer)?;
                self.in_flight
                    .retain(|request| self.ranges.has(request.range));
            } else if let Some((range, from)) = self.ranges.next_request(true) {
                let (asked, answer) = self.source.ask(&from);
                self.in_flight.push(InFlight {
                    range,
                    from,
                    asked,
                    answer,
                });
            } else {
                return Ok(());
            }
        }
    }
}

impl fmt::Debug for AllKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_flight = self.in_flight.len();
        write!(f, "AllKeys({:?}, {in_flight} requests)", self.source.prefix)
    }
}
