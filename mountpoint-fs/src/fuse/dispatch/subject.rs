//! The subject of a request, for a recording of it: the file, the range, the thread.

use std::ffi::OsStr;

use crate::fs::FileSystem;
use crate::fuse::wire::{Mutation, Operation, Request};
use crate::metrics::capture::CallRecord;
use crate::operation::InodeNo;

/// The subject of `request` to `fs`.
pub(super) fn subject(fs: &FileSystem, request: &Request<'_>) -> CallRecord {
    let Request { header, operation } = request;
    let ino = InodeNo(header.node);
    let known = CallRecord {
        call: header.unique,
        thread: header.pid,
        inode: header.node,
        key: fs.key_text(ino, name_in(operation)),
        ..CallRecord::default()
    };
    match *operation {
        Operation::Open { .. } => CallRecord {
            size: fs.stored_size(ino),
            ..known
        },
        Operation::Read {
            handle,
            offset,
            size,
            ..
        } => CallRecord {
            handle: Some(handle),
            offset: Some(offset),
            len: Some(u64::from(size)),
            size: fs.stored_size(ino),
            ..known
        },
        Operation::Write {
            handle,
            offset,
            ref data,
            ..
        } => CallRecord {
            handle: Some(handle),
            offset: Some(offset),
            len: Some(data.0.len() as u64),
            ..known
        },
        Operation::Flush { handle }
        | Operation::Sync { handle }
        | Operation::Release { handle }
        | Operation::ReadDirectory { handle, .. }
        | Operation::ReleaseDirectory { handle } => CallRecord {
            handle: Some(handle),
            ..known
        },
        Operation::Mutate(Mutation::CopyRange(ref copy)) => CallRecord {
            handle: Some(copy.handle),
            offset: Some(copy.offset),
            len: Some(copy.len),
            ..known
        },
        _ => known,
    }
}

/// The name in the directory that a request is about.
fn name_in<'a>(operation: &Operation<'a>) -> Option<&'a OsStr> {
    match *operation {
        Operation::Lookup { name }
        | Operation::Create { name, .. }
        | Operation::MakeNode { name, .. }
        | Operation::Mutate(
            Mutation::Unlink { name }
            | Mutation::RemoveDirectory { name }
            | Mutation::MakeDirectory { name, .. }
            | Mutation::Rename { name, .. }
            | Mutation::SymbolicLink { name, .. }
            | Mutation::HardLink { name, .. },
        ) => Some(name),
        _ => None,
    }
}
