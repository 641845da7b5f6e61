//! The `stat` attributes of inodes.

use std::time::{Duration, SystemTime};

use crate::config::FsConfig;
use crate::namespace::version::{Found, Version};
use crate::operation::{Attributes, FileKind, InodeNo};

/// Attributes that all inodes of a mount share.
#[derive(Clone, Copy, Debug)]
pub struct AttributeStyle {
    uid: u32,
    gid: u32,
    dir_mode: u16,
    file_mode: u16,
    /// Time of the mount, shown as every directory's time: S3 keeps no times of prefixes.
    mounted: SystemTime,
}

impl AttributeStyle {
    /// The attributes that `config` sets, for a mount made at `mounted`.
    #[must_use]
    pub fn new(config: &FsConfig, mounted: SystemTime) -> Self {
        let FsConfig {
            uid,
            gid,
            dir_mode,
            file_mode,
            ..
        } = *config;
        Self {
            uid,
            gid,
            dir_mode,
            file_mode,
            mounted,
        }
    }

    /// The group of what carries none.
    pub(crate) fn gid(&self) -> u32 {
        self.gid
    }

    /// Attributes of `ino`, valid for `ttl`; `found` is its kind and version.
    pub(crate) fn of(&self, ino: InodeNo, found: &Found, ttl: Duration) -> Attributes {
        match found {
            Found::Directory => self.directory(ino, ttl),
            Found::File(version) => self.file(ino, version, ttl),
        }
    }

    /// Attributes of a directory.
    pub(crate) fn directory(&self, ino: InodeNo, ttl: Duration) -> Attributes {
        let Self {
            uid,
            gid,
            dir_mode: mode,
            mounted: mtime,
            ..
        } = *self;
        Attributes {
            ino,
            kind: FileKind::Directory,
            size: 0,
            mtime,
            mode,
            nlink: 1,
            uid,
            gid,
            ttl,
        }
    }

    /// Attributes of a file. An archived file has no permissions, because no user can read it.
    pub(crate) fn file(&self, ino: InodeNo, version: &Version, ttl: Duration) -> Attributes {
        let Self {
            uid,
            gid,
            file_mode,
            ..
        } = *self;
        let mode = if version.is_archived { 0 } else { file_mode };
        let Version { size, mtime, .. } = *version;
        Attributes {
            ino,
            kind: FileKind::File,
            size,
            mtime,
            mode,
            nlink: 1,
            uid,
            gid,
            ttl,
        }
    }
}
