//! Whether the folder of a cache or of staged files lies outside of what is mounted: inside, it
//! would be objects of a bucket, and the mount refuses it.

use std::path::Path;

use crate::doctor::finding::{Area, Check, Finding};
use crate::fuse::{MountedAt, leads_into};

/// The place of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::doctor) enum Place {
    /// Within the directory to mount on.
    MountPoint,
    /// On another mount of this program, or one that may be.
    OtherMount,
    Elsewhere,
}

/// Finds the place of `folder`, which need not exist. A dead file system in its path may block this
/// for ever; the caller bounds it.
pub(in crate::doctor) fn look(folder: &Path, mount_point: &Path) -> Place {
    if leads_into(folder, mount_point) {
        return Place::MountPoint;
    }
    match MountedAt::of(folder) {
        Some(mount) if mount.is_ours() => Place::OtherMount,
        _ => Place::Elsewhere,
    }
}

/// The finding on the folder that `flag` names; `None` as the place means that the check timed out.
pub(in crate::doctor) fn judge(flag: &'static str, folder: &Path, place: Option<Place>) -> Finding {
    let shown = folder.display();
    let advice = format!("name a folder of a local disk with {flag}");
    match place {
        Some(Place::MountPoint) => Check(Area::Directory, flag)
            .error(format!("{shown} lies within the mount itself"), advice),
        Some(Place::OtherMount) => Check(Area::Directory, flag).warning(
            format!("{shown} lies on a FUSE mount: its files may be objects of this bucket"),
            advice,
        ),
        Some(Place::Elsewhere) => {
            Check(Area::Directory, flag).ok(format!("{shown} lies outside of the mount"))
        }
        None => Check(Area::Directory, flag).error(
            format!("{shown} does not answer: a dead file system is on the way to it"),
            advice,
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::doctor::finding::Level;
    use crate::doctor::finding::tests::expect;

    #[test]
    fn folders_within_the_mount_point_are_found_by_any_way_to_them() {
        let top = tempfile::tempdir().unwrap();
        let mount_point = top.path().join("mnt");
        std::fs::create_dir(&mount_point).unwrap();
        symlink(&mount_point, top.path().join("link")).unwrap();
        for (folder, place, level) in [
            ("mnt/cache", Place::MountPoint, Level::Error),
            ("link/a/../cache", Place::MountPoint, Level::Error),
            ("mnt-2/cache", Place::Elsewhere, Level::Ok),
        ] {
            let folder = top.path().join(folder);
            for mount_point in [&mount_point, &top.path().join("link")] {
                assert_eq!(look(&folder, mount_point), place, "{folder:?}");
            }
            expect(
                &[judge("--cache", &folder, Some(place))],
                "--cache",
                level,
                "the mount",
            );
        }
        let other = judge("--staging", Path::new("/m/s"), Some(Place::OtherMount));
        expect(&[other], "--staging", Level::Warning, "FUSE mount");
        let dead = judge("--staging", Path::new("/m/s"), None);
        expect(&[dead], "--staging", Level::Error, "does not answer");
    }
}
