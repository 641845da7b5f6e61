//! The encryption of objects: by a key of S3, of KMS, or of the user.
//!
//! Knows the headers' values, not which request carries them. Never prints a key.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use md5::{Digest, Md5};

/// A key that S3 keeps, for what is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerSideEncryption {
    /// S3's own key: SSE-S3.
    Aes256,
    /// A key of KMS: SSE-KMS.
    Kms {
        /// Its ARN; `None` for the account's default key.
        key_id: Option<String>,
    },
    /// Two layers of SSE-KMS: DSSE-KMS.
    KmsDsse {
        /// Its ARN; `None` for the account's default key.
        key_id: Option<String>,
    },
}

impl ServerSideEncryption {
    /// S3's name for it.
    #[must_use]
    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::Aes256 => "AES256",
            Self::Kms { .. } => "aws:kms",
            Self::KmsDsse { .. } => "aws:kms:dsse",
        }
    }

    /// The key of KMS, if one is named.
    #[must_use]
    pub fn key_id(&self) -> Option<&str> {
        match self {
            Self::Aes256 => None,
            Self::Kms { key_id } | Self::KmsDsse { key_id } => key_id.as_deref(),
        }
    }
}

/// A 256-bit key that the user keeps and sends with each request: SSE-C.
#[derive(Clone, PartialEq, Eq)]
pub struct SseCustomerKey([u8; Self::LEN]);

impl SseCustomerKey {
    /// Bytes of a key.
    pub const LEN: usize = 32;

    /// The key of these bytes.
    #[must_use]
    pub fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// The key as its header carries it.
    pub(super) fn base64(&self) -> String {
        BASE64_STANDARD.encode(self.0)
    }

    /// Tells keys apart without telling the key: what requests and answers carry for that.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        self.md5_base64()
    }

    /// The key's MD5, by which S3 notices a damaged one.
    pub(super) fn md5_base64(&self) -> String {
        BASE64_STANDARD.encode(Md5::digest(self.0))
    }
}

impl fmt::Debug for SseCustomerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SseCustomerKey(..)")
    }
}
