//! Headers and metadata of objects: what a request names, and what no request can carry.

use mountpoint_crt_sys::bytes_of_text;

use super::{USER_METADATA_LEN_MAX, WriteToken};

/// Headers and metadata of an object.
///
/// Values are as they were received. A byte that is not UTF-8 is a NUL and two digits
/// ([`mountpoint_crt_sys::text_of_bytes`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectHeaders {
    /// `Content-Type`; S3 stores `binary/octet-stream` where it is absent.
    pub content_type: Option<String>,
    /// `x-amz-storage-class`.
    pub storage_class: Option<String>,
    /// User metadata, without the `x-amz-meta-` prefix.
    pub metadata: Vec<(String, String)>,
    /// `Cache-Control`.
    pub cache_control: Option<String>,
    /// `Content-Disposition`.
    pub content_disposition: Option<String>,
    /// `Content-Encoding`.
    pub content_encoding: Option<String>,
    /// `Content-Language`.
    pub content_language: Option<String>,
    /// `Expires`, as it was sent.
    pub expires: Option<String>,
    /// `x-amz-website-redirect-location`.
    pub website_redirect: Option<String>,
    /// Its own encryption by a key of KMS. Settings of the client that name another one go before
    /// it, and in a directory bucket the bucket's does.
    pub encryption: Option<KmsEncryption>,
    /// The token of the write that makes the object. Not that of the object whose headers these
    /// were: the next write is another one.
    pub token: Option<WriteToken>,
}

impl ObjectHeaders {
    /// The headers of a request that stores the object.
    ///
    /// Its own encryption is among them if it `keeps_encryption`.
    #[must_use]
    pub fn fields(&self, keeps_encryption: bool) -> Vec<(String, String)> {
        let named = [
            ("Content-Type", &self.content_type),
            ("Cache-Control", &self.cache_control),
            ("Content-Disposition", &self.content_disposition),
            ("Content-Encoding", &self.content_encoding),
            ("Content-Language", &self.content_language),
            ("Expires", &self.expires),
            ("x-amz-storage-class", &self.storage_class),
        ];
        let named = named.into_iter().filter_map(|(name, value)| {
            let value = value.as_ref()?;
            Some((name.to_owned(), value.clone()))
        });
        let metadata = self.stored_metadata();
        let metadata = metadata.map(|(name, value)| (format!("x-amz-meta-{name}"), value));
        let uncopied = self.uncopied_fields(keeps_encryption);
        named.chain(metadata).chain(uncopied).collect()
    }

    /// The user metadata that the object gets: the token is the last.
    pub fn stored_metadata(&self) -> impl Iterator<Item = (String, String)> {
        let token = self.token.as_ref().map(|token| {
            let name = WriteToken::METADATA_NAME.to_owned();
            (name, token.as_str().to_owned())
        });
        self.metadata.iter().cloned().chain(token)
    }

    /// The headers with a token: the given one, or a new one. Without any if the metadata leave no
    /// room for it.
    #[must_use]
    pub fn with_token(mut self) -> Self {
        let has_room = self.metadata_len() + WriteToken::METADATA_LEN_MAX <= USER_METADATA_LEN_MAX;
        let token = self.token.take().or_else(|| Some(WriteToken::random()));
        self.token = token.filter(|_| has_room);
        self
    }

    /// Headers that S3 does not take from the source of a copy, whatever its directive, besides the
    /// storage class.
    #[must_use]
    pub fn uncopied_fields(&self, keeps_encryption: bool) -> Vec<(String, String)> {
        let mut all = Vec::new();
        let mut add = |name: &str, value: &str| all.push((name.to_owned(), value.to_owned()));
        if let Some(redirect) = &self.website_redirect {
            add("x-amz-website-redirect-location", redirect);
        }
        if let Some(encryption) = self.encryption.as_ref().filter(|_| keeps_encryption) {
            add("x-amz-server-side-encryption", &encryption.algorithm);
            if let Some(key_id) = &encryption.key_id {
                add("x-amz-server-side-encryption-aws-kms-key-id", key_id);
            }
            if encryption.bucket_key {
                add("x-amz-server-side-encryption-bucket-key-enabled", "true");
            }
        }
        all
    }

    /// The header that no request can carry, and the reason, if there is one.
    ///
    /// HTTP can carry whatever it has brought. A line break in a value would be a header of its
    /// own.
    pub fn check(&self) -> Result<(), String> {
        for (name, value) in self.fields(true) {
            if !name.bytes().all(is_of_name) {
                return Err(format!("{name:?} cannot be the name of a header"));
            }
            if !bytes_of_text(&value).iter().all(|byte| is_of_value(*byte)) {
                return Err(format!(
                    "the value of {name} cannot be sent: it has control characters"
                ));
            }
        }
        Ok(())
    }

    /// Bytes of the metadata as S3 counts them, without the token.
    #[must_use]
    pub fn metadata_len(&self) -> usize {
        let len = |(name, value): &(String, String)| name.len() + bytes_of_text(value).len();
        self.metadata.iter().map(len).sum()
    }

    /// Whether all values are UTF-8.
    #[must_use]
    pub fn are_utf8(&self) -> bool {
        let fields = self.fields(true);
        fields.iter().all(|(_, value)| !value.contains('\0'))
    }
}

/// Whether the name of a header may have `byte` (RFC 9110, "token").
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether the value of a header may have `byte` (RFC 9110, "field-value").
fn is_of_value(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Encryption of one object by a key of KMS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KmsEncryption {
    /// `aws:kms` or `aws:kms:dsse`.
    pub algorithm: String,
    /// The key; `None` for the account's default key.
    pub key_id: Option<String>,
    /// Whether S3 asks KMS with a key of the bucket.
    pub bucket_key: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_header_is_smuggled_in_and_any_that_was_received_is_sent() {
        let check = |name: &str, value: &str| {
            let metadata = vec![(name.to_owned(), value.to_owned())];
            let headers = ObjectHeaders {
                metadata,
                ..ObjectHeaders::default()
            };
            headers.check().is_ok()
        };
        for (name, value) in [
            ("a-b_c.d", "plain value ~"),
            ("a+b", "f\u{fc}r \u{1f600}"),
            ("a!#$%&'*^`|~", "tab\tand more"),
            ("latin-1", "f\0fcr"),
            ("a", ""),
        ] {
            assert!(check(name, value), "{name:?} {value:?}");
        }
        for (name, value) in [
            ("a", "b\r\nX: y"),
            ("a", "b\x000d\x000aX: y"),
            ("a b", "c"),
            ("a:", "c"),
            ("a\n", "c"),
            ("\u{fc}", "c"),
            ("a", "\0"),
            ("a", "\u{7f}"),
        ] {
            assert!(!check(name, value), "{name:?} {value:?}");
        }
    }
}
