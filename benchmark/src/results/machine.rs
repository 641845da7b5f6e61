//! The machine that a run took place on.

use std::fs;
use std::thread;

use serde::Serialize;

/// The machine, as far as figures depend on it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) processor: String,
    pub(crate) memory_gib: f64,
    pub(crate) kernel: String,
}

impl Machine {
    pub(crate) fn here() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let memory_kib: f64 = field(&read("/proc/meminfo"), "MemTotal")
            .and_then(|value| value.trim_end_matches(" kB").parse().ok())
            .unwrap_or_default();
        Self {
            cores: thread::available_parallelism().map_or(1, usize::from),
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(unknown),
            memory_gib: memory_kib / 1024.0 / 1024.0,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

impl Machine {
    /// A few characters for the name of a folder: cores and the processor's maker.
    pub(crate) fn slug(&self) -> String {
        let maker: String = self
            .processor
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect();
        format!("{}cores-{}", self.cores, maker.to_lowercase())
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// The value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t: 7\nmodel name\t: A CPU @ 1: 2\n";
        assert_eq!(field(text, "model name").as_deref(), Some("A CPU @ 1: 2"));
        assert_eq!(field(text, "name"), None);
    }

    #[test]
    fn this_machine_is_described() {
        let machine = Machine::here();
        assert!(machine.cores > 0);
        assert!(machine.memory_gib > 0.0);
        assert!(!machine.kernel.is_empty());
        let machine = Machine {
            cores: 2,
            processor: "Intel(R) Xeon(R)".to_owned(),
            ..machine
        };
        assert_eq!(machine.slug(), "2cores-intel");
    }
}
