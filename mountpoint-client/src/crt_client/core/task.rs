//! Requests as tasks of the client's runtime, so that any thread may poll a [`Pending`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::task::JoinHandle;

use super::Core;
use crate::billing::on_account;
use crate::{ClientError, ErrorKind, Pending};

/// A request that only reads, as a task that is aborted when the answer is no longer wanted.
pub(in crate::crt_client) fn reading<T: Send + 'static>(
    core: &Arc<Core>,
    future: impl Future<Output = Result<T, ClientError>> + Send + 'static,
) -> Pending<T> {
    Box::pin(Task {
        handle: core.runtime.spawn(on_account(future)),
        aborts: true,
    })
}

/// A request that changes something, as a task that runs to its end even if the answer is no longer
/// wanted: half of a retried write is worse than the whole of it.
pub(in crate::crt_client) fn writing<T: Send + 'static>(
    core: &Arc<Core>,
    future: impl Future<Output = Result<T, ClientError>> + Send + 'static,
) -> Pending<T> {
    Box::pin(Task {
        handle: core.runtime.spawn(on_account(future)),
        aborts: false,
    })
}

/// A request that fails without being sent.
pub(in crate::crt_client) fn refused<T: Send + 'static>(error: ClientError) -> Pending<T> {
    Box::pin(std::future::ready(Err(error)))
}

struct Task<T> {
    handle: JoinHandle<Result<T, ClientError>>,
    aborts: bool,
}

impl<T> Future for Task<T> {
    type Output = Result<T, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.handle)
            .poll(context)
            .map(|joined| match joined {
                Ok(outcome) => outcome,
                Err(error) if error.is_cancelled() => Err(ClientError::new(
                    ErrorKind::Cancelled,
                    "the client is shutting down",
                )),
                Err(error) => Err(ClientError::new(
                    ErrorKind::Transient,
                    format!("a request's task panicked: {error}"),
                )),
            })
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if self.aborts {
            self.handle.abort();
        }
    }
}
