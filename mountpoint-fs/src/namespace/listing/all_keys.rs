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
use mountpoint_client::types::{ListOutput, ListRequest};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient, Pending};

use super::key_ranges::{From, RangeId, Ranges};
use super::page::{Batch, Listed};
use crate::clock::Clock;
use crate::config::limits::LIST_PAGE_KEYS;
use crate::namespace::version::{Found, Version};
use crate::operation::FsError;

/// Lists all keys under a prefix.
pub struct AllKeys {
    client: Arc<dyn ObjectClient>,
    clock: Clock,
    prefix: Arc<str>,
    ranges: Ranges,
    in_flight: Vec<Request>,
}

/// The keys of one page with their versions.
type KeyPage = Vec<(String, Version)>;

struct Request {
    range: RangeId,
    from: From,
    answer: Pending<ListOutput>,
}

impl AllKeys {
    /// A listing of all keys that begin with `prefix`. Sends no request yet.
    #[must_use]
    pub fn new(client: Arc<dyn ObjectClient>, clock: Clock, prefix: &str) -> Self {
        Self {
            ranges: Ranges::new(client.lists_in_order()),
            client,
            clock,
            prefix: Arc::from(prefix),
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
            Found::File(version) => Some((format!("{}{}", self.prefix, entry.name), version)),
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
                self.take_in(request, answer)?;
            } else if let Some((range, from)) = self.ranges.next_request(true) {
                let answer = self.ask(&from);
                self.in_flight.push(Request {
                    range,
                    from,
                    answer,
                });
            } else {
                return Ok(());
            }
        }
    }

    fn ask(&self, from: &From) -> Pending<ListOutput> {
        let (mut start_after, mut continuation_token) = (None, None);
        match from {
            From::Start => {}
            From::Behind(key) => start_after = Some(format!("{}{key}", self.prefix)),
            From::Token(token) => continuation_token = Some(String::from(&**token)),
        }
        self.client.list(ListRequest {
            prefix: self.prefix.to_string(),
            delimiter: None,
            start_after,
            continuation_token,
            max_keys: Some(LIST_PAGE_KEYS),
        })
    }

    fn take_in(
        &mut self,
        request: Request,
        answer: Result<ListOutput, ClientError>,
    ) -> Result<(), FsError> {
        let Request { range, from, .. } = request;
        let is_awaited = self.ranges.is_awaited(range);
        let outcome = answer.map_err(FsError::from).and_then(|listed| {
            if listed.slow_downs > 0 {
                self.ranges.slow_down();
            }
            let batch = self.batch(listed);
            let asked = self.clock.now();
            let arrived = self.ranges.arrived(range, from.clone(), batch, asked);
            arrived.map_err(|what| {
                let message = format!("listing of {:?}: the server sent {what}", self.prefix);
                FsError::Client(ClientError::new(ErrorKind::InvalidResponse, message))
            })
        });
        if let Err(error) = outcome {
            self.ranges.slow_down();
            self.ranges.failed(range, from);
            if is_awaited {
                return Err(error);
            }
            tracing::debug!("listing ahead failed: {error}");
        }
        self.in_flight
            .retain(|request| self.ranges.has(request.range));
        Ok(())
    }

    /// Converts an answer without a delimiter: each key becomes an entry.
    fn batch(&self, listed: ListOutput) -> Batch {
        let entries = listed.objects.iter().filter_map(|object| {
            let name = object.key.as_str().strip_prefix(&*self.prefix)?;
            Some(Listed {
                name: Arc::from(name),
                found: Found::File(Version::from(object)),
                is_certain: true,
            })
        });
        let entries: Vec<Listed> = entries.collect();
        let names = || entries.iter().map(|entry| &entry.name);
        let span = names().min().zip(names().max());
        Batch {
            span: span.map(|(first, last)| (Arc::clone(first), Arc::clone(last))),
            keys: listed.objects.len(),
            token: listed.continuation_token,
            entries,
        }
    }
}

impl fmt::Debug for AllKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_flight = self.in_flight.len();
        write!(f, "AllKeys({:?}, {in_flight} requests)", self.prefix)
    }
}
