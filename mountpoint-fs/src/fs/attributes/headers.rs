//! The headers that objects carry, and their changes.
//!
//! A change of a file that is being written goes to its writer, which sends it with the file. The
//! server copies the object of any other file onto itself; a directory's object is its marker.

use mountpoint_client::types::{Key, ObjectDetails, ObjectHeaders};

use crate::config::limits::METADATA_LEN_MAX;
use crate::fs::FileSystem;
use crate::namespace::{KeyLockGuard, NameChange, Version};
use crate::operation::{FileKind, FsError, InodeNo, Maker, PosixAttributes, WriteOptions};

impl FileSystem {
    /// Changes the headers of `ino`. `change` is called once.
    ///
    /// A rename waits as long as the returned guard is held.
    pub(in crate::fs) async fn change_headers(
        &self,
        ino: InodeNo,
        change: impl FnOnce(&mut ObjectHeaders) -> Result<(), FsError> + Send,
    ) -> Result<Option<KeyLockGuard<'_>>, FsError> {
        if ino == InodeNo::ROOT {
            return Err(FsError::NotPermitted(
                "the attributes of the mounted directory itself are set by --dir-mode, --uid and --gid".to_owned(),
            ));
        }
        let mut changed = None;
        let change = |headers: &mut ObjectHeaders| {
            let mut new = headers.clone();
            change(&mut new)?;
            check_len(&new)?;
            changed = Some(new.clone());
            *headers = new;
            Ok(())
        };
        if let Some(staged) = self.staged_file(ino) {
            if staged.file.change_headers(change).await? {
                staged.file.commit_headers().await?;
                return Ok(None);
            }
            // A record that a kill brings back has the headers of before.
            staged.file.settle().await?;
            let _held = staged.file.hold_stores().await;
            let name = self.namespace.change_inode(ino)?;
            let mut object = self.object(&name).await?;
            object.headers = changed.expect("it was changed");
            return self.replace_headers(name, &object).await;
        }
        let is_directory = self.attributes(ino).await?.kind == FileKind::Directory;
        let name = self.namespace.change_inode(ino)?;
        if is_directory {
            let prefix = name.prefix()?;
            if let Some(marker) = self.hold_pending_marker(&prefix).await? {
                marker.change_headers(change).await?;
                return Ok(name.changed());
            }
            let is_first = name.takes_marker();
            match self.marker_staging(is_first) {
                Some(files) => self.stage_marker(files, &name, change).await?,
                None => self.mutator.change_marker(&prefix, change).await?,
            }
            return Ok(name.changed());
        }
        let mut object = self.object(&name).await?;
        change(&mut object.headers)?;
        self.replace_headers(name, &object).await
    }

    /// Replaces the object's headers by those of `object`.
    ///
    /// A rename waits as long as the returned guard is held.
    pub(in crate::fs) async fn replace_headers<'a>(
        &self,
        name: NameChange<'a>,
        object: &ObjectDetails,
    ) -> Result<Option<KeyLockGuard<'a>>, FsError> {
        let (info, headers) = (&object.info, object.headers.clone());
        let seen = (&info.etag, info.size);
        let renewal = self.reading.renewing(&info.key, &info.etag);
        let etag = self.mutator.replace_headers(&info.key, seen, headers);
        let etag = etag.await?;
        renewal.made(&etag);
        if let Some((ino, _)) = name.known()
            && let Some(staged) = self.staged_file(*ino)
        {
            staged.file.headers_replaced(&info.etag, &etag);
        }
        name.replaced_in_place(Version {
            etag,
            // About that of the object, until S3 is asked.
            mtime: self.wall_now(),
            ..Version::from(&object.info)
        })
    }

    /// The object of a change, in the version of the inode.
    pub(in crate::fs) async fn object(
        &self,
        name: &NameChange<'_>,
    ) -> Result<ObjectDetails, FsError> {
        let (_, known) = name.file()?;
        self.describe_version(name.key(), known).await
    }

    /// The headers of a file that replaces `ino` as a whole.
    ///
    /// With `--posix-metadata` the attributes of the old file are kept.
    pub(in crate::fs) async fn headers_of_replaced(
        &self,
        ino: InodeNo,
    ) -> Result<Option<ObjectHeaders>, FsError> {
        if !self.write.posix_metadata {
            return Ok(None);
        }
        let details = self.namespace.details(ino).await?;
        Ok(details.map(|details| details.headers.clone()))
    }

    /// The object's details, if it has that version.
    pub(in crate::fs) async fn describe_version(
        &self,
        key: &Key,
        version: &Version,
    ) -> Result<ObjectDetails, FsError> {
        match self.mutator.describe(key).await {
            Ok(object) if version.is_same(&Version::from(&object.info)) => Ok(object),
            Ok(_) => Err(FsError::Stale(format!("{key} was replaced just now"))),
            // Linux then looks the path up once more, and reports that the file does not exist.
            Err(FsError::NotFound) => Err(FsError::Stale(format!("{key} was deleted just now"))),
            Err(error) => Err(error),
        }
    }

    /// The POSIX attributes of a new file in `parent`, if stored.
    pub(in crate::fs) fn posix_of_new(
        &self,
        parent: InodeNo,
        options: WriteOptions,
    ) -> Option<PosixAttributes> {
        let is_stored = self.write.posix_metadata;
        is_stored.then(|| self.posix_in(parent, options.mode, options.maker))
    }

    /// Attributes of what `maker` makes in `parent`: of a file, unless the caller changes that.
    /// A directory with the set-group-ID bit passes its group on.
    pub(in crate::fs) fn posix_in(
        &self,
        parent: InodeNo,
        mode: Option<u16>,
        maker: Option<Maker>,
    ) -> PosixAttributes {
        let (uid, gid) = maker.map_or(self.owner, |maker| (maker.uid, maker.gid));
        PosixAttributes {
            mode,
            special: None,
            uid: Some(uid),
            gid: self.namespace.passed_group(parent).or(Some(gid)),
            mtime: None,
        }
    }
}

/// Checks S3's limit of metadata. S3 itself would report an excess only when a file is stored.
fn check_len(headers: &ObjectHeaders) -> Result<(), FsError> {
    let len = headers.metadata_len();
    if len <= METADATA_LEN_MAX {
        return Ok(());
    }
    Err(FsError::NoSpace(format!(
        "an object carries at most {METADATA_LEN_MAX} bytes of metadata, extended attributes among them; these are {len}"
    )))
}
