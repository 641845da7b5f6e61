//! An ETag in few bytes: there may be millions of them in memory and in a file.
//!
//! Pure. Invariant: what is packed comes out as it went in.

use mountpoint_client::types::ETag;

/// An ETag. Most are an MD5 in hexadecimal, some with a number of parts behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackedETag {
    /// 32 hexadecimal digits.
    Digest {
        /// The bytes of the digits.
        digest: [u8; Self::DIGEST_LEN],
        /// The number of parts; 0 where there is none.
        parts: u16,
    },
    /// Any other text.
    Other(ETag),
}

impl PackedETag {
    /// Bytes of an MD5.
    pub const DIGEST_LEN: usize = 16;

    /// Packs `etag`.
    #[must_use]
    pub fn pack(etag: &ETag) -> Self {
        let text = etag.as_str();
        let unquoted = text
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'));
        let packed = unquoted.and_then(Self::digest);
        // Only what comes out as it went in: upper case, leading zeros and whatever else there may
        // be do not.
        packed
            .filter(|packed| packed.unpack() == *etag)
            .unwrap_or_else(|| Self::Other(etag.clone()))
    }

    fn digest(text: &str) -> Option<Self> {
        let (hex, parts) = match text.split_once('-') {
            None => (text, 0),
            Some((hex, parts)) => (hex, parts.parse().ok().filter(|parts| *parts > 0)?),
        };
        if hex.len() != 2 * Self::DIGEST_LEN || !hex.is_ascii() {
            return None;
        }
        let mut digest = [0; Self::DIGEST_LEN];
        for (index, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).ok()?;
        }
        Some(Self::Digest { digest, parts })
    }

    /// The ETag as it was.
    #[must_use]
    pub fn unpack(&self) -> ETag {
        use std::fmt::Write;
        let (digest, parts) = match self {
            Self::Other(etag) => return etag.clone(),
            Self::Digest { digest, parts } => (digest, *parts),
        };
        let mut text = String::with_capacity(2 * Self::DIGEST_LEN + "\"-65535\"".len());
        text.push('"');
        // Once for each name that is listed: the formatter would take a twentieth of a long
        // listing's time.
        for byte in digest {
            text.push(char::from(HEX[usize::from(byte >> 4)]));
            text.push(char::from(HEX[usize::from(byte & 0xf)]));
        }
        if parts > 0 {
            write!(text, "-{parts}").expect("a string takes everything");
        }
        text.push('"');
        ETag::from_header(&text)
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";
