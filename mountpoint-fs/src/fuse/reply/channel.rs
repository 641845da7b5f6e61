//! A descriptor of `/dev/fuse`: requests are read from it, replies written to it.
//!
//! Invariant: a reply goes to the descriptor of its request, because each descriptor has its own
//! queue of waiting requests. Threads: `receive` on one session thread; replies on any.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::reply::{Body, Reply};
use crate::fuse::wire::{OUT_HEADER_LEN, ReplyHeader};
use crate::operation::ReadData;

/// One descriptor of a FUSE connection.
#[derive(Debug)]
pub(in crate::fuse) struct Channel {
    device: File,
}

impl Channel {
    /// Takes over a descriptor, and makes it a blocking one: the process that opened it may have
    /// made it non-blocking.
    pub(in crate::fuse) fn new(device: OwnedFd) -> io::Result<Self> {
        let flags = OFlag::from_bits_retain(fcntl(&device, FcntlArg::F_GETFL)?);
        if flags.contains(OFlag::O_NONBLOCK) {
            fcntl(&device, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
        }
        Ok(Self {
            device: File::from(device),
        })
    }

    /// Waits for the next message; `None` when the connection has ended.
    pub(in crate::fuse) fn receive<'b>(
        &self,
        buffer: &'b mut [u8],
    ) -> io::Result<Option<&'b [u8]>> {
        loop {
            let error = match (&self.device).read(buffer) {
                Ok(0) => return Ok(None),
                Ok(len) => return Ok(Some(&buffer[..len])),
                Err(error) => error,
            };
            match error.raw_os_error().map(Errno::from_raw) {
                // The kernel has withdrawn the request; or a signal came to this thread.
                Some(Errno::ENOENT | Errno::EINTR | Errno::EAGAIN) => {}
                // Unmounted; or aborted by an operator.
                Some(Errno::ENODEV | Errno::ECONNABORTED) => return Ok(None),
                _ => return Err(error),
            }
        }
    }

    /// Hands the descriptor over. It is a blocking one.
    pub(in crate::fuse) fn into_device(self) -> OwnedFd {
        self.device.into()
    }

    /// The descriptor, to clone it.
    pub(in crate::fuse) fn device(&self) -> &File {
        &self.device
    }

    /// Sends a whole message that answers no request.
    pub(in crate::fuse) fn tell(&self, message: &[u8]) -> io::Result<()> {
        self.write(&[IoSlice::new(message)], message.len())
    }

    /// Answers request `unique`.
    pub(in crate::fuse) fn send(&self, unique: u64, reply: &Reply) -> io::Result<()> {
        match reply.body() {
            Body::Fixed(body) => self.send_one(unique, reply.errno(), body.as_bytes()),
            Body::Bytes(body) => self.send_one(unique, reply.errno(), body),
            Body::Data(data) => self.send_data(unique, data),
        }
    }

    fn send_one(&self, unique: u64, errno: i32, body: &[u8]) -> io::Result<()> {
        let header = ReplyHeader::encode(unique, errno, body.len());
        self.write(
            &[IoSlice::new(&header), IoSlice::new(body)],
            header.len() + body.len(),
        )
    }

    fn send_data(&self, unique: u64, data: &ReadData) -> io::Result<()> {
        let len = data.len();
        let header = ReplyHeader::encode(unique, 0, len);
        let bodies = data
            .slices
            .iter()
            .map(|(block, range)| block.bytes(range.clone()));
        if data.slices.len() < SLICES_ON_STACK {
            let mut slices = [IoSlice::new(&[]); SLICES_ON_STACK];
            slices[0] = IoSlice::new(&header);
            for (slice, body) in slices[1..].iter_mut().zip(bodies) {
                *slice = IoSlice::new(body);
            }
            self.write(&slices[..=data.slices.len()], OUT_HEADER_LEN + len)
        } else if data.slices.len() < SLICES_MAX {
            let mut slices = Vec::with_capacity(1 + data.slices.len());
            slices.push(IoSlice::new(&header));
            slices.extend(bodies.map(IoSlice::new));
            self.write(&slices, OUT_HEADER_LEN + len)
        } else {
            // A copy of file data: a reply is one system call, which cannot name so many slices.
            let mut body = Vec::with_capacity(len);
            bodies.for_each(|slice| body.extend_from_slice(slice));
            self.write(
                &[IoSlice::new(&header), IoSlice::new(&body)],
                OUT_HEADER_LEN + len,
            )
        }
    }

    fn write(&self, slices: &[IoSlice<'_>], len: usize) -> io::Result<()> {
        loop {
            match (&self.device).write_vectored(slices) {
                Ok(written) if written == len => return Ok(()),
                Ok(written) => {
                    let message = format!("the kernel took {written} of {len} bytes of a reply");
                    return Err(io::Error::other(message));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Slices of a reply that need no allocation: a read of 1 MiB meets one or two blocks.
const SLICES_ON_STACK: usize = 16;
/// Linux's `IOV_MAX`: slices of one `writev`.
const SLICES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use mountpoint_crt_sys::block::BlockPool;

    use super::*;
    use crate::fuse::reply::ReplyTo;
    use crate::fuse::tests::kernel::Kernel;

    fn pair() -> (Arc<Channel>, Kernel) {
        let (kernel, device) = Kernel::pair();
        (Arc::new(Channel::new(device).unwrap()), kernel)
    }

    #[track_caller]
    fn check(reply: Reply, errno: i32, body: &[u8]) {
        let (channel, kernel) = pair();
        ReplyTo::device(&channel, 8).send(reply);
        let expected = [&ReplyHeader::encode(8, errno, body.len()), body].concat();
        assert_eq!(kernel.receive(), expected);
        kernel.check_silent();
    }

    #[test]
    fn replies() {
        check(Reply::Done, 0, &[]);
        check(Reply::Failed(Errno::ENOENT), 2, &[]);
        check(Reply::Bytes(vec![1, 2, 3]), 0, &[1, 2, 3]);
        check(Reply::Absence(Duration::ZERO), 0, &[0; 128]);
        check(Reply::Data(ReadData::default()), 0, &[]);
    }

    #[test]
    fn slices_arrive_in_order_however_many_they_are() {
        let bytes: Vec<u8> = (0_u8..250).cycle().take(4000).collect();
        let mut fill = BlockPool::new(0).allocate(bytes.len());
        fill.append(&bytes);
        for count in [
            1,
            2,
            SLICES_ON_STACK - 1,
            SLICES_ON_STACK,
            SLICES_MAX - 1,
            SLICES_MAX,
            2000,
        ] {
            let slices = (0..count)
                .map(|index| (fill.block(), index..index + 2))
                .collect();
            let expected: Vec<u8> = (0..count)
                .flat_map(|index| [bytes[index], bytes[index + 1]])
                .collect();
            check(Reply::Data(ReadData { slices }), 0, &expected);
        }
    }

    #[test]
    fn a_dropped_duty_answers_eio() {
        let (channel, kernel) = pair();
        drop(ReplyTo::device(&channel, 8));
        assert_eq!(kernel.receive(), ReplyHeader::encode(8, 5, 0));
    }

    #[test]
    fn a_gone_kernel_is_no_failure() {
        let (channel, kernel) = pair();
        drop(kernel);
        ReplyTo::device(&channel, 8).send(Reply::Done);
    }

    #[test]
    fn messages_and_the_end_are_received() {
        let (channel, kernel) = pair();
        kernel.send(b"abc");
        assert_eq!(channel.receive(&mut [0; 16]).unwrap().unwrap(), b"abc");
        drop(kernel);
        assert_eq!(channel.receive(&mut [0; 16]).unwrap(), None);
    }

    #[test]
    fn descriptors_are_made_to_block() {
        let (_kernel, device) = Kernel::pair();
        fcntl(&device, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let channel = Channel::new(device).unwrap();
        let flags = OFlag::from_bits_retain(fcntl(&channel.device, FcntlArg::F_GETFL).unwrap());
        assert!(!flags.contains(OFlag::O_NONBLOCK));
    }
}
