//! Which program a process runs.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::history::ProgramId;

/// The program that a thread or process runs; `None` if it cannot be told: it ended, runs in another name space of
/// processes, or belongs to somebody else.
pub(super) fn program_of(process: u32) -> Option<ProgramId> {
    if process == 0 {
        return None;
    }
    let path = fs::read_link(format!("/proc/{process}/exe")).ok()?;
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    Some(ProgramId(hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_its_executable_file() {
        let this = program_of(std::process::id());
        assert!(this.is_some());
        let other = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .and_then(|mut child| {
                let program = program_of(child.id());
                child.kill()?;
                child.wait()?;
                Ok(program)
            })
            .unwrap();
        assert!(other.is_some() && other != this);
        assert_eq!(program_of(0), None);
    }
}
