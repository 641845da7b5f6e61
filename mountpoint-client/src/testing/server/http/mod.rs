//! HTTP requests and answers as the server sees them, before and behind S3: heads, bodies, the log,
//! faults.

pub(super) mod body;
pub(super) mod chunked;
pub(super) mod faults;
pub(super) mod head;
pub(super) mod request_log;
pub(super) mod stalling;
