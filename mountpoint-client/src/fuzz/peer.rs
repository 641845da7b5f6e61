//! A server whose answers are the bytes of a fuzz input.

use std::io::{BufReader, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

use super::http::{listen, read_request};

/// Bytes that answer each request, in pieces; the connection is closed behind them.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    pub(super) pieces: Vec<Vec<u8>>,
}

/// A server that serves until the process ends.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    script: Arc<Mutex<Script>>,
}

impl Peer {
    pub(super) fn start() -> Self {
        let script = Arc::<Mutex<Script>>::default();
        let scripted = Arc::clone(&script);
        let address = listen("127.0.0.1:0", move |stream| serve(stream, &scripted));
        Self { address, script }
    }

    /// Answers with `script` from now on.
    pub(super) fn play(&self, script: Script) {
        *self.script.lock() = script;
    }
}

/// The client may have gone at any time; that is its business.
fn serve(stream: TcpStream, script: &Mutex<Script>) {
    stream.set_nodelay(true).ok();
    let mut wire = BufReader::new(stream);
    if read_request(&mut wire).is_none() {
        return;
    }
    let Script { pieces } = script.lock().clone();
    let stream = wire.get_mut();
    for piece in pieces {
        if stream.write_all(&piece).is_err() {
            return;
        }
        // The client has a chance to read this piece alone.
        thread::yield_now();
    }
    stream.shutdown(Shutdown::Both).ok();
}
