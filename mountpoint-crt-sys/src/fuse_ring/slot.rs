//! An entry with a request in it.

use std::slice;
use std::sync::Arc;

use super::memory::{HEAD_SPACE, Memory};

/// A request from the kernel, and the place for its reply. Its memory is nobody else's until it is
/// committed.
///
/// To drop one leaves the request without an answer for as long as the connection lives.
#[derive(Debug)]
pub struct Slot {
    memory: Arc<Memory>,
    entry: usize,
    commit_id: u64,
    /// Bytes of the message before the payload: the request's header and the operation's.
    head_len: usize,
    /// Bytes of the message in the payload.
    body_len: usize,
    /// Bytes of the payload that were written to, by the kernel or by the reply.
    touched: usize,
}

impl Slot {
    /// The request that the kernel has put into `entry`.
    ///
    /// # Safety
    /// The kernel must have handed the entry over, and there must be no other slot of it.
    pub(super) unsafe fn arrived(memory: &Arc<Memory>, entry: usize) -> Self {
        let mut slot = Self {
            memory: Arc::clone(memory),
            entry,
            commit_id: 0,
            head_len: 0,
            body_len: 0,
            touched: 0,
        };
        slot.read_headers();
        slot
    }

    /// Parses the request that has arrived.
    fn read_headers(&mut self) {
        self.commit_id = self.u64_at(COMMIT_ID);
        let message_len = self.u32_at(HEADERS);
        let body_len = self.u32_at(PAYLOAD_LEN);
        let operation_len = message_len.checked_sub(body_len + REQUEST_HEADER_LEN);
        let payload_max = self.memory.payload_len();
        (self.head_len, self.body_len) = match operation_len {
            Some(len) if len <= OPERATION_LEN_MAX && body_len <= payload_max => {
                (REQUEST_HEADER_LEN + len, body_len)
            }
            // The reader finds that the header's length is not the message's.
            _ => (REQUEST_HEADER_LEN, 0),
        };
        self.touched = self.body_len;
        self.join_head();
    }

    /// Puts the two headers in front of the payload, so that the message is one piece. At most 168
    /// bytes are copied.
    fn join_head(&mut self) {
        let start = HEAD_SPACE - self.head_len;
        let operation_len = self.head_len - REQUEST_HEADER_LEN;
        let bytes = self.bytes_mut();
        bytes.copy_within(HEADERS..HEADERS + REQUEST_HEADER_LEN, start);
        let operation = OPERATION..OPERATION + operation_len;
        bytes.copy_within(operation, start + REQUEST_HEADER_LEN);
    }

    /// The request, as `/dev/fuse` would have delivered it.
    #[must_use]
    pub fn message(&self) -> &[u8] {
        &self.bytes()[HEAD_SPACE - self.head_len..HEAD_SPACE + self.body_len]
    }

    /// The request's number.
    #[must_use]
    pub fn unique(&self) -> u64 {
        self.u64_at(HEADERS + 8)
    }

    /// Largest body of a reply.
    #[must_use]
    pub fn body_max(&self) -> usize {
        self.memory.payload_len()
    }

    /// Puts the reply in place of the request: `header` is a `fuse_out_header`, `body` the pieces
    /// of what follows it.
    ///
    /// # Panics
    /// If the body is longer than [`body_max`](Self::body_max).
    pub fn set_reply<'b>(&mut self, header: [u8; 16], body: impl Iterator<Item = &'b [u8]>) {
        let commit_id = self.commit_id;
        let bytes = self.bytes_mut();
        bytes[HEADERS..HEADERS + header.len()].copy_from_slice(&header);
        let payload = &mut bytes[HEAD_SPACE..];
        let mut len = 0;
        for piece in body {
            payload[len..len + piece.len()].copy_from_slice(piece);
            len += piece.len();
        }
        // `fuse_uring_ent_in_out`: flags, the request's number, length of the payload, and the rest
        // zero.
        let about = &mut bytes[ABOUT..ABOUT + ABOUT_LEN];
        about.fill(0);
        about[8..16].copy_from_slice(&commit_id.to_ne_bytes());
        let payload_len = u32::try_from(len).expect("payloads are shorter than 4 GiB");
        about[16..20].copy_from_slice(&payload_len.to_ne_bytes());
        self.touched = self.touched.max(len);
    }

    /// The kernel's part, for tests without one.
    #[cfg(test)]
    pub(super) fn with_request(mut self, header: &[u8], operation: &[u8], payload: &[u8]) -> Self {
        let payload_len = u32::try_from(payload.len()).expect("it fits");
        let bytes = self.bytes_mut();
        bytes[HEADERS..HEADERS + header.len()].copy_from_slice(header);
        bytes[OPERATION..OPERATION + operation.len()].copy_from_slice(operation);
        bytes[HEAD_SPACE..HEAD_SPACE + payload.len()].copy_from_slice(payload);
        bytes[PAYLOAD_LEN..PAYLOAD_LEN + 4].copy_from_slice(&payload_len.to_ne_bytes());
        self.read_headers();
        self
    }

    pub(super) fn is_of(&self, memory: &Arc<Memory>) -> bool {
        Arc::ptr_eq(&self.memory, memory)
    }

    pub(super) fn entry(&self) -> usize {
        self.entry
    }

    pub(super) fn commit_id(&self) -> u64 {
        self.commit_id
    }

    pub(super) fn touched(&self) -> usize {
        self.touched
    }

    fn u32_at(&self, offset: usize) -> usize {
        let field = self.bytes()[offset..offset + 4].try_into();
        u32::from_ne_bytes(field.expect("four bytes")) as usize
    }

    fn u64_at(&self, offset: usize) -> u64 {
        let field = self.bytes()[offset..offset + 8].try_into();
        u64::from_ne_bytes(field.expect("eight bytes"))
    }

    fn bytes(&self) -> &[u8] {
        let start = self.memory.entry(self.entry);
        // SAFETY: the whole entry is mapped, readable and, as a new mapping is, zero where nobody
        // wrote. It is this slot's alone.
        unsafe { slice::from_raw_parts(start.as_ptr(), self.memory.entry_len()) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let start = self.memory.entry(self.entry);
        // SAFETY: as above, and writable; the slot is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), self.memory.entry_len()) }
    }
}

// `struct fuse_uring_req_header` of `linux/fuse.h`: 128 bytes for the header of the request, later
// of the reply; 128 for the operation's own; and 32 about the entry.

/// Where it lies: near the end of the head space, in the page in which the message's head is put
/// together.
pub(super) const HEADERS: usize = HEAD_SPACE - 512;
/// Where the operation's header lies.
const OPERATION: usize = HEADERS + 128;
const OPERATION_LEN_MAX: usize = 128;
/// Where `fuse_uring_ent_in_out` lies.
const ABOUT: usize = OPERATION + OPERATION_LEN_MAX;
const ABOUT_LEN: usize = 32;
const COMMIT_ID: usize = ABOUT + 8;
const PAYLOAD_LEN: usize = ABOUT + 16;
/// All of it.
pub(super) const HEADERS_LEN: usize = ABOUT + ABOUT_LEN - HEADERS;
/// `fuse_in_header`.
const REQUEST_HEADER_LEN: usize = 40;
