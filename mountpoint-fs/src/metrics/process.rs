//! The processes that use a mount, as `/proc` shows them. A leaf.

use std::fs;

/// A process that uses a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProgramProcess {
    /// Its number in our PID namespace.
    pub(super) number: u32,
    /// Its name.
    pub(super) name: String,
}

/// The process that `thread` belongs to; `None` if it is not visible.
#[must_use]
pub(super) fn process_of(thread: u32) -> Option<ProgramProcess> {
    let text = |path: String| {
        let bytes = fs::read(path).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let status = text(format!("/proc/{thread}/status"))?;
    let process = status
        .lines()
        .find_map(|line| line.strip_prefix("Tgid:"))?
        .trim();
    let name = text(format!("/proc/{process}/comm"))?;
    Some(ProgramProcess {
        number: process.parse().ok()?,
        name: name.trim_end_matches('\n').to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_belongs_to_its_process() {
        let own = fs::read_to_string("/proc/self/comm").unwrap();
        let thread = std::thread::Builder::new().name("other".to_owned());
        let number = || u32::try_from(nix::unistd::gettid().as_raw()).unwrap();
        let process = thread.spawn(move || process_of(number())).unwrap();
        let expected = ProgramProcess {
            number: std::process::id(),
            name: own.trim_end().to_owned(),
        };
        assert_eq!(process.join().unwrap(), Some(expected));
        assert_eq!(process_of(u32::MAX), None);
    }
}
