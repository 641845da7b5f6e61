//! Opening files: which version a handle reads, and names that mean another one by now.

use std::time::Duration;

use mountpoint_client::types::{Key, ObjectInfo};
use mountpoint_client::{ClientError, ErrorKind};

use super::Namespace;
use crate::namespace::inodes::table::View;
use crate::namespace::names;
use crate::namespace::open::{HeldBytes, HowToProve, OpenVersion, Opening, Proof};
use crate::namespace::refusals::{being_written, replaced};
use crate::namespace::version::{Found, Version};
use crate::operation::{FsError, InodeNo, Purpose, StaleName};

impl Namespace {
    /// The newest version of the file `ino`, which is held open from [`Namespace::opened`] to
    /// [`Namespace::close`].
    ///
    /// `is_vouched` says that [`Namespace::vouches`] for it. [`FsError::Stale`] if the name means
    /// another version by now, or no file: the caller looks it up again.
    pub async fn open(
        &self,
        ino: InodeNo,
        is_direct: bool,
        is_vouched: bool,
    ) -> Result<OpenVersion, FsError> {
        let View {
            parent,
            name,
            found,
            is_attached,
            is_written,
            observed,
            was_opened,
            ..
        } = self.table.view(ino)?;
        let Found::File(known) = found else {
            return Err(FsError::IsADirectory);
        };
        if !is_attached {
            return Err(replaced(&name));
        }
        if is_written {
            return Err(being_written(&name));
        }
        let prefix = self.table.directory_prefix(parent)?;
        let key = names::file_key(&prefix, &name)?;
        let now = self.now();
        let opening = Opening {
            is_direct,
            held: match was_opened {
                _ if self.config.has_cache => HeldBytes::OnDisk,
                true => HeldBytes::InPages,
                false => HeldBytes::Nowhere,
            },
            is_trusted: self.config.opens_unasked && observed.valid_until > now
                || self.known.own_since(&prefix).is_some(),
            size: if known.is_archived { 0 } else { known.size },
        };
        let how = match is_vouched {
            true => HowToProve::Trust,
            false => opening.how_to_prove(),
        };
        let (version, proof) = match how {
            HowToProve::Trust => (known, Proof::Known),
            HowToProve::Fetch => (known, Proof::Fetch),
            HowToProve::Head => {
                let asked = self.clock.now();
                let head = self.client.head(&key).await;
                (self.newest(ino, &key, head, asked)?, Proof::Known)
            }
        };
        if version.is_archived {
            return Err(FsError::Denied(format!(
                "{key} is archived; restore it to read it"
            )));
        }
        let first_bytes = self
            .resolver
            .first_bytes
            .take(ino, &version.etag, is_vouched);
        Ok(OpenVersion {
            key,
            first_bytes: first_bytes.filter(|_| proof == Proof::Known),
            version,
            proof,
        })
    }

    /// Whether the lookup of the system call that opens `ino` has just asked S3 about it, so that
    /// the open need not. It was asked before the call began if another call's lookup did: what
    /// other clients have written in between would be missed. True once.
    #[must_use]
    pub fn vouches(&self, ino: InodeNo, purpose: &dyn Purpose) -> bool {
        let asked = self.table.take_call(ino);
        asked.is_some() && asked == purpose.call()
    }

    /// The answer to an open's HEAD of `ino`, sent at `asked`: its version, or that it is stale.
    fn newest(
        &self,
        ino: InodeNo,
        key: &Key,
        head: Result<ObjectInfo, ClientError>,
        asked: Duration,
    ) -> Result<Version, FsError> {
        let head = match head {
            Ok(info) => Some(Found::File(Version::from(&info))),
            Err(error) if error.kind == ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        let view = head.and_then(|found| self.table.confirm(ino, &found, asked.into()));
        if let Some(written) = view.as_ref().filter(|view| view.is_written) {
            // Its writer has begun since.
            return Err(being_written(&written.name));
        }
        match view.map(|view| view.found) {
            Some(Found::File(version)) => Ok(version),
            Some(Found::Directory) | None => {
                self.distrust(ino);
                Err(replaced(key.as_str()))
            }
        }
    }

    /// A handle of `ino` was opened that reads `version`. Returns whether that was opened before,
    /// so that the kernel may have pages of it.
    ///
    /// [`FsError::Stale`] if the file was written through this mount since [`Namespace::open`] said
    /// that version, [`FsError::NotPermitted`] if it is being written.
    pub fn opened(&self, ino: InodeNo, version: &Version) -> Result<bool, FsError> {
        self.table.open_file(ino, version)
    }

    /// Whether the kernel may have the size of another version of `ino` than is opened now.
    #[must_use]
    pub fn was_found_again(&self, ino: InodeNo) -> bool {
        self.table.was_found_again(ino)
    }

    /// A handle of `ino` was closed.
    pub fn close(&self, ino: InodeNo) {
        self.table.close(ino);
    }

    /// A read found out that `ino` is no longer what its name means: the next look-up asks again,
    /// the kernel's too.
    pub fn is_replaced(&self, ino: InodeNo) {
        self.distrust(ino);
        if let Ok(View { parent, name, .. }) = self.table.view(ino) {
            // If too many wait, the kernel forgets it by itself a little later.
            let directory = parent;
            drop(self.stale_names.try_send(StaleName { directory, name }));
        }
    }

    /// Whether the kernel may still take `stale` for what it was: nobody has looked it up since.
    #[must_use]
    pub fn is_still_stale(&self, stale: &StaleName) -> bool {
        self.table.child(stale.directory, &stale.name).is_none()
    }

    /// `ino` is no longer what its name means: the next look-up asks again.
    pub fn distrust(&self, ino: InodeNo) {
        if let Ok(view) = self.table.view(ino) {
            if let Ok(prefix) = self.table.directory_prefix(view.parent) {
                self.known.contradicted(&prefix, &view.name);
                self.known.forget_own(&prefix);
            }
            self.table.detach(ino);
        }
    }
}
