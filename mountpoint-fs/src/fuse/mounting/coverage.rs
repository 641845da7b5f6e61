//! The paths that lead into a mount, found without touching it: it may not serve yet, or be dead.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};

use super::mount_info::{DeviceNumber, MountInfo};
use super::mount_options::MOUNT_TYPE;

/// A mount, at all directories where this process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage(Which);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    /// The mounts of one connection.
    Number(DeviceNumber),
    /// The mount is one of the FUSE mounts.
    SomeFuse,
}

impl Coverage {
    /// The coverage of the mount with this number.
    pub(in crate::fuse) fn of(number: DeviceNumber) -> Self {
        Self(Which::Number(number))
    }

    /// The coverage of the mount whose device has this number, as [`super::Mount::device_name`]
    /// tells it; `None` for any other text.
    #[must_use]
    pub fn of_named(device: &str) -> Option<Self> {
        let (major, minor) = device.split_once(':')?;
        let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
        Some(Self::of(DeviceNumber { major, minor }))
    }

    /// The coverage of the mount that `device` serves, made by another process. If the kernel does
    /// not tell which mount that is, every FUSE mount counts: a look at a path in it would wait for
    /// this process itself.
    pub(in crate::fuse) fn of_device(device: &impl AsFd) -> Self {
        let number = DeviceNumber::of_connection(device);
        Self(number.map_or(Which::SomeFuse, Which::Number))
    }

    /// Whether `path`, which need not exist, leads into the mount, also through symbolic links and
    /// other places where the mount is shown.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        let Ok(mounts) = MountInfo::all() else {
            return false;
        };
        let is_it = |mount: &MountInfo| match self.0 {
            Which::Number(number) => mount.number == number,
            Which::SomeFuse => mount.kind == "fuse" || mount.kind.starts_with("fuse."),
        };
        // A mount over another mount hides it.
        let roots: Vec<_> = mounts
            .iter()
            .enumerate()
            .filter(|(index, mount)| {
                let is_hidden = |later: &MountInfo| later.directory == mount.directory;
                is_it(mount) && !mounts[index + 1..].iter().any(is_hidden)
            })
            .map(|(_, mount)| mount.directory.clone())
            .collect();
        leads_into_one_of(path, &roots)
    }
}

/// The FUSE mount that a path leads into, as the mount table has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedAt {
    /// Its type: `fuse.mount-s3` for mounts of this program.
    pub kind: String,
    /// The user that mounted it.
    pub user: Option<u32>,
}

impl MountedAt {
    /// The FUSE mount that `path` leads into, without touching it; `None` if there is none.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let mounts = MountInfo::all().ok()?.into_iter();
        let is_fuse = |mount: &MountInfo| mount.kind == "fuse" || mount.kind.starts_with("fuse.");
        let mount = mounts
            .filter(is_fuse)
            .filter(|mount| leads_into_one_of(path, std::slice::from_ref(&mount.directory)))
            .max_by_key(|mount| mount.directory.as_os_str().len())?;
        let mut options = mount.options.split(',');
        let user = options.find_map(|option| option.strip_prefix("user_id="));
        Some(Self {
            user: user.and_then(|user| user.parse().ok()),
            kind: mount.kind,
        })
    }

    /// Whether it may be a mount of this program. A mount that another process has made for this
    /// program has the type that process chose.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.kind == MOUNT_TYPE || self.kind == "fuse"
    }
}

/// Whether the way to `path`, which need not exist, leads into `directory`. Touches nothing below
/// that.
#[must_use]
pub fn leads_into(path: &Path, directory: &Path) -> bool {
    let directory = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    leads_into_one_of(path, &[directory])
}

/// Whether the way to `path` leads through one of `roots`, which are canonical. Touches nothing
/// below them.
fn leads_into_one_of(path: &Path, roots: &[PathBuf]) -> bool {
    let Ok(absolute) = std::path::absolute(path) else {
        return false;
    };
    let mut way = PathBuf::from("/");
    let mut rest: VecDeque<OsString> = names(&absolute).collect();
    let mut links = 0;
    loop {
        if roots.contains(&way) {
            return true;
        }
        let Some(name) = rest.pop_front() else {
            return false;
        };
        if name == ".." {
            way.pop();
            continue;
        }
        way.push(name);
        if roots.contains(&way) {
            return true;
        }
        if let Ok(target) = std::fs::read_link(&way) {
            links += 1;
            if links > LINKS_MAX {
                return false;
            }
            way = match target.is_absolute() {
                true => PathBuf::from("/"),
                false => way.parent().map(Path::to_owned).unwrap_or_default(),
            };
            for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                rest.push_front(name);
            }
        }
    }
}

/// The components of a path, without its root.
fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    })
}

/// The number of symbolic links that the kernel follows.
const LINKS_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn ways_into_a_mount() {
        let temporary = tempfile::tempdir().unwrap();
        let top = temporary.path().canonicalize().unwrap();
        let home = top.join("home");
        std::fs::create_dir_all(home.join("user/state")).unwrap();
        symlink(&home, top.join("link")).unwrap();
        symlink("home/user/..", top.join("relative")).unwrap();
        symlink("loop", top.join("loop")).unwrap();
        let roots = [home.join("user")];
        for (path, expected) in [
            ("home/user", true),
            ("home/user/not/there", true),
            ("home/user/../other", true),
            ("link/user/state", true),
            ("relative/other", true),
            ("home/user-2", false),
            ("home", false),
            ("home/../home/other", false),
            ("not/there/../../home/user/x", true),
            ("loop/x", false),
        ] {
            assert_eq!(
                leads_into_one_of(&top.join(path), &roots),
                expected,
                "{path}"
            );
        }
        assert!(leads_into_one_of(Path::new("/x"), &[PathBuf::from("/")]));
    }
}
