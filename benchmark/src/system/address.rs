//! Where a system finds its bucket, and its folder of the local disk.

use std::path::Path;

use crate::server::{Access, ServerProcess};

/// Where the bucket is, and how to reach it.
#[derive(Clone, Debug)]
pub(crate) struct Address<'a> {
    pub(crate) url: String,
    pub(crate) bucket: &'a str,
    pub(crate) access: &'a Access,
    /// Empty: the kernel chooses.
    pub(crate) interfaces: &'a [String],
    /// Certificate of the only authority to trust; `None`: those of the operating system.
    pub(crate) authority: Option<&'a Path>,
}

impl<'a> Address<'a> {
    /// Over TLS with a certificate of `authority`, or over what the server's own URL says.
    pub(crate) fn of(server: &'a ServerProcess, authority: Option<&'a Path>) -> Self {
        let url = server.url();
        Self {
            url: match authority {
                Some(_) => url.replacen("http://", "https://", 1),
                None => url.to_owned(),
            },
            bucket: server.bucket(),
            access: server.access(),
            interfaces: server.interfaces(),
            authority,
        }
    }
}

/// A folder of the local disk for a system.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LocalFolder<'a> {
    /// A cache of the bytes that were read.
    Cache(&'a Path),
    /// The bytes that were written, before they are stored.
    Staging(&'a Path),
}
