//! The user that makes a name.

use nix::unistd::geteuid;

use crate::fuse::wire::Header;
use crate::operation::Maker;

/// The user that makes a name, unless that is the user of the mount, whose files belong to the
/// owner that the flags name.
pub(super) fn maker(header: &Header) -> Option<Maker> {
    let (uid, gid) = (header.uid, header.gid);
    (uid != geteuid().as_raw()).then_some(Maker { uid, gid })
}
