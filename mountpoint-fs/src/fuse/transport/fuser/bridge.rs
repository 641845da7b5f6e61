//! The bridge from the library's calls to our servers of requests.
//!
//! Knows no operation: `filesystem` builds the requests. Threads: any of the library.

use std::sync::OnceLock;

use fuser::{FileHandle, INodeNo};

use crate::fuse::init::SessionLimits;
use crate::fuse::reply::{DirectoryReply, FuserReply, Reply, ReplyTo, SharedDirectory};
use crate::fuse::request_loop::{RequestLoop, Service};
use crate::fuse::wire::{Header, InitReply, Operation, Request};
use crate::operation::{HandleNo, InodeNo};
use crate::sync::Mutex;

/// The file system that the library calls.
pub(super) struct Bridge {
    service: Service,
    pub(super) limits: SessionLimits,
    /// Set by the handshake, before any other call.
    loops: OnceLock<Loops>,
}

/// Servers of requests: at most one for each thread of the library.
struct Loops {
    make: Box<dyn Fn() -> RequestLoop + Send + Sync>,
    /// Idle servers.
    idle: Mutex<Vec<RequestLoop>>,
}

impl Bridge {
    pub(super) fn new(service: Service, limits: SessionLimits) -> Self {
        Self {
            service,
            limits,
            loops: OnceLock::new(),
        }
    }

    /// Notes the agreement of the handshake.
    pub(super) fn begin(&mut self, agreed: &InitReply) {
        self.loops = OnceLock::from(Loops {
            make: Box::new(self.service.servers(agreed, None, None)),
            idle: Mutex::default(),
        });
    }

    /// Serves `operation` on `ino`.
    pub(super) fn serve(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        operation: Operation<'_>,
        reply: impl Into<FuserReply>,
    ) {
        self.serve_request(request, ino, operation, Some(reply.into()));
    }

    /// Serves a request, with a reply if an application waits.
    pub(super) fn serve_request(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        operation: Operation<'_>,
        reply: Option<FuserReply>,
    ) {
        let header = header(request, ino, reply.is_some());
        let reply = reply.map(|reply| ReplyTo::fuser(header.unique, reply));
        let request = Request { header, operation };
        self.with_loop(|serving| serving.serve_parsed(&request, reply));
    }

    /// Lists a directory into the library's own reply, whose size is unknown.
    pub(super) fn list(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        place: (FileHandle, u64),
        reply: DirectoryReply,
    ) {
        let header = header(request, ino, true);
        let plus = matches!(reply, DirectoryReply::Entries(_));
        let (sink, place) = (SharedDirectory::new(reply), (HandleNo(place.0.0), place.1));
        let reply = FuserReply::Directory(sink.clone());
        let reply = ReplyTo::fuser(header.unique, reply);
        self.with_loop(|serving| {
            serving.serve_pending(&header, plus, reply, |dispatcher| {
                dispatcher.read_directory(InodeNo(ino.0), place, plus, sink, |_| Reply::Done)
            });
        });
    }

    fn with_loop(&self, serve: impl FnOnce(&mut RequestLoop)) {
        let loops = self.loops.get().expect("INIT comes before anything else");
        let idle = loops.idle.lock().pop();
        let mut serving = idle.unwrap_or_else(|| (loops.make)());
        serve(&mut serving);
        loops.idle.lock().push(serving);
    }
}

fn header(request: &fuser::Request, ino: INodeNo, wants_reply: bool) -> Header {
    Header {
        unique: request.unique().0,
        node: ino.0,
        uid: request.uid(),
        gid: request.gid(),
        pid: request.pid(),
        wants_reply,
    }
}
