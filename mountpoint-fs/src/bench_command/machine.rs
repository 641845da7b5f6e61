//! The CPU of the machine, from `/proc/stat`.

/// Ticks of all CPUs since the boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTicks {
    all: u64,
    idle: u64,
}

impl CpuTicks {
    /// The ticks of now; `None` where `/proc` does not tell.
    pub(super) fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// Reads the first line of `/proc/stat`, proc_stat(5): idle time is the fourth column, waiting
    /// for a disk the fifth.
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let columns: Vec<u64> = line
            .split_whitespace()
            // Guests are counted in the first columns as well.
            .take(8)
            .map(|column| column.parse().ok())
            .collect::<Option<_>>()?;
        let idle = columns.get(3)? + columns.get(4)?;
        let all = columns.iter().sum();
        Some(Self { all, idle })
    }

    /// The share that was busy since `before`, 0 to 1.
    pub(super) fn busy_since(self, before: Self) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|all| *all > 0)?;
        let idle = self.idle.saturating_sub(before.idle).min(all);
        Some((all - idle) as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_share() {
        let before = CpuTicks::parse("cpu  10 0 10 70 10 0 0 0 5 0\ncpu0 1").unwrap();
        let after = CpuTicks::parse("cpu  40 0 20 110 20 0 10 0 9 0").unwrap();
        assert_eq!(after.busy_since(before), Some(0.5));
        assert_eq!(before.busy_since(before), None);
        for text in ["", "cpu 1 2", "cpu a b c d e", "intr 1"] {
            assert_eq!(CpuTicks::parse(text), None, "{text}");
        }
    }
}
