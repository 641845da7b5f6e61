//! Documents and sources keep what they promise: every flag and variable has its row, layers import downwards only,
//! and each edge has its one place.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use mountpoint_fs::cli::CliArgs;
use mountpoint_fs::mount::Environment;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn document(name: &str) -> String {
    let path = workspace().join("doc").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What stands in backquotes in the first cells of a table's rows.
fn first_cells(document: &str) -> BTreeSet<String> {
    let cells = document
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_flag_has_its_row_and_every_row_its_flag() {
    let documented: BTreeSet<String> = first_cells(&document("CONFIGURATION.md"))
        .iter()
        .filter_map(|cell| cell.strip_prefix("--"))
        .filter_map(|cell| cell.split(' ').next())
        .map(str::to_owned)
        .collect();
    let mut command = CliArgs::command();
    command.build();
    let flags: BTreeSet<String> = command
        .get_arguments()
        .filter_map(|arg| arg.get_long())
        .map(str::to_owned)
        .collect();
    assert_eq!(documented, flags);
}

#[test]
fn every_variable_has_its_row() {
    let documented = first_cells(&document("CONFIGURATION.md"));
    for name in Environment::names() {
        assert!(
            documented.contains(name),
            "{name} is not in doc/CONFIGURATION.md"
        );
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    for name in [
        "../README.md",
        "ARCHITECTURE.md",
        "BENCHMARKING.md",
        "DEVELOPMENT.md",
        "TROUBLESHOOTING.md",
    ] {
        let text = document(name);
        let folder = workspace()
            .join("doc")
            .join(name)
            .parent()
            .unwrap()
            .to_owned();
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', '#']).next())
        {
            let local = !target.is_empty() && !target.contains("://");
            assert!(
                !local || folder.join(target).exists(),
                "{name} links to {target}"
            );
        }
    }
}

/// Modules of `mountpoint-fs` from the top layer to the bottom; those of one row do not know each other.
const LAYERS: [&[&str]; 8] = [
    &["mount"],
    &["cli", "fuse"],
    &["fs"],
    &["namespace", "handle"],
    &["read"],
    &["memory"],
    &["operation"],
    &["config", "clock", "executor", "sync"],
];

fn sources(module: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![root.join(format!("{module}.rs"))];
    let mut to_visit = vec![root.join(module)];
    while let Some(directory) = to_visit.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                to_visit.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.retain(|path| path.exists());
    files
}

/// Source without comments and without the tests at its end.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let production = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    production
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn is_test(path: &Path) -> bool {
    path.components()
        .any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

#[test]
fn layers_import_downwards_only() {
    for (level, modules) in LAYERS.iter().enumerate() {
        for module in *modules {
            let files = sources(module);
            assert!(!files.is_empty(), "no source for {module}");
            for path in files.iter().filter(|path| !is_test(path)) {
                let code = code(path);
                for above in LAYERS[..=level]
                    .iter()
                    .flat_map(|row| row.iter())
                    .filter(|above| *above != module)
                {
                    let upward = format!("crate::{above}::");
                    assert!(
                        !code.contains(&upward),
                        "{} imports {upward} from above",
                        path.display()
                    );
                }
            }
        }
    }
}

#[test]
fn each_edge_has_one_place() {
    let places: [(&str, &[&str]); 2] = [
        ("libc::E", &["fuse"]),
        ("env::var", &["mount/environment.rs"]),
    ];
    let all = LAYERS
        .iter()
        .flat_map(|row| row.iter())
        .flat_map(|module| sources(module));
    for path in all.filter(|path| !is_test(path)) {
        let code = code(&path);
        for (text, allowed) in places {
            let here = allowed
                .iter()
                .any(|place| path.to_str().unwrap().contains(&format!("src/{place}")));
            // `mount` looks at one errno, to tell a dead mount from others.
            let known = text == "libc::E" && path.ends_with("mount/serve.rs");
            assert!(
                here || known || !code.contains(text),
                "{text} in {}",
                path.display()
            );
        }
    }
}
