//! Handlers that use the client from inside a callback of C.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use super::probe::{SOON, client, pattern};
use super::runtime;
use super::server::{self, Server, Then, partial_head};
use crate::block::{BlockFill, BlockPool};
use crate::{Cancel, Client, ErrorKind, Failure, GetHandler, RangedGet, Refused, ResponseHead};

const SIZE: usize = 100_000;

/// Gets the rest of the block, again and again, as a retry would, each from the end of the one
/// before.
struct Again {
    client: Client,
    attempts: usize,
    end: Sender<(usize, BlockFill)>,
}

impl Again {
    fn start(self, fill: BlockFill) {
        let client = self.client.clone();
        let range = fill.filled() as u64..fill.capacity() as u64;
        let request = RangedGet {
            path: "/b/k".into(),
            headers: Vec::new(),
            range,
            is_whole: false,
        };
        let _cancel = client.get(request, fill, Box::new(self));
    }
}

impl GetHandler for Again {
    fn head(&self, _: &ResponseHead) -> Result<(), Refused> {
        Ok(())
    }

    fn progressed(&self) {}

    fn finished(mut self: Box<Self>, fill: BlockFill, outcome: Result<ResponseHead, Failure>) {
        self.attempts += 1;
        if outcome.is_ok() {
            self.end.send((self.attempts, fill)).ok();
        } else {
            self.start(fill);
        }
    }
}

#[test]
fn a_handler_may_ask_for_the_rest() {
    let object = pattern(SIZE);
    let served = object.clone();
    // Each connection ends after 3,000 bytes of a body.
    let server = Server::start(move |request, wire| {
        let range = request.range();
        let body = &served[range.clone()];
        server::send(wire, partial_head(range, SIZE).as_bytes());
        server::send(wire, &body[..body.len().min(3000)]);
        Then::Close
    });
    let client = client(runtime(), &server.endpoint());
    let (end, ended) = channel();
    Again {
        client,
        attempts: 0,
        end,
    }
    .start(BlockPool::new(0).allocate(SIZE));
    let (attempts, fill) = ended.recv_timeout(SOON).unwrap();
    assert_eq!(attempts, SIZE.div_ceil(3000));
    assert!(fill.block().bytes(0..SIZE) == object);
}

/// Cancels its own request when the first bytes arrive.
struct CancelsItself {
    cancel: Arc<OnceLock<Cancel>>,
    end: Sender<Result<ResponseHead, Failure>>,
}

impl GetHandler for CancelsItself {
    fn head(&self, _: &ResponseHead) -> Result<(), Refused> {
        Ok(())
    }

    fn progressed(&self) {
        self.cancel.wait().cancel();
    }

    fn finished(self: Box<Self>, _: BlockFill, outcome: Result<ResponseHead, Failure>) {
        self.end.send(outcome).ok();
    }
}

#[test]
fn a_handler_may_cancel_its_request() {
    let server = Server::start(|request, wire| {
        server::send(wire, partial_head(request.range(), SIZE).as_bytes());
        server::send(wire, &[1; 10]);
        thread::sleep(SOON);
        Then::Close
    });
    let client = client(runtime(), &server.endpoint());
    let (end, ended) = channel();
    let cancel = Arc::new(OnceLock::new());
    let handler = CancelsItself {
        cancel: Arc::clone(&cancel),
        end,
    };
    let request = RangedGet {
        path: "/b/k".into(),
        headers: Vec::new(),
        range: 0..SIZE as u64,
        is_whole: false,
    };
    cancel
        .set(client.get(request, BlockPool::new(0).allocate(SIZE), Box::new(handler)))
        .unwrap();
    let failure = ended.recv_timeout(SOON).unwrap().unwrap_err();
    assert_eq!(failure.error.kind(), ErrorKind::Cancelled);
}
