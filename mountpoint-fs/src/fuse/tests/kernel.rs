//! The other end of the device: a socket that keeps messages apart, in place of the kernel.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, recv, send, setsockopt, socketpair, sockopt,
};
use nix::sys::time::TimeVal;

/// Sends requests, receives replies. Dropping it ends the connection.
pub(in crate::fuse) struct Kernel(OwnedFd);

/// A reply: the request's number, the errno, the body.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::fuse) struct Answered {
    pub(in crate::fuse) unique: u64,
    pub(in crate::fuse) errno: i32,
    pub(in crate::fuse) body: Vec<u8>,
}

impl Kernel {
    /// The kernel's end and the device's.
    pub(in crate::fuse) fn pair() -> (Self, OwnedFd) {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (kernel, device) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
        for socket in [&kernel, &device] {
            // Replies of 1 MiB, as the kernel takes them.
            setsockopt(socket, sockopt::SndBufForce, &(4 << 20)).unwrap();
        }
        let timeout = TimeVal::new(PATIENCE.as_secs().try_into().unwrap(), 0);
        setsockopt(&kernel, sockopt::ReceiveTimeout, &timeout).unwrap();
        (Self(kernel), device)
    }

    pub(in crate::fuse) fn send(&self, message: &[u8]) {
        let sent = send(self.0.as_raw_fd(), message, MsgFlags::MSG_NOSIGNAL).unwrap();
        assert_eq!(sent, message.len());
    }

    /// Sends a request that `uid` makes of `node`.
    pub(in crate::fuse) fn request_as(
        &self,
        uid: u32,
        opcode: u32,
        unique: u64,
        node: u64,
        body: &[u8],
    ) {
        let len = u32::try_from(40 + body.len()).unwrap();
        let mut message = Vec::new();
        message.extend(len.to_ne_bytes());
        message.extend(opcode.to_ne_bytes());
        message.extend(unique.to_ne_bytes());
        message.extend(node.to_ne_bytes());
        // From a thread that is out of sight.
        for word in [uid, uid, 0, 0] {
            message.extend(word.to_ne_bytes());
        }
        message.extend(body);
        self.send(&message);
    }

    /// Sends a request of root's.
    pub(in crate::fuse) fn request(&self, opcode: u32, unique: u64, node: u64, body: &[u8]) {
        self.request_as(0, opcode, unique, node, body);
    }

    /// The bytes of the next reply.
    #[track_caller]
    pub(in crate::fuse) fn receive(&self) -> Vec<u8> {
        let mut buffer = vec![0; (1 << 20) + 4096];
        let len = loop {
            match recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                // A signal to this process. It ends calls with a timeout, whatever its handler
                // says.
                Err(Errno::EINTR) => {}
                received => break received.expect("a reply comes"),
            }
        };
        buffer.truncate(len);
        buffer
    }

    /// The next reply.
    #[track_caller]
    pub(in crate::fuse) fn answered(&self) -> Answered {
        let message = self.receive();
        let word = |index: usize| <[u8; 4]>::try_from(&message[index..index + 4]).unwrap();
        assert_eq!(
            u32::from_ne_bytes(word(0)) as usize,
            message.len(),
            "length in the header"
        );
        Answered {
            unique: u64::from_ne_bytes(message[8..16].try_into().unwrap()),
            errno: -i32::from_ne_bytes(word(4)),
            body: message[16..].to_vec(),
        }
    }

    /// Whether a reply has come that was not received yet.
    pub(in crate::fuse) fn has_answer(&self) -> bool {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK;
        recv(self.0.as_raw_fd(), &mut [0; 1], flags).is_ok()
    }

    /// Asserts that no reply has come.
    #[track_caller]
    pub(in crate::fuse) fn check_silent(&self) {
        let received = recv(
            self.0.as_fd().as_raw_fd(),
            &mut [0; 4096],
            MsgFlags::MSG_DONTWAIT,
        );
        assert_eq!(received, Err(Errno::EAGAIN), "no reply");
    }
}

/// A reply that takes longer does not come.
const PATIENCE: Duration = Duration::from_secs(120);
