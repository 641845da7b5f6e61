//! Metadata of objects, which any client may have written.

use std::time::SystemTime;

use super::FileKind;
use super::posix::PosixAttributes;
use super::xattrs::ExtendedAttributes;

/// Lines of `name:value`.
pub(crate) fn metadata(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let mut metadata: Vec<_> = pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let extended = ExtendedAttributes::of(&metadata);
    extended.store(&mut metadata);
    assert_eq!(ExtendedAttributes::of(&metadata), extended);
    let posix = PosixAttributes::of(&metadata);
    posix.store(FileKind::File, SystemTime::UNIX_EPOCH, &mut metadata);
    let again = PosixAttributes::of(&metadata);
    assert_eq!(
        (again.mode, again.uid, again.gid, again.mtime),
        (posix.mode, posix.uid, posix.gid, posix.mtime)
    );
    if let Some(time) = posix.mtime {
        posix.store(FileKind::File, time, &mut metadata);
        assert!(!PosixAttributes::says_more(&metadata, &metadata));
    }
    assert!(PosixAttributes::are_equal_but_for_change(
        &metadata, &metadata
    ));
}
