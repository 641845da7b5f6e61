//! Where a view is shown: a terminal with keys, or lines one below the other.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;
use rustix::termios::tcgetwinsize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Standard output, renewed again and again. A terminal is left as it was.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: Option<DefaultTerminal>,
    inputs: Receiver<Input>,
}

/// An event that ends a wait before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// The chosen mount shall be shown.
    Open,
    /// All mounts shall be shown.
    Back,
    /// The terminal has another size.
    Resize,
    /// The view shall end.
    End,
}

impl Screen {
    /// Takes over the terminal for a view, if standard output is one.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn open(is_view: bool) -> io::Result<Self> {
        let (sender, inputs) = sync_channel(INPUTS_MAX);
        let signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        forward("signals", sender.clone(), signals_of(signals))?;
        let terminal = match is_view && io::stdout().is_terminal() {
            true => Some(ratatui::try_init()?),
            false => None,
        };
        let screen = Self { terminal, inputs };
        if screen.terminal.is_some() {
            forward("keys", sender, keys())?;
        }
        Ok(screen)
    }

    /// Shows what `draw` draws, which gets the area of the terminal.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn show(&mut self, draw: impl FnOnce(Rect, &mut Buffer)) -> io::Result<()> {
        if let Some(terminal) = &mut self.terminal {
            terminal.draw(|frame| draw(frame.area(), frame.buffer_mut()))?;
        }
        Ok(())
    }

    /// Whether a terminal shows the view.
    pub(super) fn is_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// Waits for `time`, or less if there is an input.
    pub(super) fn wait(&self, time: Duration) -> Option<Input> {
        match self.inputs.recv_timeout(time) {
            Ok(input) => Some(input),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Input::End),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.terminal.is_some() {
            // A failure to restore cannot be reported.
            ratatui::try_restore().ok();
        }
    }
}

/// Sends inputs from a thread of their own, until nobody takes them.
fn forward(
    name: &str,
    sender: SyncSender<Input>,
    inputs: impl Iterator<Item = Input> + Send + 'static,
) -> io::Result<()> {
    let mut inputs = inputs;
    let send = move || {
        while inputs
            .next()
            .is_some_and(|input| sender.send(input).is_ok())
        {}
    };
    thread::Builder::new().name(name.to_owned()).spawn(send)?;
    Ok(())
}

fn signals_of(mut signals: Signals) -> impl Iterator<Item = Input> {
    std::iter::from_fn(move || signals.forever().next().map(|_| Input::End))
}

/// Inputs of the terminal, until reading it fails.
fn keys() -> impl Iterator<Item = Input> {
    let events = std::iter::from_fn(|| event::read().ok());
    events.filter_map(|event| match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => of_key(key),
        Event::Resize(..) => Some(Input::Resize),
        _ => None,
    })
}

fn of_key(key: KeyEvent) -> Option<Input> {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c' | 'd') if is_control => Some(Input::End),
        KeyCode::Char('q') => Some(Input::End),
        KeyCode::Up | KeyCode::Char('k') => Some(Input::Up),
        KeyCode::Down | KeyCode::Char('j') => Some(Input::Down),
        KeyCode::Enter | KeyCode::Right => Some(Input::Open),
        KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => Some(Input::Back),
        _ => None,
    }
}

/// Columns of the terminal, or of lines that go elsewhere.
pub(super) fn width() -> usize {
    let size = tcgetwinsize(io::stdout()).ok();
    let columns = size.map(|size| size.ws_col).filter(|columns| *columns > 0);
    columns.map_or(WIDTH_ELSEWHERE, usize::from)
}

/// Writes all of it.
pub(super) fn write(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Columns of lines that go to a file or a pipe.
const WIDTH_ELSEWHERE: usize = 200;
/// Keys that are kept while numbers are asked for.
const INPUTS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_a_meaning() {
        let key = |code, modifiers| of_key(KeyEvent::new(code, modifiers));
        let plain = |code| key(code, KeyModifiers::NONE);
        assert_eq!(plain(KeyCode::Char('q')), Some(Input::End));
        assert_eq!(
            key(KeyCode::Char('c'), KeyModifiers::CONTROL),
            Some(Input::End)
        );
        assert_eq!(plain(KeyCode::Char('c')), None);
        assert_eq!(plain(KeyCode::Down), Some(Input::Down));
        assert_eq!(plain(KeyCode::Enter), Some(Input::Open));
        assert_eq!(plain(KeyCode::Esc), Some(Input::Back));
    }
}
