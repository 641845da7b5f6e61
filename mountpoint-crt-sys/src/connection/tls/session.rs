//! One TLS connection, without its socket: bytes of the wire in, bytes of the wire out.
//!
//! rustls does the handshake, and with it all that is about trust. Then it hands out the keys, and
//! keeps what later messages need: tickets for resumption and new keys.

use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError};
use rustls::{
    AlertDescription, ClientConfig, ContentType, HandshakeType, ProtocolVersion,
    SupportedCipherSuite,
};

use super::buffer::Incoming;
use super::failure::TlsFailure;
use super::record::{HEADER_LEN, Header, Keys, OVERHEAD_MAX, PLAINTEXT_MAX};
use crate::ffi::guard;

/// Records without data that may come one after the other, so that a server cannot keep the event
/// loop busy with nothing.
const FRUITLESS_MAX: u32 = 32;

/// Bytes of a message behind the handshake: a ticket, or an update of keys.
const MESSAGE_MAX: usize = 64 << 10;

/// The fate of the bytes that had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// More must come.
    Blocked,
    /// The handshake is done, and bytes may be sealed.
    Opened,
    /// So many bytes were decrypted.
    Data(usize),
    /// The server has said that nothing more comes.
    Closed,
}

pub(super) struct Session {
    phase: Phase,
    incoming: Incoming,
    /// Bytes for the wire: the handshake, alerts, new keys.
    outgoing: Vec<u8>,
}

enum Phase {
    Handshake(Box<UnbufferedClientConnection>),
    Open(Box<Traffic>),
    Failed(TlsFailure),
}

/// A connection after its handshake.
struct Traffic {
    kernel: KernelConnection<ClientConnectionData>,
    is_tls13: bool,
    incoming: Keys,
    outgoing: Keys,
    /// Records that one key may encrypt.
    records_max: u64,
    /// Decrypted bytes that had no room where they belong, from `plain_start` on.
    plain: Vec<u8>,
    plain_start: usize,
    /// Messages of the handshake protocol that have come in part.
    message: Vec<u8>,
    fruitless: u32,
    has_data: bool,
    is_closed: bool,
}

impl Session {
    pub(super) fn new(
        config: &Arc<ClientConfig>,
        server: &ServerName<'static>,
    ) -> Result<Self, TlsFailure> {
        let connection = UnbufferedClientConnection::new(Arc::clone(config), server.clone());
        let connection = connection.map_err(|error| TlsFailure::handshake(error.to_string()))?;
        Ok(Self {
            phase: Phase::Handshake(Box::new(connection)),
            incoming: Incoming::default(),
            outgoing: Vec::new(),
        })
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_))
    }

    pub(super) fn is_in_handshake(&self) -> bool {
        matches!(self.phase, Phase::Handshake(_))
    }

    /// Where bytes of the wire are to be put; empty if what has come already is too much.
    pub(super) fn room(&mut self) -> &mut [u8] {
        self.incoming.room()
    }

    /// So many bytes have come.
    pub(super) fn came(&mut self, len: usize) {
        self.incoming.came(len);
    }

    /// No more bytes come for a while.
    pub(super) fn rest(&mut self) {
        self.incoming.rest();
    }

    /// Bytes for the wire that must be sent now, before anything that is sealed later.
    pub(super) fn take_outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    /// Goes on with what has come: with the handshake, or with data to the start of `into`; with
    /// one record at most if `is_one_enough`.
    pub(super) fn go_on(
        &mut self,
        into: &mut [u8],
        is_one_enough: bool,
    ) -> Result<Progress, TlsFailure> {
        let result = match &mut self.phase {
            Phase::Handshake(_) => self.negotiate(),
            Phase::Open(traffic) => {
                let (incoming, outgoing) = (&mut self.incoming, &mut self.outgoing);
                traffic.read(incoming, outgoing, into, is_one_enough)
            }
            Phase::Failed(failure) => Err(failure.clone()),
        };
        if let Err(failure) = &result {
            self.phase = Phase::Failed(failure.clone());
        }
        result
    }

    /// Seals as much of `plaintext` as fits `into`; returns how much that is, and the bytes for the
    /// wire. Only while it is open.
    pub(super) fn seal(
        &mut self,
        plaintext: &[u8],
        into: &mut [u8],
    ) -> Result<(usize, usize), TlsFailure> {
        let Phase::Open(traffic) = &mut self.phase else {
            return Err(TlsFailure::internal("the connection is not open"));
        };
        let (mut taken, mut made) = (0, 0);
        while taken < plaintext.len() {
            let len = PLAINTEXT_MAX.min(plaintext.len() - taken);
            // New keys may have to be told of as well.
            if into.len() - made < len + 2 * OVERHEAD_MAX + KEY_UPDATE.len() {
                break;
            }
            made += traffic.refresh(&mut into[made..])?;
            let piece = &plaintext[taken..taken + len];
            made +=
                traffic
                    .outgoing
                    .seal(ContentType::ApplicationData, piece, &mut into[made..])?;
            taken += len;
        }
        Ok((taken, made))
    }

    /// Bytes that say that nothing more comes from this side.
    pub(super) fn goodbye(&mut self) -> Vec<u8> {
        if let Phase::Open(traffic) = &mut self.phase {
            // A message that cannot be encrypted cannot be sent; the connection ends anyway.
            traffic
                .alert(WARNING, AlertDescription::CloseNotify, &mut self.outgoing)
                .ok();
        }
        self.take_outgoing()
    }

    fn negotiate(&mut self) -> Result<Progress, TlsFailure> {
        loop {
            let Phase::Handshake(connection) = &mut self.phase else {
                return Err(TlsFailure::internal("there is no handshake"));
            };
            let status = connection.process_tls_records(self.incoming.bytes_mut());
            let discard = status.discard;
            let is_done = match status.state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append(&mut self.outgoing, |room| data.encode(room))?;
                    None
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    None
                }
                Ok(ConnectionState::BlockedHandshake) => Some(false),
                Ok(ConnectionState::WriteTraffic(_)) => Some(true),
                Ok(_) => return Err(TlsFailure::handshake("the server sent data too early")),
                Err(error) => {
                    self.incoming.discard(discard);
                    // An error's end: whatever becomes of it, the error is the one above.
                    guard(|| say_why(connection, &mut self.incoming, &mut self.outgoing));
                    return Err(TlsFailure::handshake(error.to_string()));
                }
            };
            self.incoming.discard(discard);
            match is_done {
                None => {}
                Some(false) => return Ok(Progress::Blocked),
                Some(true) => return self.open(),
            }
        }
    }

    fn open(&mut self) -> Result<Progress, TlsFailure> {
        let over = Phase::Failed(TlsFailure::internal("no keys"));
        let Phase::Handshake(connection) = std::mem::replace(&mut self.phase, over) else {
            return Err(TlsFailure::internal("there is no handshake"));
        };
        self.phase = Phase::Open(Box::new(Traffic::new(*connection)?));
        Ok(Progress::Opened)
    }
}

impl Traffic {
    fn new(connection: UnbufferedClientConnection) -> Result<Self, TlsFailure> {
        let (secrets, kernel) = connection
            .dangerous_into_kernel_connection()
            .map_err(|error| TlsFailure::handshake(error.to_string()))?;
        let is_tls13 = kernel.protocol_version() == ProtocolVersion::TLSv1_3;
        let records_max = match kernel.negotiated_cipher_suite() {
            SupportedCipherSuite::Tls13(suite) => suite.common.confidentiality_limit,
            SupportedCipherSuite::Tls12(suite) => suite.common.confidentiality_limit,
        };
        Ok(Self {
            incoming: Keys::new(secrets.rx.0, secrets.rx.1, is_tls13)?,
            outgoing: Keys::new(secrets.tx.0, secrets.tx.1, is_tls13)?,
            kernel,
            is_tls13,
            records_max,
            plain: Vec::new(),
            plain_start: 0,
            message: Vec::new(),
            fruitless: 0,
            has_data: false,
            is_closed: false,
        })
    }

    fn read(
        &mut self,
        incoming: &mut Incoming,
        outgoing: &mut Vec<u8>,
        into: &mut [u8],
        is_one_enough: bool,
    ) -> Result<Progress, TlsFailure> {
        let mut done = self.take_plain(into);
        while done < into.len() && !(is_one_enough && done > 0) && !self.is_closed {
            let Some(header) = self.incoming.header(incoming.bytes())? else {
                break;
            };
            done += self.read_record(header, incoming.bytes(), outgoing, &mut into[done..])?;
            incoming.discard(HEADER_LEN + header.body_len);
        }
        Ok(match done {
            0 if self.is_closed => Progress::Closed,
            0 => Progress::Blocked,
            _ => Progress::Data(done),
        })
    }

    /// Decrypts the first record in `bytes`; returns how much data of it is in `into`.
    fn read_record(
        &mut self,
        header: Header,
        bytes: &[u8],
        outgoing: &mut Vec<u8>,
        into: &mut [u8],
    ) -> Result<usize, TlsFailure> {
        let body = &bytes[HEADER_LEN..HEADER_LEN + header.body_len];
        let opened_len = self.incoming.opened_len(body.len())?;
        let is_direct = opened_len <= into.len();
        let target = if is_direct {
            &mut into[..opened_len]
        } else {
            self.plain.resize(opened_len, 0);
            &mut self.plain[..]
        };
        let opened = self.incoming.open(header, body, target);
        let (content_type, len) = match opened {
            Ok(opened) => opened,
            Err(failure) => {
                self.alert(FATAL, AlertDescription::BadRecordMac, outgoing)
                    .ok();
                return Err(failure);
            }
        };
        if content_type == ContentType::ApplicationData && len > 0 {
            (self.fruitless, self.has_data) = (0, true);
            if is_direct {
                return Ok(len);
            }
            self.plain.truncate(len);
            return Ok(self.take_plain(into));
        }
        self.fruitless += 1;
        if self.fruitless > FRUITLESS_MAX {
            return Err(TlsFailure::protocol("many records without data"));
        }
        let payload = if is_direct {
            into[..len].to_vec()
        } else {
            let mut payload = std::mem::take(&mut self.plain);
            payload.truncate(len);
            payload
        };
        let handled = self.control(content_type, &payload, outgoing);
        if let Err((alert, failure)) = handled {
            if let Some(alert) = alert {
                self.alert(FATAL, alert, outgoing).ok();
            }
            return Err(failure);
        }
        Ok(0)
    }

    /// Moves decrypted bytes that had no room.
    fn take_plain(&mut self, into: &mut [u8]) -> usize {
        let rest = &self.plain[self.plain_start..];
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        self.plain_start += len;
        if self.plain_start == self.plain.len() {
            self.plain.clear();
            self.plain_start = 0;
        }
        len
    }

    /// Handles what is no data.
    fn control(
        &mut self,
        content_type: ContentType,
        payload: &[u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<(), (Option<AlertDescription>, TlsFailure)> {
        let unexpected = || {
            let failure = TlsFailure::protocol("a message that does not belong there");
            (Some(AlertDescription::UnexpectedMessage), failure)
        };
        match (content_type, payload) {
            (ContentType::ApplicationData, []) => Ok(()),
            (ContentType::Alert, &[level, alert]) => self
                .hear(level, AlertDescription::from(alert))
                .map_err(|failure| (None, failure)),
            (ContentType::Handshake, [_, ..]) => {
                self.message.extend_from_slice(payload);
                while let Some(len) = message_len(&self.message) {
                    let message: Vec<u8> = self.message.drain(..len).collect();
                    self.message(&message, outgoing)?.ok_or_else(unexpected)?;
                }
                if self.message.len() > MESSAGE_MAX {
                    return Err(unexpected());
                }
                Ok(())
            }
            _ => Err(unexpected()),
        }
    }

    fn hear(&mut self, level: u8, alert: AlertDescription) -> Result<(), TlsFailure> {
        match alert {
            AlertDescription::CloseNotify => self.is_closed = true,
            AlertDescription::UserCanceled => {}
            _ if level == WARNING && !self.is_tls13 => {}
            _ => {
                let text = format!("received fatal alert: {alert:?}");
                // A server of TLS 1.3 refuses a client after the client's handshake is done.
                return Err(if self.has_data {
                    TlsFailure::protocol(&text)
                } else {
                    TlsFailure::handshake(text)
                });
            }
        }
        Ok(())
    }

    /// Handles a message of the handshake protocol; None if it does not belong there.
    fn message(
        &mut self,
        message: &[u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<Option<()>, (Option<AlertDescription>, TlsFailure)> {
        let (kind, payload) = (
            HandshakeType::from(message[0]),
            &message[MESSAGE_HEADER_LEN..],
        );
        let broken = |error: rustls::Error| {
            let failure = TlsFailure::protocol(&format!("a bad message: {error}"));
            (Some(AlertDescription::DecodeError), failure)
        };
        let inner = |failure| (Some(AlertDescription::InternalError), failure);
        match (kind, payload) {
            (HandshakeType::NewSessionTicket, _) if self.is_tls13 => {
                self.kernel
                    .handle_new_session_ticket(payload)
                    .map_err(broken)?;
            }
            // New keys begin with a record of their own.
            (HandshakeType::KeyUpdate, &[asks @ 0..=1])
                if self.is_tls13 && self.message.is_empty() =>
            {
                let (sequence, secrets) = self.kernel.update_rx_secret().map_err(broken)?;
                self.incoming = Keys::new(sequence, secrets, true).map_err(inner)?;
                if asks == 1 {
                    let at = outgoing.len();
                    outgoing.resize(at + KEY_UPDATE.len() + OVERHEAD_MAX, 0);
                    let len = self.new_keys(&mut outgoing[at..]).map_err(inner)?;
                    outgoing.truncate(at + len);
                }
            }
            // A server that asks for another handshake may be told no.
            (HandshakeType::HelloRequest, []) if !self.is_tls13 => {
                self.alert(WARNING, AlertDescription::NoRenegotiation, outgoing)
                    .map_err(inner)?;
            }
            _ => return Ok(None),
        }
        Ok(Some(()))
    }

    /// Takes new keys before the old ones have encrypted too much; returns the bytes for the wire.
    fn refresh(&mut self, into: &mut [u8]) -> Result<usize, TlsFailure> {
        if self.outgoing.used() + 1 < self.records_max {
            return Ok(0);
        }
        if !self.is_tls13 {
            return Err(TlsFailure::internal(
                "the connection has sent all that its keys allow",
            ));
        }
        self.new_keys(into)
    }

    fn new_keys(&mut self, into: &mut [u8]) -> Result<usize, TlsFailure> {
        let len = self
            .outgoing
            .seal(ContentType::Handshake, &KEY_UPDATE, into)?;
        let update = self.kernel.update_tx_secret();
        let (sequence, secrets) = update.map_err(|_| TlsFailure::internal("no new keys"))?;
        self.outgoing = Keys::new(sequence, secrets, true)?;
        Ok(len)
    }

    fn alert(
        &mut self,
        level: u8,
        alert: AlertDescription,
        outgoing: &mut Vec<u8>,
    ) -> Result<(), TlsFailure> {
        let message = [level, u8::from(alert)];
        let at = outgoing.len();
        outgoing.resize(at + message.len() + OVERHEAD_MAX, 0);
        let len = self
            .outgoing
            .seal(ContentType::Alert, &message, &mut outgoing[at..])?;
        outgoing.truncate(at + len);
        Ok(())
    }
}

/// Tells the server why its handshake failed.
fn say_why(
    connection: &mut UnbufferedClientConnection,
    incoming: &mut Incoming,
    outgoing: &mut Vec<u8>,
) {
    let said = connection.process_tls_records(incoming.bytes_mut()).state;
    if let Ok(ConnectionState::EncodeTlsData(mut data)) = said {
        // The server may guess.
        append(outgoing, |room| data.encode(room)).ok();
    }
}

/// Appends what `encode` writes.
fn append(
    outgoing: &mut Vec<u8>,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), TlsFailure> {
    let at = outgoing.len();
    let len = match encode(&mut []) {
        Err(EncodeError::InsufficientSize(needed)) => {
            outgoing.resize(at + needed.required_size, 0);
            encode(&mut outgoing[at..])
        }
        other => other,
    };
    let len = len.map_err(|error| TlsFailure::handshake(error.to_string()))?;
    outgoing.truncate(at + len);
    Ok(())
}

/// The length of the first message of the handshake protocol, if it is there.
fn message_len(bytes: &[u8]) -> Option<usize> {
    let (&[_, high, middle, low], _) = bytes.split_first_chunk()?;
    let len = MESSAGE_HEADER_LEN + u32::from_be_bytes([0, high, middle, low]) as usize;
    (bytes.len() >= len).then_some(len)
}

/// Type and length of a message.
const MESSAGE_HEADER_LEN: usize = 4;
/// The message that says that new keys follow, and asks for none.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
const WARNING: u8 = 1;
const FATAL: u8 = 2;
