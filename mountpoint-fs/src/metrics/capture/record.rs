//! The records, as they travel from the mount to the command that asked. Values only.
//!
//! Times are in nanoseconds since the capture began.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureRecord {
    /// A request of the kernel has ended.
    Call(Box<CallRecord>),
    /// A request to S3 has ended.
    Attempt(Box<AttemptRecord>),
    /// The level of a gauge.
    Level(LevelRecord),
}

/// A request of the kernel. Fields that such a request does not have are empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallRecord {
    /// Its number, which is not 0.
    pub call: u64,
    /// The operation, such as `read`.
    pub operation: Cow<'static, str>,
    /// When it arrived.
    pub began: u64,
    /// Time to its reply.
    pub took: u64,
    /// The inode.
    pub inode: u64,
    /// The inode that was found or made in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<u64>,
    /// The key of the file, or of the name in that directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The open file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<u64>,
    /// The first byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Bytes that were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub len: Option<u64>,
    /// Bytes that were read or written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// Size of the stored file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The thread that waits; 0 if it is not known.
    pub thread: u32,
    /// Its process; 0 if it is not known.
    pub process: u32,
    /// The name of its process.
    pub program: String,
    /// The error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<String>,
    /// Its first waits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitRecord>,
    /// All its time by cause; the `began` of each is 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waited: Vec<WaitRecord>,
    /// Whether it had requests to S3 sent.
    pub causes: bool,
    /// Whether it had no reply when the capture ended.
    pub is_unfinished: bool,
}

/// A wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitRecord {
    /// The cause.
    pub cause: Cow<'static, str>,
    /// Its begin.
    pub began: u64,
    /// Its time.
    pub took: u64,
}

/// An attempt at a request to S3.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttemptRecord {
    /// The operation, such as `GetObject`.
    pub operation: Cow<'static, str>,
    /// `s3://bucket/key`.
    pub target: String,
    /// When it was sent.
    pub began: u64,
    /// Time to the end of the answer.
    pub took: u64,
    /// Time to the first byte of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<u64>,
    /// The first and the last byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// Number among the attempts at the same request, from 1.
    pub number: u32,
    /// The status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// S3's name of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The reason why there was no whole answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Bytes of the body that was sent.
    pub sent: u64,
    /// Bytes of the object that were received.
    pub received: u64,
    /// The request of the kernel that caused it; 0 if there is none, or it is not captured.
    pub call: u64,
}

/// The level of a gauge at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelRecord {
    /// The time.
    pub at: u64,
    /// The metric.
    pub name: String,
    /// Its value.
    pub value: f64,
}
