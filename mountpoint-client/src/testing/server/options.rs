//! How an embedded server behaves.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::http::request_log::LogMode;

/// How a server is to be started.
#[derive(Clone)]
pub struct ServerOptions {
    /// Where it listens; port 0 for any that is free.
    pub address: SocketAddr,
    /// Access key and secret key that requests must be signed with. `None`: every request is
    /// accepted, unsigned or signed with any key.
    pub credentials: Option<(String, String)>,
    /// Region of its buckets, as HeadBucket and GetBucketLocation tell it.
    pub region: String,
    /// Threads that serve, at least 1.
    pub worker_threads: usize,
    /// Whether its port serves TLS beside plain HTTP, with a certificate of the authority
    /// [`Server::AUTHORITY`](super::Server::AUTHORITY).
    pub has_tls: bool,
    /// How much its log keeps.
    pub log: LogMode,
    /// How the ETags of parts are computed.
    pub part_tags: PartTags,
    /// Which sizes the parts of an upload may have.
    pub part_sizes: PartSizes,
    /// Parts that an object of a directory bucket may have when bytes are appended to it.
    pub append_parts_max: usize,
    /// How long a session of a directory bucket lasts.
    pub session_lifetime: Duration,
}

/// How the ETag of an upload's part is computed. S3 promises only that it tells one content from
/// another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartTags {
    /// The MD5 of its bytes, as S3's where nothing is encrypted with a key of KMS.
    #[default]
    Md5,
    /// The checksum that is computed in any case, unless the client sends an MD5. An MD5 takes more
    /// CPU time than all the rest of an upload, on the same cores as the client that is measured.
    Checksum,
}

/// Which sizes the parts of an upload may have. None but the last is below 5 MiB in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartSizes {
    /// Any, as in S3.
    #[default]
    Any,
    /// All but the last are equally large, and the last is not larger: as Cloudflare's R2 asks for.
    Equal,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            credentials: None,
            region: "us-east-1".to_owned(),
            worker_threads: 2,
            has_tls: false,
            log: LogMode::Full,
            part_tags: PartTags::default(),
            part_sizes: PartSizes::default(),
            append_parts_max: 10_000,
            // As S3's.
            session_lifetime: Duration::from_secs(300),
        }
    }
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the secret.
        let Self {
            address,
            credentials,
            region,
            worker_threads,
            has_tls,
            log,
            part_tags,
            part_sizes,
            append_parts_max,
            session_lifetime,
        } = self;
        let access_key = credentials.as_ref().map(|(access_key, _)| access_key);
        f.debug_struct("ServerOptions")
            .field("address", address)
            .field("access_key", &access_key)
            .field("region", region)
            .field("worker_threads", worker_threads)
            .field("has_tls", has_tls)
            .field("log", log)
            .field("part_tags", part_tags)
            .field("part_sizes", part_sizes)
            .field("append_parts_max", append_parts_max)
            .field("session_lifetime", session_lifetime)
            .finish()
    }
}
