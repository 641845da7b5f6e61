//! Names and attributes, at several latencies. The first cost is the number of requests.

use crate::dataset::{Dataset, FileSet};
use crate::workload::{Action, Conditions, Group, Script, Unit, Workload};

const LATENCIES_MS: [u64; 3] = [0, 20, 60];
const WALK_LATENCIES_MS: [u64; 2] = [20, 60];
/// First stats at once.
const STATS: u64 = 200;

pub(super) fn table(data: &Dataset) -> Vec<Workload> {
    let tables = LATENCIES_MS.map(|latency_ms| {
        let (listed, tree) = if latency_ms == 0 {
            (data.listed, data.tree)
        } else {
            (data.listed_far, data.tree_far)
        };
        at(data, latency_ms, listed, tree)
    });
    let walks = WALK_LATENCIES_MS.map(|latency_ms| walks(data, latency_ms));
    tables.into_iter().chain(walks).flatten().collect()
}

/// Walks of a tree by the programs that walk most.
fn walks(data: &Dataset, latency_ms: u64) -> Vec<Workload> {
    let files = data.tree_wide;
    let programs: [(&str, &str, &'static [&'static str]); 4] = [
        ("find", "find", &[]),
        ("ls-lr", "ls", &["-lR"]),
        ("du", "du", &["-s"]),
        ("rsync", "rsync", &["-rn"]),
    ];
    let row = |(name, program, arguments): (&str, &'static str, &'static [&'static str])| {
        let command = [&[program], arguments].concat().join(" ");
        Workload {
            conditions: Some(Conditions::latency_ms(latency_ms)),
            ..Workload::new(
                Group::Metadata,
                format!("metadata-walk-{name}-{latency_ms}ms"),
                Action::Command {
                    files,
                    program,
                    arguments,
                },
                Unit::MillisecondsInAll,
                format!(
                    "{command} of 300 directories with {} files, {latency_ms} ms before each answer",
                    files.count
                ),
            )
        }
    };
    programs.map(row).into()
}

fn at(data: &Dataset, latency_ms: u64, listed: FileSet, tree: FileSet) -> Vec<Workload> {
    let row = |name: &str, action: Action, unit, description: &str| {
        let (suffix, far) = match latency_ms {
            0 => (String::new(), String::new()),
            _ => (
                format!("-{latency_ms}ms"),
                format!(", {latency_ms} ms before each answer"),
            ),
        };
        Workload {
            conditions: Some(Conditions::latency_ms(latency_ms)),
            ..Workload::new(
                Group::Metadata,
                format!("metadata-{name}{suffix}"),
                action,
                unit,
                format!("{description}{far}"),
            )
        }
    };
    let command = |files, program, arguments| Action::Command {
        files,
        program,
        arguments,
    };
    let all = Unit::MillisecondsInAll;
    let stats = Action::Script {
        files: listed.first(STATS),
        script: Script::Stat,
    };
    vec![
        row(
            "du",
            command(listed, "du", &["-s"]),
            all,
            &format!("du -s of a directory of {} files", listed.count),
        ),
        row(
            "find",
            command(tree, "find", &[]),
            all,
            &format!("find in a tree of {} files", tree.count),
        ),
        row(
            "ls-lr",
            command(tree, "ls", &["-lR"]),
            all,
            &format!("ls -lR of a tree of {} files", tree.count),
        ),
        row(
            "stat32",
            stats,
            all,
            "first stat of 200 files of one directory by 32 processes",
        ),
        row(
            "cat",
            Action::FirstBytes { files: data.deep },
            Unit::Milliseconds,
            "cat a/b/c.txt, all three never seen before; median of one",
        ),
        row(
            "ls-100k",
            command(data.crowd, "ls", &["-f"]),
            all,
            &format!("names in a directory of {} files", data.crowd.count),
        ),
    ]
}
