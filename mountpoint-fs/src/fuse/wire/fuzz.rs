//! Messages of the kernel.

use super::request::Request;

/// One message: first with the length that its header should have, then as it is.
pub(crate) fn request(data: &[u8]) {
    let mut message = data.to_vec();
    if let (Some(len), Ok(right)) = (message.first_chunk_mut(), u32::try_from(data.len())) {
        *len = right.to_le_bytes();
    }
    for message in [&message[..], data] {
        // The log of requests shows a parsed message.
        drop(format!("{:?}", Request::parse(message)));
    }
}
