//! The headers that objects carry, and their changes.
//!
//! A change of a file that is being written goes to its writer, which sends it with the file. The
//! server copies the object of any other file onto itself; a directory's object is its marker.

use mountpoint_client::types::{Key, ObjectDetails, ObjectHeaders};

use crate::config::limits::METADATA_LEN_MAX;
use crate::fs::markers::{self, hold_pending_marker, show_staged_marker, stage_marker};
use crate::fs::parts::Parts;
use crate::mutate::Mutator;
use crate::namespace::{KeyLockGuard, NameChange, Version};
use crate::operation::{
    Attributes, FileKind, FsError, InodeNo, Maker, PosixAttributes, WriteOptions,
};

/// stat data of an inode, from S3 if they are too old.
///
/// [`FsError::NotFound`] if the inode's name is gone, [`FsError::Stale`] if the name means another
/// object.
pub(in crate::fs) async fn stat(parts: &Parts, ino: InodeNo) -> Result<Attributes, FsError> {
    let mut attributes = parts.namespace.attributes(ino).await?;
    show_staged_marker(parts, &mut attributes);
    Ok(attributes)
}

/// Changes the headers of `ino`. `change` is called once.
///
/// A rename waits as long as the returned guard is held.
pub(super) async fn change_headers(
    parts: &Parts,
    ino: InodeNo,
    change: impl FnOnce(&mut ObjectHeaders) -> Result<(), FsError> + Send,
) -> Result<Option<KeyLockGuard<'_>>, FsError> {
    if ino == InodeNo::ROOT {
        return Err(FsError::NotPermitted(
            "the attributes of the mounted directory itself are set by --dir-mode, --uid and --gid"
                .to_owned(),
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
    if let Some(staged) = parts.staged.of(ino) {
        if staged.file.change_headers(change).await? {
            staged.file.commit_headers().await?;
            return Ok(None);
        }
        // A record that a kill brings back has the headers of before.
        staged.file.settle().await?;
        let _held = staged.file.hold_stores().await;
        let name = parts.namespace.change_inode(ino)?;
        let mut object = object(parts, &name).await?;
        object.headers = changed.expect("it was changed");
        return replace_headers(parts, name, &object).await;
    }
    let is_directory = stat(parts, ino).await?.kind == FileKind::Directory;
    let name = parts.namespace.change_inode(ino)?;
    if is_directory {
        let prefix = name.prefix()?;
        if let Some(marker) = hold_pending_marker(parts, &prefix).await? {
            marker.change_headers(change).await?;
            return Ok(name.changed());
        }
        // Asked first: the answer is another one from then on.
        let is_first = name.takes_marker();
        match markers::waits(parts, is_first) {
            true => stage_marker(parts, &name, change).await?,
            false => parts.mutator.change_marker(&prefix, change).await?,
        }
        return Ok(name.changed());
    }
    let mut object = object(parts, &name).await?;
    change(&mut object.headers)?;
    replace_headers(parts, name, &object).await
}

/// Replaces the object's headers by those of `object`.
///
/// A rename waits as long as the returned guard is held.
pub(super) async fn replace_headers<'a>(
    parts: &Parts,
    name: NameChange<'a>,
    object: &ObjectDetails,
) -> Result<Option<KeyLockGuard<'a>>, FsError> {
    let (info, headers) = (&object.info, object.headers.clone());
    let seen = (&info.etag, info.size);
    let renewal = parts.reading.renewing(&info.key, &info.etag);
    let etag = parts.mutator.replace_headers(&info.key, seen, headers);
    let etag = etag.await?;
    renewal.made(&etag);
    if let Some((ino, _)) = name.known()
        && let Some(staged) = parts.staged.of(*ino)
    {
        staged.file.headers_replaced(&info.etag, &etag);
    }
    name.replaced_in_place(Version {
        etag,
        // About that of the object, until S3 is asked.
        mtime: parts.wall_now(),
        ..Version::from(&object.info)
    })
}

/// The object of a change, in the version of the inode.
pub(super) async fn object(parts: &Parts, name: &NameChange<'_>) -> Result<ObjectDetails, FsError> {
    let (_, known) = name.file()?;
    describe_version(&parts.mutator, name.key(), known).await
}

/// The headers of a file that replaces `ino` as a whole.
///
/// With `--posix-metadata` the attributes of the old file are kept.
pub(in crate::fs) async fn headers_of_replaced(
    parts: &Parts,
    ino: InodeNo,
) -> Result<Option<ObjectHeaders>, FsError> {
    if !parts.config.posix_metadata {
        return Ok(None);
    }
    let details = parts.namespace.details(ino).await?;
    Ok(details.map(|details| details.headers.clone()))
}

/// The object's details, if it has that version.
pub(in crate::fs) async fn describe_version(
    mutator: &Mutator,
    key: &Key,
    version: &Version,
) -> Result<ObjectDetails, FsError> {
    match mutator.describe(key).await {
        Ok(object) if version.is_same(&Version::from(&object.info)) => Ok(object),
        Ok(_) => Err(FsError::Stale(format!("{key} was replaced just now"))),
        // Linux then looks the path up once more, and reports that the file does not exist.
        Err(FsError::NotFound) => Err(FsError::Stale(format!("{key} was deleted just now"))),
        Err(error) => Err(error),
    }
}

/// The POSIX attributes of a new file in `parent`, if stored.
pub(in crate::fs) fn posix_of_new(
    parts: &Parts,
    parent: InodeNo,
    options: WriteOptions,
) -> Option<PosixAttributes> {
    let is_stored = parts.config.posix_metadata;
    is_stored.then(|| posix_in(parts, parent, options.mode, options.maker))
}

/// Attributes of what `maker` makes in `parent`: of a file, unless the caller changes that.
/// A directory with the set-group-ID bit passes its group on.
pub(in crate::fs) fn posix_in(
    parts: &Parts,
    parent: InodeNo,
    mode: Option<u16>,
    maker: Option<Maker>,
) -> PosixAttributes {
    let (uid, gid) = maker.map_or(parts.owner, |maker| (maker.uid, maker.gid));
    PosixAttributes {
        mode,
        special: None,
        uid: Some(uid),
        gid: parts.namespace.passed_group(parent).or(Some(gid)),
        mtime: None,
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
