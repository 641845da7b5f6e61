//! Writers that wait for a buffer, in the order of their requests.
//!
//! Pure. [`Admission`] decides the size of a grant; the queue decides the turn. A writer is known
//! by a ticket, and answered through `T`.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::admission::{Admission, BufferKind, BufferRequest, WaitState};

/// The admission, and the waiting writers.
#[derive(Debug)]
pub(super) struct WriterQueue<T> {
    /// Counts granted memory, even if reads have not given it back yet.
    pub(super) admission: Admission,
    /// In order of their ticket.
    waiting: VecDeque<WaitingWriter<T>>,
    /// The mount ends: no writer may wait.
    is_ended: bool,
}

#[derive(Debug)]
struct WaitingWriter<T> {
    ticket: u64,
    request: BufferRequest,
    /// Bytes of the writer's file, which a failure loses.
    written: u64,
    told: T,
}

impl<T> WriterQueue<T> {
    pub(super) fn new(admission: Admission) -> Self {
        Self {
            admission,
            waiting: VecDeque::new(),
            is_ended: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a writer with `request`, for a file with `written` taken bytes, unless the mount ends.
    /// Tickets rise.
    pub(super) fn push(&mut self, ticket: u64, request: BufferRequest, written: u64, told: T) {
        if !self.is_ended {
            self.waiting.push_back(WaitingWriter {
                ticket,
                request,
                written,
                told,
            });
        }
    }

    /// The next writer that can be granted memory, and the bytes beside those that it holds. Only
    /// the first writer is considered, unless nothing in flight would give memory back
    /// ([`WaitState::Stuck`]).
    pub(super) fn grant(&mut self, wait: WaitState) -> Option<(T, BufferKind, u64)> {
        let tried = match wait {
            WaitState::Stuck => self.waiting.len(),
            WaitState::First | WaitState::Waited => 1,
        };
        let mut requests = self.waiting.iter().map(|it| it.request).take(tried);
        let admission = &self.admission;
        let found = requests
            .by_ref()
            .enumerate()
            .find_map(|(index, request)| Some((index, request, admission.choose(request, wait)?)));
        let (index, request, (kind, bytes)) = found?;
        let writer = self.waiting.remove(index).expect("it was looked at");
        let more = bytes - request.held;
        self.admission.take(kind, more);
        Some((writer.told, kind, more))
    }

    /// Takes out one writer, which is to fail: of those that hold memory, or of all if none does,
    /// the one with the least bytes to lose, and the youngest of several.
    pub(super) fn fail_one(&mut self) -> Option<T> {
        let waiting = self.waiting.iter().enumerate();
        let least =
            waiting.min_by_key(|(index, it)| (it.request.held == 0, it.written, Reverse(*index)));
        let (index, _) = least?;
        Some(self.waiting.remove(index)?.told)
    }

    /// Takes out all writers, which are to fail. Later ones fail at once.
    pub(super) fn fail_all(&mut self) -> Vec<T> {
        self.is_ended = true;
        self.waiting.drain(..).map(|writer| writer.told).collect()
    }

    /// Takes out a writer that gives up; `None` if it no longer waits.
    pub(super) fn remove(&mut self, ticket: u64) -> Option<T> {
        let place = self
            .waiting
            .binary_search_by_key(&ticket, |writer| writer.ticket);
        Some(self.waiting.remove(place.ok()?)?.told)
    }
}
