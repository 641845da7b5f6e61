//! The terminal of the live view: a screen of its own, which is left as it was.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::termios::tcgetwinsize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;

/// Standard output, renewed again and again.
#[derive(Debug)]
pub(super) struct Screen {
    is_terminal: bool,
    signals: Receiver<i32>,
}

impl Screen {
    /// Takes over the terminal for a view, if there is one.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn open(is_view: bool) -> io::Result<Self> {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM, SIGWINCH])?;
        let (sender, received) = sync_channel(1);
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for signal in signals.forever() {
                    if sender.send(signal).is_err() {
                        return;
                    }
                }
            })?;
        let is_terminal = is_view && io::stdout().is_terminal();
        if is_terminal {
            write(b"\x1b[?1049h\x1b[?25l")?;
        }
        Ok(Self {
            is_terminal,
            signals: received,
        })
    }

    /// Shows these lines in place of those before. Output that is no terminal gets them below.
    pub(super) fn show(&self, lines: &[String]) -> io::Result<()> {
        write(&frame(lines, self.is_terminal, size().1))
    }

    /// Waits for `time` or a change of the terminal's size. Returns whether the view goes on.
    pub(super) fn wait(&self, time: Duration) -> bool {
        match self.signals.recv_timeout(time) {
            Ok(signal) => signal == SIGWINCH,
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => false,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.is_terminal {
            write(b"\x1b[?25h\x1b[?1049l").ok();
        }
    }
}

/// Columns and rows of the terminal, or of lines that go elsewhere.
pub(super) fn size() -> (usize, usize) {
    let size = tcgetwinsize(io::stdout()).ok();
    let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or((WIDTH_ELSEWHERE, usize::MAX), |size| {
        (size.ws_col.into(), size.ws_row.into())
    })
}

/// Bytes that show these lines. Lines below the last row are left out.
fn frame(lines: &[String], is_terminal: bool, rows: usize) -> Vec<u8> {
    let mut text = String::new();
    if !is_terminal {
        for line in lines {
            text.extend([line, "\n"]);
        }
        text.push('\n');
        return text.into_bytes();
    }
    text.push_str("\x1b[H");
    for (row, line) in lines.iter().take(rows).enumerate() {
        if row > 0 {
            text.push_str("\r\n");
        }
        text.extend([line, "\x1b[K"]);
    }
    text.push_str("\x1b[J");
    text.into_bytes()
}

/// Writes all of it.
pub(super) fn write(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Columns of lines that go to a file or a pipe.
const WIDTH_ELSEWHERE: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_overwrites_the_one_before() {
        let lines = ["a", "b", "c"].map(str::to_owned);
        let shown =
            |is_terminal, rows| String::from_utf8(frame(&lines, is_terminal, rows)).unwrap();
        assert_eq!(shown(true, 2), "\x1b[Ha\x1b[K\r\nb\x1b[K\x1b[J");
        assert_eq!(shown(false, 2), "a\nb\nc\n\n");
    }
}
