//! A server of one object over TLS, whose records are tampered with on their way, or which sends
//! anything in the place of a handshake.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};

use super::http::{listen, read_request};

/// What becomes of the next connection.
#[derive(Clone, Debug)]
pub(super) enum Tampering {
    /// These bytes are sent in the place of a handshake.
    Raw(Vec<Vec<u8>>),
    /// Each pair changes one record that the server sends, in order. The others come as they are.
    Records { is_tls12: bool, changes: Vec<u8> },
}

pub(super) struct TlsPeer {
    pub(super) address: SocketAddr,
    next: Arc<Mutex<Tampering>>,
}

impl TlsPeer {
    /// A server that answers each request with `answer`, until the process ends.
    pub(super) fn start(answer: Vec<u8>) -> Self {
        let next = Arc::new(Mutex::new(Tampering::Records {
            is_tls12: false,
            changes: Vec::new(),
        }));
        let (scripted, configs) = (Arc::clone(&next), [config(&TLS13), config(&TLS12)]);
        let address = listen("127.0.0.1:0", move |stream| {
            let tampering = scripted.lock().clone();
            // The client may have gone at any time; that is its business.
            serve(stream, tampering, &configs, &answer).ok();
        });
        Self { address, next }
    }

    /// Tampers so with the connections from now on.
    pub(super) fn play(&self, tampering: Tampering) {
        *self.next.lock() = tampering;
    }
}

fn config(version: &'static SupportedProtocolVersion) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .expect("a version that there is")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a key of the certificate");
    // Several records for one answer.
    config.max_fragment_size = Some(2048);
    Arc::new(config)
}

fn serve(
    mut stream: TcpStream,
    tampering: Tampering,
    configs: &[Arc<ServerConfig>; 2],
    answer: &[u8],
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (is_tls12, changes) = match tampering {
        Tampering::Raw(pieces) => {
            // The client's greeting: unread bytes would make the end a reset.
            let _len = stream.read(&mut [0; 16 << 10])?;
            for piece in pieces {
                stream.write_all(&piece)?;
            }
            return stream.shutdown(Shutdown::Both);
        }
        Tampering::Records { is_tls12, changes } => (is_tls12, changes),
    };
    // A record that is lost leaves both sides waiting.
    let patience = if changes.is_empty() { CALM } else { LOSSY };
    stream.set_read_timeout(Some(patience))?;
    let config = Arc::clone(&configs[usize::from(is_tls12)]);
    let session = ServerConnection::new(config).map_err(io::Error::other)?;
    let wire = Tampered {
        stream,
        record: Vec::new(),
        changes: changes.into_iter(),
    };
    let mut wire = BufReader::new(StreamOwned::new(session, wire));
    if read_request(&mut wire).is_some() {
        let stream = wire.get_mut();
        stream.write_all(answer)?;
        stream.flush()?;
    }
    wire.get_ref().sock.stream.shutdown(Shutdown::Both)
}

/// A connection whose records are changed as they are sent.
struct Tampered {
    stream: TcpStream,
    /// The beginning of a record.
    record: Vec<u8>,
    changes: std::vec::IntoIter<u8>,
}

impl Tampered {
    fn send(&mut self, mut record: Vec<u8>) -> io::Result<()> {
        let (change, place) = (self.changes.next(), self.changes.next().unwrap_or(0));
        let at = record.len() * usize::from(place) / 256;
        match change.unwrap_or(0) % 8 {
            1 => record[at] ^= 1 << (place % 8),
            2 => record.truncate(at),
            3 => record.extend_from_within(..),
            4 => record.clear(),
            5 => {
                self.stream.write_all(&record[..at])?;
                drop(record.drain(..at));
            }
            6 => record
                .splice(0..0, [place, 3, 3, 0, 1, place])
                .for_each(drop),
            _ => {}
        }
        self.stream.write_all(&record)
    }
}

impl Read for Tampered {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.read(into)
    }
}

impl Write for Tampered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.record.extend_from_slice(bytes);
        while let Some(&[_, _, _, high, low]) = self.record.first_chunk() {
            let len = 5 + usize::from(u16::from_be_bytes([high, low]));
            if self.record.len() < len {
                break;
            }
            let behind = self.record.split_off(len);
            let record = std::mem::replace(&mut self.record, behind);
            self.send(record)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

const CERTIFICATE: &[u8] = include_bytes!("../../../mountpoint-crt-sys/src/tests/data/server.pem");
const KEY: &[u8] = include_bytes!("../../../mountpoint-crt-sys/src/tests/data/server-key.pem");
pub(super) const AUTHORITY: &[u8] =
    include_bytes!("../../../mountpoint-crt-sys/src/tests/data/ca.pem");

const CALM: Duration = Duration::from_secs(20);
const LOSSY: Duration = Duration::from_millis(50);
