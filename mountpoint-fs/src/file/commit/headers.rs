//! The headers of an object, as a record has them.

use mountpoint_client::types::{KmsEncryption, ObjectHeaders, WriteToken};
use serde::{Deserialize, Serialize};

/// The headers of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::file) struct HeadersRecord {
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_class: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    metadata: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_disposition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_encoding: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    website_redirect: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encryption: Option<EncryptionRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct EncryptionRecord {
    algorithm: String,
    key_id: Option<String>,
    bucket_key: bool,
}

impl From<ObjectHeaders> for HeadersRecord {
    fn from(headers: ObjectHeaders) -> Self {
        let ObjectHeaders {
            content_type,
            storage_class,
            metadata,
            cache_control,
            content_disposition,
            content_encoding,
            content_language,
            expires,
            website_redirect,
            encryption,
            token,
        } = headers;
        Self {
            content_type,
            storage_class,
            metadata,
            cache_control,
            content_disposition,
            content_encoding,
            content_language,
            expires,
            website_redirect,
            encryption: encryption.map(|it| EncryptionRecord {
                algorithm: it.algorithm,
                key_id: it.key_id,
                bucket_key: it.bucket_key,
            }),
            token: token.map(|token| token.as_str().to_owned()),
        }
    }
}

impl From<HeadersRecord> for ObjectHeaders {
    fn from(headers: HeadersRecord) -> Self {
        let HeadersRecord {
            content_type,
            storage_class,
            metadata,
            cache_control,
            content_disposition,
            content_encoding,
            content_language,
            expires,
            website_redirect,
            encryption,
            token,
        } = headers;
        Self {
            content_type,
            storage_class,
            metadata,
            cache_control,
            content_disposition,
            content_encoding,
            content_language,
            expires,
            website_redirect,
            encryption: encryption.map(|it| KmsEncryption {
                algorithm: it.algorithm,
                key_id: it.key_id,
                bucket_key: it.bucket_key,
            }),
            token: token.and_then(|token| WriteToken::parse(&token)),
        }
    }
}
