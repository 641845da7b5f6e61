//! One request of the CRT and its answer: a ranged GET, or a message with a body.

pub(crate) mod buffer_pool;
pub(crate) mod exchange;
pub(crate) mod get;
pub(crate) mod head;
pub(crate) mod header_text;
pub(crate) mod send;
pub(crate) mod types;
