//! The values that go in and out of an [`ObjectClient`](crate::ObjectClient).
//!
//! Plain data: parsed once at the edge, so that no later code need check it again.

mod etag;
mod headers;
mod key;
mod token;

use std::ops::Range;
use std::time::SystemTime;

use bytes::Bytes;

pub use etag::ETag;
pub use headers::{KmsEncryption, ObjectHeaders};
pub use key::Key;
pub use mountpoint_crt_sys::bytes_of_text;
pub use token::WriteToken;

/// How urgent a GET is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// An application is blocked on these bytes.
    Foreground,
    /// Asked for ahead of the reader; leaves a share of the connections free.
    ReadAhead,
    /// An application is blocked on these bytes, and another GET that was to bring them is late.
    Hedge {
        /// The network interface of that one, which this is not to take if there is another.
        avoid: Option<usize>,
    },
}

/// One ranged GET.
#[derive(Clone, Debug)]
pub struct GetRequest {
    /// The object.
    pub key: Key,
    /// Bytes of the object, half-open and never empty.
    pub range: Range<u64>,
    /// The version the bytes must come from. `None` only where the caller has seen no version yet.
    pub if_match: Option<ETag>,
    /// Size of that version in bytes, where the caller was told it: an answer that says another one
    /// is refused.
    pub object_size: Option<u64>,
    /// How urgent the GET is.
    pub priority: Priority,
}

/// Version and size that a finished GET tells besides its bytes.
#[derive(Clone, Debug)]
pub struct GetOutput {
    /// The version the bytes came from.
    pub etag: ETag,
    /// Size of the whole object in bytes.
    pub object_size: u64,
}

/// One object, as HEAD or a listing describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The object.
    pub key: Key,
    /// Size in bytes.
    pub size: u64,
    /// Its current version.
    pub etag: ETag,
    /// When that version was written.
    pub last_modified: SystemTime,
    /// `STANDARD`, `GLACIER`, …; `None` where the server does not say.
    pub storage_class: Option<String>,
    /// Whether an archived object has a restored copy that can be read now.
    pub restored: bool,
}

/// The first bytes of an object, and what S3 says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstBytes {
    /// The object, of the version that the bytes are from.
    pub info: ObjectInfo,
    /// Its first bytes: all that were asked for, or all there are.
    pub bytes: Bytes,
}

/// All that HEAD says of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectDetails {
    /// Key, size, version and times, as in a listing.
    pub info: ObjectInfo,
    /// Headers and metadata of the object, without its token.
    pub headers: ObjectHeaders,
    /// The token of the write that made it, if that carried one.
    pub token: Option<WriteToken>,
    /// Its version; `None` in a bucket without versions.
    pub version_id: Option<String>,
    /// Its checksum, which is asked for only where bytes can be appended.
    pub checksum: StoredChecksum,
}

/// Of which kind the checksum is that S3 keeps of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoredChecksum {
    /// None, or the server does not say.
    #[default]
    None,
    /// One that can be sent with bytes that are appended.
    Of(ChecksumAlgorithm),
    /// Another one.
    Other,
}

/// One page of ListObjectsV2.
#[derive(Clone, Debug, Default)]
pub struct ListRequest {
    /// Only keys that begin with this; empty for all.
    pub prefix: String,
    /// Keys that share a prefix up to this are rolled up into one common prefix.
    pub delimiter: Option<String>,
    /// Only keys after this one, in UTF-8 byte order.
    pub start_after: Option<String>,
    /// Where the page before ended, from [`ListOutput::continuation_token`].
    pub continuation_token: Option<String>,
    /// At most this many entries, 0 to 1000; `None` for the server's default of 1000.
    pub max_keys: Option<u16>,
}

/// One page of keys. A page without entries is the last one.
#[derive(Clone, Debug, Default)]
pub struct ListOutput {
    /// Objects, in UTF-8 byte order of their keys on general purpose buckets.
    pub objects: Vec<ObjectInfo>,
    /// Prefixes that end with the delimiter.
    pub common_prefixes: Vec<String>,
    /// Pass it to the next request; `None` on the last page.
    pub continuation_token: Option<String>,
    /// How often the server said to slow down before it answered.
    pub slow_downs: u32,
}

/// Condition of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PutCondition {
    /// Write whatever is there.
    #[default]
    None,
    /// Only if the key holds this version (`If-Match`).
    Match(ETag),
    /// Only if the key holds nothing (`If-None-Match: *`).
    Absent,
}

/// Checksum to send with bytes that are uploaded. The value is the checksum itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// CRC-32C (Castagnoli).
    Crc32c(u32),
    /// CRC-64/NVME.
    Crc64Nvme(u64),
}

/// Which checksum a multipart upload is created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumAlgorithm {
    /// CRC-32C, a checksum of the parts' checksums.
    Crc32c,
    /// CRC-64/NVME, a checksum of the whole object.
    Crc64Nvme,
}

/// Bytes of metadata that S3 stores with an object: names and values together.
pub const USER_METADATA_LEN_MAX: usize = 2048;

/// PutObject, in one request.
#[derive(Clone, Debug)]
pub struct PutRequest {
    /// The object.
    pub key: Key,
    /// All bytes of it.
    pub body: Bytes,
    /// When to write.
    pub condition: PutCondition,
    /// Checksum of `body`, verified by the server.
    pub checksum: Option<Checksum>,
    /// Headers and metadata of the object.
    pub headers: ObjectHeaders,
}

/// PutObject behind the end of an object that is there, in one request.
#[derive(Clone, Debug)]
pub struct AppendRequest {
    /// The object.
    pub key: Key,
    /// Its size, behind which the bytes come.
    pub offset: u64,
    /// The version that it must be.
    pub if_match: ETag,
    /// The bytes, at least one.
    pub body: Bytes,
    /// Checksum of `body`, verified by the server; of the algorithm that the object has.
    pub checksum: Option<Checksum>,
}

/// The outcome of a finished write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutOutput {
    /// The new version.
    pub etag: ETag,
}

/// An open multipart upload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Upload {
    /// The object it will become.
    pub key: Key,
    /// S3's name for it.
    pub upload_id: String,
}

/// Number of a part, 1 to 10,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartNumber(pub u16);

/// A part that S3 holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its place in the object.
    pub number: PartNumber,
    /// S3's tag of it, needed to complete the upload.
    pub etag: ETag,
    /// Size in bytes; 0 where the caller made it and does not know.
    pub size: u64,
    /// Checksum that was sent with it.
    pub checksum: Option<Checksum>,
}

/// One key of DeleteObjects that was not deleted.
#[derive(Clone, Debug)]
pub struct DeleteFailure {
    /// The object that is still there.
    pub key: Key,
    /// Why.
    pub error: crate::ClientError,
}

/// Source of a server-side copy.
#[derive(Clone, Debug)]
pub struct CopySource {
    /// The object, in the same bucket.
    pub key: Key,
    /// The version it must be.
    pub if_match: Option<ETag>,
}

/// Headers and metadata of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyHeaders {
    /// The headers of the source. S3 does not copy the storage class, the encryption and the
    /// redirection: the request takes only these three from the given headers.
    Same(ObjectHeaders),
    /// New headers, and none of the source. An object may so be copied onto itself.
    New(ObjectHeaders),
}

/// The answer to HeadBucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketInfo {
    /// `x-amz-bucket-region`, where the server sends it.
    pub region: Option<String>,
}
