//! Behaviour of the simulation itself; S3's behaviour is tested by the contract suite.

mod faults;
mod manual;
mod store;
mod threaded;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use mountpoint_crt_sys::block::{Block, BlockPool};
use parking_lot::{Condvar, Mutex};

use crate::object_client::Pending;
use crate::types::{ETag, GetOutput, GetRequest, Key, Priority};
use crate::{ClientError, ErrorKind, GetHandle, GetObserver, ObjectClient};

use super::{SimClient, SimOptions, Time};

/// Longest wait of a test for a thread.
const WAIT_MAX: Duration = Duration::from_secs(120);

fn sim(time: Time) -> SimClient {
    SimClient::new(SimOptions {
        time,
        ..SimOptions::default()
    })
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

/// The answer of a request that needs no waiting.
fn now<T>(pending: Pending<T>) -> Result<T, ClientError> {
    pending.now_or_never().expect("answered at once")
}

/// A GET, its block and the calls of its observer.
struct Get {
    block: Block,
    handle: GetHandle,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    calls: Mutex<Calls>,
    changed: Condvar,
}

#[derive(Default)]
struct Calls {
    progressed: usize,
    finished: Vec<Result<GetOutput, ClientError>>,
}

impl GetObserver for Seen {
    fn progressed(&self) {
        let mut calls = self.calls.lock();
        assert!(calls.finished.is_empty(), "progress after the end");
        calls.progressed += 1;
    }

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        self.calls.lock().finished.push(outcome);
        self.changed.notify_all();
    }
}

impl Seen {
    fn progress_calls(&self) -> usize {
        self.calls.lock().progressed
    }

    /// `None` while in flight, else the error kind or the size of the object.
    fn outcome(&self) -> Option<Result<u64, ErrorKind>> {
        let calls = self.calls.lock();
        assert!(calls.finished.len() <= 1, "finished twice");
        let outcome = calls.finished.first()?;
        Some(match outcome {
            Ok(output) => Ok(output.object_size),
            Err(error) => Err(error.kind.clone()),
        })
    }

    fn wait(&self) -> Result<u64, ErrorKind> {
        let mut calls = self.calls.lock();
        while calls.finished.is_empty() {
            assert!(
                !self.changed.wait_for(&mut calls, WAIT_MAX).timed_out(),
                "no end of a GET"
            );
        }
        drop(calls);
        self.outcome().expect("it has ended")
    }
}

fn get(sim: &SimClient, name: &str, range: Range<u64>, if_match: Option<ETag>) -> Get {
    let len = usize::try_from(range.end - range.start).unwrap();
    let into = BlockPool::new(0).allocate(len);
    let block = into.block();
    let seen = Arc::new(Seen::default());
    let observer = Arc::clone(&seen);
    let request = GetRequest {
        key: key(name),
        range,
        if_match,
        object_size: None,
        priority: Priority::Foreground,
    };
    Get {
        block,
        handle: sim.get(request, into, observer),
        seen,
    }
}
