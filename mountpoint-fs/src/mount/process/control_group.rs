//! The control groups of this process, and the memory that they allow.

use std::path::{Path, PathBuf};

/// A control group with memory files, of either version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryGroup {
    /// Its limit in bytes, or `max` where it has none.
    pub limit: PathBuf,
    /// The memory in use.
    pub usage: PathBuf,
}

/// The memory groups of a process, innermost first.
///
/// `memberships` is the content of `/proc/PID/cgroup`. A container may see the names of the outside
/// and the files of its own root, so some of the files do not exist.
#[must_use]
pub fn memory_groups(memberships: &str) -> Vec<MemoryGroup> {
    groups_below(Path::new("/sys/fs/cgroup"), memberships)
}

/// The least limit of the group and its ancestors, in bytes; `None` without a limit.
pub(in crate::mount) fn memory_limit() -> Option<u64> {
    let memberships = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    least(&memory_groups(&memberships))
}

fn groups_below(root: &Path, memberships: &str) -> Vec<MemoryGroup> {
    let mut groups = Vec::new();
    for line in memberships.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (root, limit, usage) = if controllers.is_empty() {
            (root.to_owned(), "memory.max", "memory.current")
        } else if controllers.split(',').any(|name| name == "memory") {
            let root = root.join("memory");
            (root, "memory.limit_in_bytes", "memory.usage_in_bytes")
        } else {
            continue;
        };
        let innermost = root.join(group.trim_start_matches('/'));
        let folders = innermost
            .ancestors()
            .take_while(|folder| folder.starts_with(&root));
        groups.extend(folders.take(GROUPS_MAX).map(|folder| MemoryGroup {
            limit: folder.join(limit),
            usage: folder.join(usage),
        }));
    }
    groups
}

fn least(groups: &[MemoryGroup]) -> Option<u64> {
    let limits = groups.iter().filter_map(|group| {
        // "max" is not a number.
        let limit = std::fs::read_to_string(&group.limit).ok()?;
        limit.trim().parse().ok()
    });
    limits.min()
}

/// Bound of nested control groups; systemd and container runtimes make fewer than ten.
const GROUPS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], memberships: &str, expected: Option<u64>) {
        let root = tempfile::tempdir().unwrap();
        for (file, limit) in files {
            let file = root.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, format!("{limit}\n")).unwrap();
        }
        assert_eq!(
            least(&groups_below(root.path(), memberships)),
            expected,
            "{files:?} {memberships}"
        );
    }

    #[test]
    fn the_least_limit_on_the_way_up_counts() {
        let files = [
            ("memory.max", "max"),
            ("a/memory.max", "500"),
            ("a/b/memory.max", "max"),
            ("c/memory.max", "100"),
        ];
        check(&files, "0::/a/b\n", Some(500));
        check(&files, "0::/c\n", Some(100));
        check(&files, "0::/\n", None);
        check(&files, "0::/not/visible/here\n", None);
        let old = [
            ("memory/memory.limit_in_bytes", "900"),
            ("memory/x/memory.limit_in_bytes", "700"),
            ("pids/x/memory.limit_in_bytes", "1"),
        ];
        check(&old, "5:pids:/x\n4:memory:/x\n0::/\n", Some(700));
        check(&old, "4:cpu,memory:/outside\n", Some(900));
        check(&[], "", None);
        check(&[], "nonsense\n", None);
    }
}
