//! The events that end a mount, each awaited by a thread of its own.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use signal_hook::iterator::Signals;

use crate::fuse::Session;

/// The event that ends a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mount) enum End {
    /// The directory was unmounted from outside.
    Unmounted,
    /// A signal asked this process to end.
    Signal(i32),
}

/// Watches for both events that end a mount, each on a thread of its own.
pub(in crate::mount) fn watch(
    session: &Arc<Session>,
    mut signals: Signals,
) -> std::io::Result<Receiver<End>> {
    let (sender, ends) = sync_channel(ENDS_MAX);
    let on_signal: SyncSender<End> = sender.clone();
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                // A full channel already holds a signal.
                on_signal.try_send(End::Signal(signal)).ok();
            }
        })?;
    let session = Arc::clone(session);
    thread::Builder::new()
        .name("session-end".to_owned())
        .spawn(move || {
            session.wait();
            // The receiver is gone if a signal ended the mount first.
            sender.send(End::Unmounted).ok();
        })?;
    Ok(ends)
}

/// Events that may wait to be read: a few signals and the unmount.
const ENDS_MAX: usize = 4;
