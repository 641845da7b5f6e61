//! Identification of the program that a process runs.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::history::ProgramId;

/// The program of a thread or process. Programs that are not visible count as one: those of other
/// users, and those in other PID namespaces (a pod that mounts for others).
pub(super) fn program_of(process: u32) -> ProgramId {
    let path = match process {
        0 => None,
        process => fs::read_link(format!("/proc/{process}/exe")).ok(),
    };
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    ProgramId(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_its_executable_file() {
        let this = program_of(std::process::id());
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let path = || fs::read_link(format!("/proc/{}/exe", child.id())).unwrap();
        while path() == fs::read_link("/proc/self/exe").unwrap() {
            std::thread::yield_now();
        }
        let other = program_of(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_ne!(this, other);
        assert_eq!(this, program_of(std::process::id()));
        let unknown = program_of(0);
        assert!(unknown != this && unknown != other);
    }
}
