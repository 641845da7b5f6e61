//! Limits of the process: open files and locked memory.
//!
//! Pure: the text of `/proc/self/limits` in, findings out.

use crate::doctor::finding::{Area, Check, Finding};

#[derive(Clone, Debug)]
pub(in crate::doctor) struct LimitsFacts {
    /// `/proc/self/limits`.
    pub(in crate::doctor) text: String,
    /// Connections that the mount may open, over all interfaces.
    pub(in crate::doctor) connections: u64,
}

pub(in crate::doctor) fn judge(facts: &LimitsFacts) -> Vec<Finding> {
    vec![open_files(facts), locked_memory(facts)]
}

fn open_files(facts: &LimitsFacts) -> Finding {
    const CHECK: &str = "open files";
    let needed = facts.connections + FILES_BESIDES;
    // A mount raises the soft limit to the hard one.
    match limit(&facts.text, "Max open files", Which::Hard) {
        None => Check(Area::Limits, CHECK).warning("the limit cannot be read",
            format!("make sure that `ulimit -n` shows at least {needed}"),
        ),
        Some(limit) if limit < needed => Check(Area::Limits, CHECK).warning(format!(
                "{limit}, where {} connections are planned",
                facts.connections
            ),
            format!(
                "`ulimit -Hn {needed}` by root before mounting, or LimitNOFILE={needed} in the systemd unit"
            ),
        ),
        Some(u64::MAX) => Check(Area::Limits, CHECK).ok("unlimited"),
        Some(limit) => Check(Area::Limits, CHECK).ok(format!("{limit}; {needed} are needed at most"),
        ),
    }
}

fn locked_memory(facts: &LimitsFacts) -> Finding {
    let shown = match limit(&facts.text, "Max locked memory", Which::Soft) {
        None => "unknown".to_owned(),
        Some(u64::MAX) => "unlimited".to_owned(),
        Some(bytes) => format!("{} KiB", bytes / 1024),
    };
    Check(Area::Limits, "locked memory").ok(format!("{shown}; this version locks none"))
}

#[derive(Clone, Copy)]
enum Which {
    Soft,
    Hard,
}

/// A limit in a row of the table; `unlimited` is the largest number.
fn limit(table: &str, name: &str, which: Which) -> Option<u64> {
    let row = table.lines().find_map(|line| line.strip_prefix(name))?;
    match row.split_whitespace().nth(which as usize)? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// Descriptors besides connections: the device, its clones, event loops, logs, libraries.
const FILES_BESIDES: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;
    use crate::doctor::finding::tests::expect;

    fn table(files: &str, locked: &str) -> String {
        format!(
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max open files            1024                 {files:<20} files     \n\
             Max locked memory         {locked:<20} 8388608              bytes     \n"
        )
    }

    #[test]
    fn limits() {
        for (files, connections, level, text) in [
            ("1024", 128, Level::Ok, "1024; 192"),
            ("unlimited", 128, Level::Ok, "unlimited"),
            ("191", 128, Level::Warning, "ulimit -Hn 192"),
            ("1024", 2048, Level::Warning, "LimitNOFILE=2112"),
            ("?", 128, Level::Warning, "cannot be read"),
        ] {
            let text_of_limits = table(files, "8388608");
            let facts = LimitsFacts {
                text: text_of_limits,
                connections,
            };
            expect(&judge(&facts), "open files", level, text);
        }
        for (locked, text) in [
            ("8388608", "8192 KiB"),
            ("unlimited", "unlimited"),
            ("", "unknown"),
        ] {
            let facts = LimitsFacts {
                text: if locked.is_empty() {
                    String::new()
                } else {
                    table("1024", locked)
                },
                connections: 128,
            };
            expect(&judge(&facts), "locked memory", Level::Ok, text);
        }
    }
}
