//! The options of a mount, as `fusermount3` takes them.

use crate::fuse::session_options::Transport;

/// The options of a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct MountOptions {
    /// The source in `/proc/mounts` and `df` (`fsname`).
    pub source_name: String,
    /// Other users may use the mount.
    pub allow_other: bool,
    /// Root may use the mount, besides the user that mounted.
    pub allow_root: bool,
    /// The mount goes away when this process dies.
    pub auto_unmount: bool,
    /// The kernel refuses every change.
    pub read_only: bool,
    /// The transport of requests. It decides which process unmounts after a kill.
    pub transport: Transport,
}

impl MountOptions {
    /// As a list of `mount -o` options, each as `fusermount3` takes it.
    pub(in crate::fuse) fn list(&self) -> Vec<String> {
        let name = self.source_name.replace('\\', "\\\\").replace(',', "\\,");
        let mut list = vec![format!("fsname={name}"), format!("subtype={SUBTYPE}")];
        list.push("default_permissions".to_owned());
        list.extend(["nosuid", "nodev", "noatime"].map(str::to_owned));
        list.push(if self.read_only { "ro" } else { "rw" }.to_owned());
        if self.allow_other || self.allow_root {
            // The kernel knows no allow_root: the user of each request is checked.
            list.push("allow_other".to_owned());
        }
        if self.auto_unmount {
            list.push("auto_unmount".to_owned());
        }
        list
    }
}

/// The type that the mount table shows for mounts of this program.
pub(in crate::fuse) const MOUNT_TYPE: &str = "fuse.mount-s3";
/// The part behind the dot.
pub(in crate::fuse) const SUBTYPE: &str = "mount-s3";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_for_fusermount() {
        let options = MountOptions {
            source_name: "a,b\\c".to_owned(),
            ..MountOptions::default()
        };
        let common = "subtype=mount-s3,default_permissions,nosuid,nodev,noatime";
        assert_eq!(
            options.list().join(","),
            format!(r"fsname=a\,b\\c,{common},rw")
        );
        let options = MountOptions {
            source_name: "s".to_owned(),
            allow_root: true,
            auto_unmount: true,
            read_only: true,
            ..options
        };
        assert_eq!(
            options.list().join(","),
            format!("fsname=s,{common},ro,allow_other,auto_unmount")
        );
    }
}
