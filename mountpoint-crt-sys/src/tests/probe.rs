//! Handlers that record their calls for a test.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bytes::Bytes;

use crate::block::{BlockFill, BlockPool};
use crate::{
    Cancel, Client, ClientOptions, Failure, GetHandler, Message, RangedGet, Refused, Response,
    ResponseHead, Runtime, Signing, TlsOptions,
};

/// Longer than anything takes that does not hang, on a starved machine as well.
pub(crate) const SOON: Duration = Duration::from_secs(120);

pub(crate) fn options(endpoint: &str) -> ClientOptions {
    ClientOptions {
        endpoint: endpoint.to_owned(),
        signing: Signing::Unsigned,
        tls: TlsOptions::default(),
        throughput_target_gbps: 10.0,
        part_size_max: 8 << 20,
        // A starved machine may stand still for seconds; these requests are not sent again.
        connect_timeout: Duration::from_secs(60),
        stall_timeout: Duration::from_secs(60),
        network_interface: None,
        proxy: None,
    }
}

pub(crate) fn client(runtime: &Runtime, endpoint: &str) -> Client {
    Client::new(runtime, &options(endpoint)).unwrap()
}

/// A GET under way.
pub(crate) struct Getting {
    pub(crate) cancel: Cancel,
    pub(crate) progress: Receiver<()>,
    end: Receiver<(BlockFill, Result<ResponseHead, Failure>)>,
}

impl Getting {
    pub(crate) fn end(&self) -> (BlockFill, Result<ResponseHead, Failure>) {
        self.end.recv_timeout(SOON).expect("the GET ends")
    }

    /// As [`Self::failure`], which comes within this time.
    pub(crate) fn failure_within(&self, limit: Duration) -> (BlockFill, Failure) {
        let (fill, outcome) = self.end.recv_timeout(limit).expect("the GET ends soon");
        (fill, outcome.expect_err("the GET fails"))
    }

    pub(crate) fn failure(&self) -> (BlockFill, Failure) {
        let (fill, outcome) = self.end();
        (fill, outcome.expect_err("the GET fails"))
    }
}

/// Gets `range` into a new block.
pub(crate) fn get(client: &Client, range: std::ops::Range<usize>) -> Getting {
    get_into(
        client,
        BlockPool::new(0).allocate(range.len()),
        range,
        |_| Ok(()),
    )
}

pub(crate) fn get_into(
    client: &Client,
    fill: BlockFill,
    range: std::ops::Range<usize>,
    head: impl Fn(&ResponseHead) -> Result<(), Refused> + Send + Sync + 'static,
) -> Getting {
    let (progress_sender, progress) = channel();
    let (end_sender, end) = channel();
    let handler = Probe {
        head: Box::new(head),
        progress: progress_sender,
        end: end_sender,
    };
    let request = RangedGet {
        path: "/bucket/key".into(),
        headers: vec![("If-Match".into(), "\"abc\"".into())],
        range: range.start as u64..range.end as u64,
        is_whole: false,
    };
    let cancel = client.get(request, fill, Box::new(handler));
    Getting {
        cancel,
        progress,
        end,
    }
}

type OnHead = Box<dyn Fn(&ResponseHead) -> Result<(), Refused> + Send + Sync>;

struct Probe {
    head: OnHead,
    progress: Sender<()>,
    end: Sender<(BlockFill, Result<ResponseHead, Failure>)>,
}

impl GetHandler for Probe {
    fn head(&self, head: &ResponseHead) -> Result<(), Refused> {
        (self.head)(head)
    }

    fn progressed(&self) {
        self.progress.send(()).ok();
    }

    fn finished(self: Box<Self>, fill: BlockFill, outcome: Result<ResponseHead, Failure>) {
        self.end.send((fill, outcome)).ok();
    }
}

/// Sends a request and waits for its end.
pub(crate) fn send(
    client: &Client,
    message: Message,
    body: &'static [u8],
) -> Result<Response, Failure> {
    let (sender, receiver) = channel();
    let handler = Box::new(move |answer| sender.send(answer).unwrap());
    let _cancel = client.send(message, Bytes::from_static(body), handler);
    receiver.recv_timeout(SOON).expect("the request ends")
}

pub(crate) fn message(operation: &'static str, method: &'static str, path: &str) -> Message {
    Message {
        operation,
        method,
        path: path.to_owned(),
        headers: Vec::new(),
    }
}

/// Bytes that differ by place.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| u8::try_from((at * 31 + at / 256) % 251).unwrap())
        .collect()
}
