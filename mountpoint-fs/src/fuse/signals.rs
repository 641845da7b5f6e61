//! Whether a signal ends the program that waits for an answer, or is one that it handles and goes on after.
//!
//! The kernel tells only that there is a signal. Reads `/proc`, as who closes a file does.

use std::fs;

/// Whether the thread, by its number in our PID namespace, has a signal that ends its process. Yes if it is out of sight (0,
/// or a thread that has ended): nobody is to wait in vain.
pub(super) fn is_ending(thread: u32) -> bool {
    let status = fs::read(format!("/proc/{thread}/status"));
    let signals = status.ok().and_then(|status| Signals::parse(&status));
    signals.is_none_or(Signals::end_it)
}

/// Sets of signals, as masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Signals {
    /// Sent to the thread or to its process, and not taken yet.
    pending: u64,
    /// Blocked, ignored or handled.
    harmless: u64,
}

impl Signals {
    fn parse(status: &[u8]) -> Option<Self> {
        // The name of the program may be of any bytes.
        let status = String::from_utf8_lossy(status);
        let mask = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name))?;
            u64::from_str_radix(value.trim(), 16).ok()
        };
        Some(Self {
            pending: mask("SigPnd:")? | mask("ShdPnd:")?,
            harmless: mask("SigBlk:")? | mask("SigIgn:")? | mask("SigCgt:")?,
        })
    }

    fn end_it(self) -> bool {
        // What is pending although nobody handles it ends the process, or stops it, which can wait until it was answered. A
        // fatal signal is one of `SIGKILL` to each thread.
        let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
        let stops = stops.into_iter().fold(0, |mask, signal| mask | bit(signal));
        let kill = self.pending & bit(libc::SIGKILL);
        let others = self.pending & !self.harmless & !stops;
        kill | others != 0
    }
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_process_and_what_does_not() {
        let (alarm, term, stop) = (libc::SIGALRM, libc::SIGTERM, libc::SIGTSTP);
        for (pending, shared, blocked, ignored, caught, ends) in [
            (0, 0, 0, 0, 0, false),
            (bit(libc::SIGKILL), 0, 0, 0, 0, true),
            (bit(libc::SIGKILL), 0, 0, 0, u64::MAX, true),
            (0, bit(alarm), 0, 0, bit(alarm), false),
            (bit(alarm), 0, 0, 0, bit(term), true),
            (0, bit(term), bit(term), 0, 0, false),
            (0, bit(term), 0, bit(term), 0, false),
            (0, bit(libc::SIGQUIT), 0, 0, 0, true),
            (0, bit(stop), 0, 0, 0, false),
            (0, bit(stop) | bit(term), 0, 0, 0, true),
        ] {
            let status = format!(
                "Name:\tcat\nSigQ:\t0/1\nSigPnd:\t{pending:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\n\
                 SigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\n"
            );
            let signals = Signals::parse(status.as_bytes()).unwrap();
            assert_eq!(signals.end_it(), ends, "{status}");
        }
        for text in [
            "",
            "SigPnd:\tx\nShdPnd:\t0\n",
            "SigPnd:\t0\nShdPnd:\t0\nSigBlk:\t0\n",
        ] {
            assert_eq!(Signals::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn who_is_out_of_sight_does_not_wait() {
        let me = u32::try_from(nix::unistd::gettid().as_raw()).unwrap();
        assert!(!is_ending(me));
        assert!(is_ending(0));
        assert!(is_ending(u32::MAX));
    }
}
