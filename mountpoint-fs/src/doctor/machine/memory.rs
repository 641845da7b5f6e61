//! Memory of the machine and this process's control groups against a mount's needs.
//!
//! Pure: texts of `/proc` and of control groups in, findings out.

use crate::doctor::finding::{Area, Check, Finding};

/// A control group's memory files; v1 and v2 differ in their names only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::doctor) struct Group {
    /// Path of the group's folder.
    pub(in crate::doctor) path: String,
    /// `memory.max` or `memory.limit_in_bytes`.
    pub(in crate::doctor) limit: String,
    /// `memory.current` or `memory.usage_in_bytes`.
    pub(in crate::doctor) usage: Option<String>,
}

#[derive(Clone, Debug)]
pub(in crate::doctor) struct MemoryFacts {
    /// `/proc/meminfo`.
    pub(in crate::doctor) meminfo: String,
    /// The groups around this process, innermost first.
    pub(in crate::doctor) groups: Vec<Group>,
    /// Memory for data that the mount would use, in bytes.
    pub(in crate::doctor) read_memory: u64,
}

/// Findings on the memory.
#[derive(Clone, Debug)]
pub(in crate::doctor) struct MemoryVerdict {
    pub(in crate::doctor) findings: Vec<Finding>,
    /// A value for `--memory-target`, in MiB, where the mount's default would not fit.
    pub(in crate::doctor) target_mib: Option<u64>,
}

pub(in crate::doctor) fn judge(facts: &MemoryFacts) -> MemoryVerdict {
    let tightest = facts
        .groups
        .iter()
        .filter_map(|group| Some((limit(&group.limit)?, group)))
        .min_by_key(|(limit, _)| *limit);
    let machine = machine(facts);
    let Some((limit, group)) = tightest else {
        let none = Check(Area::Memory, CONTROL_GROUP).ok("no limit");
        return MemoryVerdict {
            findings: vec![machine, none],
            target_mib: None,
        };
    };
    let target_mib = target_within(limit, facts.read_memory);
    MemoryVerdict {
        findings: vec![
            machine,
            group_finding(limit, group, facts.read_memory, target_mib),
        ],
        target_mib,
    }
}

fn machine(facts: &MemoryFacts) -> Finding {
    const CHECK: &str = "memory";
    let (total, available) = (
        meminfo_bytes(&facts.meminfo, "MemTotal"),
        meminfo_bytes(&facts.meminfo, "MemAvailable"),
    );
    let wanted = facts.read_memory;
    match (total, available) {
        (Some(total), Some(available)) if available < wanted + PROCESS_MEMORY => {
            Check(Area::Memory, CHECK).warning(
                format!(
                    "{} of {} are free, and the mount may take {}",
                    shown(available),
                    shown(total),
                    shown(wanted)
                ),
                "free memory, or limit the mount with --memory-target",
            )
        }
        (Some(total), Some(available)) => Check(Area::Memory, CHECK).ok(format!(
            "{} of {} are free; the mount takes {} for data at most",
            shown(available),
            shown(total),
            shown(wanted)
        )),
        _ => Check(Area::Memory, CHECK).warning(
            "/proc/meminfo cannot be read",
            "set the memory of the mount by --memory-target",
        ),
    }
}

fn group_finding(limit: u64, group: &Group, wanted: u64, target_mib: Option<u64>) -> Finding {
    let usage = group
        .usage
        .as_deref()
        .and_then(|usage| usage.trim().parse::<u64>().ok())
        .map_or_else(String::new, |usage| format!(", {} in use", shown(usage)));
    let found = format!("{} in {}{usage}", shown(limit), group.path);
    if limit >= wanted + PROCESS_MEMORY {
        return Check(Area::Memory, CONTROL_GROUP).ok(found);
    }
    let found = format!("{found}, and the mount may take {} for data", shown(wanted));
    let advice = match target_mib {
        Some(mib) => {
            format!("mount with --memory-target {mib}, or raise the group's limit")
        }
        None => format!(
            "raise the group's limit to {} at least",
            shown((MEMORY_TARGET_MIB_MIN << 20) + PROCESS_MEMORY)
        ),
    };
    Check(Area::Memory, CONTROL_GROUP).warning(found, advice)
}

/// The largest `--memory-target`, if the mount's memory does not fit.
fn target_within(limit: u64, wanted: u64) -> Option<u64> {
    if limit >= wanted + PROCESS_MEMORY {
        return None;
    }
    let mib = limit.saturating_sub(PROCESS_MEMORY) >> 20;
    (mib >= MEMORY_TARGET_MIB_MIN).then_some(mib)
}

/// A limit in bytes; `max`, and the huge number of v1, are none.
fn limit(text: &str) -> Option<u64> {
    let bytes: u64 = text.trim().parse().ok()?;
    (bytes < LIMIT_NONE).then_some(bytes)
}

/// `MemTotal:  24684084 kB`, in bytes.
fn meminfo_bytes(meminfo: &str, name: &str) -> Option<u64> {
    let value = meminfo
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = value.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// A size with one decimal, in the unit that fits.
fn shown(bytes: u64) -> String {
    let (unit, name) = if bytes >= 1 << 30 {
        (1 << 30, "GiB")
    } else {
        (1 << 20, "MiB")
    };
    let tenths = u128::from(bytes) * 10 / unit;
    match tenths % 10 {
        0 => format!("{} {name}", tenths / 10),
        digit => format!("{}.{digit} {name}", tenths / 10),
    }
}

const CONTROL_GROUP: &str = "control group";
/// Memory of the process besides data: libraries, threads, inodes, buffers of requests.
const PROCESS_MEMORY: u64 = 128 << 20;
/// Smallest value that `--memory-target` takes, in MiB.
const MEMORY_TARGET_MIB_MIN: u64 = 512;
/// Limits from here on are none. V1 shows the largest multiple of a page instead of a word.
const LIMIT_NONE: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;
    use crate::doctor::finding::tests::expect;

    fn facts(available_kib: u64, limits: &[&str], read_memory: u64) -> MemoryFacts {
        MemoryFacts {
            meminfo: format!(
                "MemTotal:       25165824 kB\nMemFree: 1 kB\nMemAvailable:   {available_kib} kB\n"
            ),
            groups: limits
                .iter()
                .map(|limit| Group {
                    path: "/sys/fs/cgroup/x".to_owned(),
                    limit: (*limit).to_owned(),
                    usage: Some("104857600\n".to_owned()),
                })
                .collect(),
            read_memory,
        }
    }

    #[test]
    fn machines() {
        for (available_kib, read_memory, level, text) in [
            (20 << 20, 6 << 30, Level::Ok, "20 GiB of 24 GiB"),
            (6 << 20, 6 << 30, Level::Warning, "--memory-target"),
            (1 << 20, 512 << 20, Level::Ok, "512 MiB"),
        ] {
            let verdict = judge(&facts(available_kib, &[], read_memory));
            expect(&verdict.findings, "memory", level, text);
        }
        let unreadable = MemoryFacts {
            meminfo: "nonsense".to_owned(),
            ..facts(1, &[], 1)
        };
        expect(
            &judge(&unreadable).findings,
            "memory",
            Level::Warning,
            "cannot be read",
        );
    }

    #[test]
    fn groups() {
        for (limits, read_memory, level, text, target) in [
            (&[][..], 1 << 30, Level::Ok, "no limit", None),
            (&["max\n"], 1 << 30, Level::Ok, "no limit", None),
            (
                &["9223372036854771712\n"],
                1 << 30,
                Level::Ok,
                "no limit",
                None,
            ),
            (&["4294967296\n"], 1 << 30, Level::Ok, "4 GiB in /sys", None),
            (
                &["1073741824"],
                1 << 30,
                Level::Warning,
                "--memory-target 896",
                Some(896),
            ),
            (
                &["max", "1073741824"],
                1 << 30,
                Level::Warning,
                "100 MiB in use",
                Some(896),
            ),
            (
                &["4294967296", "1073741824"],
                1 << 30,
                Level::Warning,
                "896",
                Some(896),
            ),
            (
                &["536870912"],
                512 << 20,
                Level::Warning,
                "640 MiB at least",
                None,
            ),
            (&["0"], 512 << 20, Level::Warning, "0 MiB in", None),
        ] {
            let verdict = judge(&facts(20 << 20, limits, read_memory));
            expect(&verdict.findings, "control group", level, text);
            assert_eq!(verdict.target_mib, target, "{limits:?}");
        }
    }
}
