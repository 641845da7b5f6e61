//! The effect of a signal on a program that waits for an answer: its end, a request to end, or
//! none.
//!
//! The kernel reports only that a signal came. `/proc` shows which.

use std::fs;

/// The effect of a thread's signals on its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fuse) enum Effect {
    /// The program ends.
    End,
    /// The program handles a signal that asks programs to end: Ctrl-C and the like.
    Ask,
    /// The program continues: timers, profilers, children that end.
    None,
    /// The thread is invisible: it has ended, or is in another PID namespace (then its number is
    /// 0).
    Unknown,
}

impl Effect {
    /// The effect on a thread, by its number in our PID namespace.
    pub(in crate::fuse) fn on(thread: u32) -> Self {
        let status = fs::read(format!("/proc/{thread}/status"));
        let signals = status.ok().and_then(|status| Signals::parse(&status));
        signals.map_or(Self::Unknown, Signals::effect)
    }
}

/// Sets of signals, as masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Signals {
    /// Signals sent to the thread or its process, and not taken yet.
    pending: u64,
    /// Blocked and ignored signals.
    unheard: u64,
    handled: u64,
}

impl Signals {
    pub(super) fn parse(status: &[u8]) -> Option<Self> {
        // The name of the program may be of any bytes.
        let status = String::from_utf8_lossy(status);
        let mask = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name))?;
            u64::from_str_radix(value.trim(), 16).ok()
        };
        Some(Self {
            pending: mask("SigPnd:")? | mask("ShdPnd:")?,
            unheard: mask("SigBlk:")? | mask("SigIgn:")?,
            handled: mask("SigCgt:")?,
        })
    }

    pub(super) fn effect(self) -> Effect {
        // A pending signal without a handler ends the process, or stops it; a stop can wait until
        // the request was answered. A fatal signal is a `SIGKILL` to each thread.
        let stops = mask_of(&[libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU]);
        let asks = mask_of(&[libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGHUP]);
        let heard = self.pending & !self.unheard;
        let ends = self.pending & bit(libc::SIGKILL) | heard & !self.handled & !stops;
        if ends != 0 {
            Effect::End
        } else if heard & asks != 0 {
            Effect::Ask
        } else {
            Effect::None
        }
    }
}

fn mask_of(signals: &[i32]) -> u64 {
    signals.iter().fold(0, |mask, signal| mask | bit(*signal))
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
        for (pending, shared, blocked, ignored, caught, effect) in [
            (0, 0, 0, 0, 0, Effect::None),
            (bit(libc::SIGKILL), 0, 0, 0, 0, Effect::End),
            (bit(libc::SIGKILL), 0, 0, 0, u64::MAX, Effect::End),
            (0, bit(alarm), 0, 0, bit(alarm), Effect::None),
            (bit(alarm), 0, 0, 0, bit(term), Effect::End),
            (0, bit(term), 0, 0, bit(term), Effect::Ask),
            (bit(alarm), bit(term), 0, 0, bit(term), Effect::End),
            (0, bit(term), bit(term), 0, 0, Effect::None),
            (0, bit(term), bit(term), 0, bit(term), Effect::None),
            (0, bit(term), 0, bit(term), 0, Effect::None),
            (0, bit(libc::SIGQUIT), 0, 0, 0, Effect::End),
            (0, bit(stop), 0, 0, 0, Effect::None),
            (0, bit(stop) | bit(term), 0, 0, 0, Effect::End),
        ] {
            let status = format!(
                "Name:\tcat\nSigQ:\t0/1\nSigPnd:\t{pending:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\n\
                 SigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\n"
            );
            let signals = Signals::parse(status.as_bytes()).unwrap();
            assert_eq!(signals.effect(), effect, "{status}");
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
    fn who_is_out_of_sight_is_not_known() {
        let me = u32::try_from(nix::unistd::gettid().as_raw()).unwrap();
        assert_eq!(Effect::on(me), Effect::None);
        assert_eq!(Effect::on(0), Effect::Unknown);
        assert_eq!(Effect::on(u32::MAX), Effect::Unknown);
    }
}
