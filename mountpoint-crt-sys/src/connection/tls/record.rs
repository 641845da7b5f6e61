//! Records of TLS 1.2 and 1.3, whose keys rustls has agreed on: sealed from where bytes lie, opened
//! to where they belong.
//!
//! rustls copies what it decrypts to memory of its own. So its part ends with the handshake, and
//! the bytes of a record are decrypted straight into the request's block.

use aws_lc_rs::aead::{self, Aad, LessSafeKey, UnboundKey};
use rustls::crypto::cipher::{Iv, Nonce, make_tls12_aad, make_tls13_aad};
use rustls::{ConnectionTrafficSecrets, ContentType, ProtocolVersion};

use super::failure::TlsFailure;

/// Bytes of plaintext that a record may have.
pub(super) const PLAINTEXT_MAX: usize = 16 << 10;

/// Bytes before a record's body: type, version, length.
pub(super) const HEADER_LEN: usize = 5;

/// Bytes that a record has more than its plaintext, at most: header, explicit nonce, inner type,
/// tag.
pub(super) const OVERHEAD_MAX: usize = HEADER_LEN + EXPLICIT_LEN + 1 + TAG_LEN;

/// Bytes that a body may be longer than the plaintext in it, by the standards.
const EXPANSION_MAX_13: usize = 256;
const EXPANSION_MAX_12: usize = 2048;

const TAG_LEN: usize = 16;
/// The part of a nonce that TLS 1.2 sends along with AES-GCM.
const EXPLICIT_LEN: usize = 8;
const VERSION: [u8; 2] = [3, 3];

/// The keys of one direction, with the number of the next record.
pub(super) struct Keys {
    key: LessSafeKey,
    iv: Iv,
    sequence: u64,
    form: Form,
}

/// How nonces and bodies are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Tls13,
    Tls12Gcm,
    Tls12ChaCha,
}

/// A record that has come whole.
#[derive(Clone, Copy)]
pub(super) struct Header {
    pub(super) content_type: ContentType,
    pub(super) body_len: usize,
}

impl Keys {
    pub(super) fn new(
        sequence: u64,
        secrets: ConnectionTrafficSecrets,
        is_tls13: bool,
    ) -> Result<Self, TlsFailure> {
        let (algorithm, key, iv, tls12) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => {
                (&aead::AES_128_GCM, key, iv, Form::Tls12Gcm)
            }
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => {
                (&aead::AES_256_GCM, key, iv, Form::Tls12Gcm)
            }
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
                (&aead::CHACHA20_POLY1305, key, iv, Form::Tls12ChaCha)
            }
            _ => return Err(TlsFailure::internal("an unknown cipher")),
        };
        let key = UnboundKey::new(algorithm, key.as_ref())
            .map_err(|_| TlsFailure::internal("keys of a wrong length"))?;
        Ok(Self {
            key: LessSafeKey::new(key),
            iv,
            sequence,
            form: if is_tls13 { Form::Tls13 } else { tls12 },
        })
    }

    /// Records that these keys have sealed or opened.
    pub(super) fn used(&self) -> u64 {
        self.sequence
    }

    /// The header of the first record in `bytes`, if all of the record is there.
    pub(super) fn header(&self, bytes: &[u8]) -> Result<Option<Header>, TlsFailure> {
        let Some((&[content_type, major, minor, high, low], rest)) = bytes.split_first_chunk()
        else {
            return Ok(None);
        };
        if [major, minor] != VERSION {
            return Err(TlsFailure::protocol("a record of an unknown version"));
        }
        let body_len = usize::from(u16::from_be_bytes([high, low]));
        let expansion_max = match self.form {
            Form::Tls13 => EXPANSION_MAX_13,
            Form::Tls12Gcm | Form::Tls12ChaCha => EXPANSION_MAX_12,
        };
        if body_len > PLAINTEXT_MAX + expansion_max {
            return Err(TlsFailure::protocol("a record that is too long"));
        }
        let content_type = ContentType::from(content_type);
        Ok((rest.len() >= body_len).then_some(Header {
            content_type,
            body_len,
        }))
    }

    /// Bytes that `open` writes for a body of this length.
    pub(super) fn opened_len(&self, body_len: usize) -> Result<usize, TlsFailure> {
        let overhead = TAG_LEN + self.explicit_len();
        body_len
            .checked_sub(overhead)
            .ok_or_else(|| TlsFailure::protocol("a record that is too short"))
    }

    /// Decrypts a record's body into `into`, which has room for exactly what is in it, and returns
    /// what it is and how long. Nothing in `into` counts if it fails.
    pub(super) fn open(
        &mut self,
        header: Header,
        body: &[u8],
        into: &mut [u8],
    ) -> Result<(ContentType, usize), TlsFailure> {
        let (explicit, sealed) = body.split_at(self.explicit_len());
        let (ciphertext, tag) = sealed.split_at(into.len());
        let mut nonce = Nonce::new(&self.iv, self.sequence).0;
        if self.form == Form::Tls12Gcm {
            let at = nonce.len() - EXPLICIT_LEN;
            nonce[..at].copy_from_slice(&self.iv.as_ref()[..at]);
            nonce[at..].copy_from_slice(explicit);
        }
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let opened = match self.form {
            Form::Tls13 => {
                if header.content_type != ContentType::ApplicationData {
                    return Err(TlsFailure::protocol("a record that is not encrypted"));
                }
                let aad = Aad::from(make_tls13_aad(body.len()));
                self.key
                    .open_separate_gather(nonce, aad, ciphertext, tag, into)
            }
            Form::Tls12Gcm | Form::Tls12ChaCha => {
                let version = ProtocolVersion::TLSv1_2;
                let aad = make_tls12_aad(self.sequence, header.content_type, version, into.len());
                self.key
                    .open_separate_gather(nonce, Aad::from(aad), ciphertext, tag, into)
            }
        };
        opened.map_err(|_| TlsFailure::protocol("a record that cannot be decrypted"))?;
        self.sequence += 1;
        let (content_type, len) = match self.form {
            Form::Tls13 => inner_type(into)?,
            Form::Tls12Gcm | Form::Tls12ChaCha => (header.content_type, into.len()),
        };
        if len > PLAINTEXT_MAX {
            return Err(TlsFailure::protocol("a record that is too long"));
        }
        Ok((content_type, len))
    }

    /// Writes `plaintext`, no longer than `PLAINTEXT_MAX`, as one record to the start of `into`,
    /// which has `OVERHEAD_MAX` bytes more, and returns the record's length.
    pub(super) fn seal(
        &mut self,
        content_type: ContentType,
        plaintext: &[u8],
        into: &mut [u8],
    ) -> Result<usize, TlsFailure> {
        let inner_type = [u8::from(content_type)];
        let inner_type: &[u8] = match self.form {
            Form::Tls13 => &inner_type,
            Form::Tls12Gcm | Form::Tls12ChaCha => &[],
        };
        let outer_type = match self.form {
            Form::Tls13 => ContentType::ApplicationData,
            Form::Tls12Gcm | Form::Tls12ChaCha => content_type,
        };
        let explicit_len = self.explicit_len();
        let body_len = explicit_len + plaintext.len() + inner_type.len() + TAG_LEN;
        let wire_len =
            u16::try_from(body_len).map_err(|_| TlsFailure::internal("a long record"))?;
        let (header, rest) = into.split_at_mut(HEADER_LEN);
        header[0] = u8::from(outer_type);
        header[1..3].copy_from_slice(&VERSION);
        header[3..].copy_from_slice(&wire_len.to_be_bytes());
        let (explicit, rest) = rest.split_at_mut(explicit_len);
        let (ciphertext, rest) = rest.split_at_mut(plaintext.len());
        let end = &mut rest[..inner_type.len() + TAG_LEN];
        let nonce = Nonce::new(&self.iv, self.sequence).0;
        explicit.copy_from_slice(&nonce[nonce.len() - explicit_len..]);
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let key = &self.key;
        let sealed = match self.form {
            Form::Tls13 => {
                let aad = Aad::from(make_tls13_aad(body_len));
                key.seal_out_of_place_scatter(nonce, aad, plaintext, ciphertext, inner_type, end)
            }
            Form::Tls12Gcm | Form::Tls12ChaCha => {
                let version = ProtocolVersion::TLSv1_2;
                let aad = make_tls12_aad(self.sequence, content_type, version, plaintext.len());
                let aad = Aad::from(aad);
                key.seal_out_of_place_scatter(nonce, aad, plaintext, ciphertext, inner_type, end)
            }
        };
        sealed.map_err(|_| TlsFailure::internal("encryption failed"))?;
        self.sequence += 1;
        Ok(HEADER_LEN + body_len)
    }

    fn explicit_len(&self) -> usize {
        match self.form {
            Form::Tls12Gcm => EXPLICIT_LEN,
            Form::Tls13 | Form::Tls12ChaCha => 0,
        }
    }
}

/// The type that TLS 1.3 encrypts behind the plaintext, and its place; zeros may follow.
fn inner_type(opened: &[u8]) -> Result<(ContentType, usize), TlsFailure> {
    let end = opened.iter().rposition(|byte| *byte != 0);
    let at = end.ok_or_else(|| TlsFailure::protocol("a record without a type"))?;
    Ok((ContentType::from(opened[at]), at))
}
