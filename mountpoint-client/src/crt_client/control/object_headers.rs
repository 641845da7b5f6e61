//! The headers of a request that stores an object: those of the object, its checksum, and the
//! condition.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::types::{Checksum, ObjectHeaders, PutCondition};

/// The headers an object carries, checked: a line break in a value would be a header of its own.
pub(in crate::crt_client) fn object_headers(
    headers: &ObjectHeaders,
    keeps_encryption: bool,
) -> Result<Vec<(String, String)>, String> {
    let mut all = Vec::new();
    if let Some(content_type) = &headers.content_type {
        all.push(("Content-Type".to_owned(), content_type.clone()));
    }
    let others = [
        ("Cache-Control", &headers.cache_control),
        ("Content-Disposition", &headers.content_disposition),
        ("Content-Encoding", &headers.content_encoding),
        ("Content-Language", &headers.content_language),
        ("Expires", &headers.expires),
    ];
    for (name, value) in others {
        if let Some(value) = value {
            all.push((name.to_owned(), value.clone()));
        }
    }
    if let Some(class) = &headers.storage_class {
        all.push(("x-amz-storage-class".to_owned(), class.clone()));
    }
    for (name, value) in &headers.metadata {
        all.push((format!("x-amz-meta-{name}"), value.clone()));
    }
    all.extend(uncopied_headers(headers, keeps_encryption));
    for (name, value) in &all {
        if !name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        {
            return Err(format!("{name:?} cannot be the name of a header"));
        }
        if !value
            .bytes()
            .all(|b| b == b'\t' || (b' '..=b'~').contains(&b))
        {
            return Err(format!(
                "the value of {name} cannot be sent: only printable ASCII can"
            ));
        }
    }
    Ok(all)
}

/// Headers that S3 does not take from the source of a copy, whatever its directive, besides the
/// storage class.
pub(in crate::crt_client) fn uncopied_headers(
    headers: &ObjectHeaders,
    keeps_encryption: bool,
) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut add = |name: &str, value: &str| all.push((name.to_owned(), value.to_owned()));
    if let Some(redirect) = &headers.website_redirect {
        add("x-amz-website-redirect-location", redirect);
    }
    if let Some(encryption) = headers.encryption.as_ref().filter(|_| keeps_encryption) {
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

/// The checksum's header: base64 of its big-endian bytes.
pub(in crate::crt_client) fn checksum_header(checksum: Checksum) -> (String, String) {
    let (name, value) = match checksum {
        Checksum::Crc32c(sum) => (
            "x-amz-checksum-crc32c",
            BASE64_STANDARD.encode(sum.to_be_bytes()),
        ),
        Checksum::Crc64Nvme(sum) => (
            "x-amz-checksum-crc64nvme",
            BASE64_STANDARD.encode(sum.to_be_bytes()),
        ),
    };
    (name.to_owned(), value)
}

/// `If-Match` and `If-None-Match` of a write.
pub(in crate::crt_client) fn condition_headers(
    condition: &PutCondition,
) -> (Option<String>, Option<String>) {
    match condition {
        PutCondition::None => (None, None),
        PutCondition::Match(etag) => (Some(etag.as_str().to_owned()), None),
        PutCondition::Absent => (None, Some("*".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_base64_of_big_endian() {
        // CRC-32C of "123456789" is 0xE3069283, CRC-64/NVME is 0xAE8B14860A799888.
        let (name, value) = checksum_header(Checksum::Crc32c(0xE306_9283));
        assert_eq!((&*name, &*value), ("x-amz-checksum-crc32c", "4waSgw=="));
        let (name, value) = checksum_header(Checksum::Crc64Nvme(0xAE8B_1486_0A79_9888));
        assert_eq!(
            (&*name, &*value),
            ("x-amz-checksum-crc64nvme", "rosUhgp5mIg=")
        );
    }

    #[test]
    fn no_header_is_smuggled_in() {
        let with = |name: &str, value: &str| ObjectHeaders {
            metadata: vec![(name.to_owned(), value.to_owned())],
            ..ObjectHeaders::default()
        };
        assert!(object_headers(&with("a-b_c.d", "plain value ~"), true).is_ok());
        for (name, value) in [
            ("a", "b\r\nX: y"),
            ("a", "ü"),
            ("a b", "c"),
            ("a:", "c"),
            ("a\n", "c"),
            ("a", "\0"),
        ] {
            assert!(
                object_headers(&with(name, value), true).is_err(),
                "{name:?} {value:?}"
            );
        }
    }
}
