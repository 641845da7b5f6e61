//! The source that the measured programs were built from. Knows the programs' versions and git's
//! answers, not how the programs are started.

use std::process::Command;

use serde::Serialize;

/// The working tree that the benchmark runs in, which need not be the source that was built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Checkout {
    pub(crate) commit: String,
    /// Whether sources differ from that commit.
    pub(crate) has_changes: bool,
}

impl Checkout {
    /// `None` where there is no git or no repository.
    pub(crate) fn here() -> Option<Self> {
        let git = |arguments: &[&str]| {
            let output = Command::new("git").args(arguments).output().ok()?;
            output
                .status
                .success()
                .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let status = ["status", "--porcelain", "--untracked-files=no", "--"];
        Some(Self {
            commit: git(&["rev-parse", "--short=9", "HEAD"])?,
            has_changes: !git(&[&status[..], &NOT_BUILT].concat())?.is_empty(),
        })
    }
}

/// Files that a run writes itself, and texts: no program differs for them.
const NOT_BUILT: [&str; 3] = [
    ":/",
    ":(top,exclude)benchmark/results",
    ":(top,exclude)*.md",
];

/// The commits that the measured builds of the product name in their versions, and how the checkout
/// differs.
///
/// `products` are name and version, as `mount-s3 1.0.0 (0123abcde)`.
pub(crate) fn described(products: &[(&str, &str)], checkout: Option<&Checkout>) -> String {
    let commits: Vec<_> = products
        .iter()
        .map(|(name, version)| (*name, commit_of(version)))
        .collect();
    let built = match commits.as_slice() {
        [] => None,
        [(_, first), others @ ..] if others.iter().all(|(_, other)| other == first) => {
            Some(format!("commit {first}"))
        }
        _ => {
            let each = commits
                .iter()
                .map(|(name, commit)| format!("{commit} ({name})"));
            Some(format!("commits {}", each.collect::<Vec<_>>().join(", ")))
        }
    };
    let Some(checkout) = checkout else {
        return built.unwrap_or_else(|| "commit unknown".to_owned());
    };
    let changes = if checkout.has_changes {
        " with changes that are not committed"
    } else {
        ""
    };
    let head = &checkout.commit;
    let is_head = |commit: &str| commit.starts_with(head) || head.starts_with(commit);
    match built {
        None => format!("checkout {head}{changes}"),
        Some(built) if commits.iter().all(|(_, commit)| is_head(commit)) => {
            format!("{built}{changes}")
        }
        Some(built) => format!("{built}, not the checkout's {head}{changes}"),
    }
}

/// The text in brackets at the end of a version.
pub(crate) fn commit_of(version: &str) -> &str {
    let inner = version.trim_end().strip_suffix(')');
    let commit = inner.and_then(|inner| Some(inner.rsplit_once('(')?.1));
    commit.unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(products: &[(&str, &str)], head: Option<(&str, bool)>, expected: &str) {
        let checkout = head.map(|(commit, has_changes)| Checkout {
            commit: commit.to_owned(),
            has_changes,
        });
        assert_eq!(described(products, checkout.as_ref()), expected);
    }

    #[test]
    fn the_commit_is_the_measured_programs() {
        let new = ("mount-s3", "mount-s3 0.1.0 (aaaaaaaaa)");
        let same = ("mount-s3:direct", "mount-s3 0.1.0 (aaaaaaaaa)");
        let old = ("mount-s3:before", "mount-s3 0.1.0 (bbbbbbbbb)");
        let nameless = ("mount-s3", "mount-s3 0.1.0 (unknown commit)");
        check(&[new], None, "commit aaaaaaaaa");
        check(&[new], Some(("aaaaaaaaa", false)), "commit aaaaaaaaa");
        check(&[new, same], Some(("aaaaaaaaa", false)), "commit aaaaaaaaa");
        check(
            &[new],
            Some(("aaaaaaaaa", true)),
            "commit aaaaaaaaa with changes that are not committed",
        );
        check(
            &[new],
            Some(("ccccccccc", false)),
            "commit aaaaaaaaa, not the checkout's ccccccccc",
        );
        check(
            &[new, old],
            Some(("aaaaaaaaa", true)),
            "commits aaaaaaaaa (mount-s3), bbbbbbbbb (mount-s3:before), not the checkout's aaaaaaaaa with changes that \
             are not committed",
        );
        check(&[nameless], None, "commit unknown commit");
        check(&[("mount-s3", "?")], None, "commit unknown");
    }

    #[test]
    fn where_peers_are_alone_the_checkout_is_named() {
        check(&[], Some(("aaaaaaaaa", false)), "checkout aaaaaaaaa");
        check(&[], None, "commit unknown");
    }

    #[test]
    fn this_checkout_is_found() {
        let checkout = Checkout::here().expect("tests run in a checkout");
        assert!(checkout.commit.len() >= 9, "{checkout:?}");
    }
}
