//! Requests side by side, none of which outlives its operation.

use futures::stream::{FuturesUnordered, StreamExt};

use crate::operation::Stop;

/// Runs `begin` for each item, at most `max` at a time, and `done` on each output.
///
/// After the first failure or a stop, no item is begun and those in flight are awaited: no effect
/// follows the end. Returns whether every item was begun.
pub(super) async fn in_parallel<T, O, E, F: Future<Output = Result<O, E>>>(
    max: usize,
    items: impl IntoIterator<Item = T>,
    stop: &Stop,
    begin: impl Fn(T) -> F,
    mut done: impl FnMut(O),
) -> Result<bool, E> {
    let mut items = items.into_iter().peekable();
    let mut in_flight = FuturesUnordered::new();
    let mut failure = None;
    loop {
        let is_ended = failure.is_some() || stop.is_asked();
        let free = if is_ended { 0 } else { max - in_flight.len() };
        in_flight.extend(items.by_ref().take(free).map(&begin));
        match in_flight.next().await {
            Some(Ok(output)) => done(output),
            Some(Err(error)) => failure = failure.or(Some(error)),
            None => return failure.map_or_else(|| Ok(items.peek().is_none()), Err),
        }
    }
}
