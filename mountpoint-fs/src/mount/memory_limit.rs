//! How much memory the control group of this process may use.

use std::path::{Path, PathBuf};

/// The least limit of the group and those it is in, in bytes; `None` where there is none.
pub(super) fn memory_limit() -> Option<u64> {
    let memberships = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    least(Path::new("/sys/fs/cgroup"), &memberships)
}

/// `memberships` is what `/proc/self/cgroup` says, `root` where the groups are mounted. In a container the group's
/// name may be that outside, and its files those at the root: names that do not exist are passed over.
fn least(root: &Path, memberships: &str) -> Option<u64> {
    let files = memberships.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_number, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
        let group = group.trim_start_matches('/');
        if controllers.is_empty() {
            Some((root.to_owned(), group, "memory.max"))
        } else if controllers.split(',').any(|name| name == "memory") {
            Some((root.join("memory"), group, "memory.limit_in_bytes"))
        } else {
            None
        }
    });
    files
        .flat_map(|(root, group, file)| {
            let groups: Vec<PathBuf> = root
                .join(group)
                .ancestors()
                .take_while(|group| group.starts_with(&root))
                .map(|group| group.join(file))
                .collect();
            groups
        })
        // "max" is no number.
        .filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok())
        .min()
}

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
            least(root.path(), memberships),
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
