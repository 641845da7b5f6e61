//! The headers of a request that stores an object: those of the object, its checksum, and the
//! condition.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::types::{Checksum, ObjectHeaders, PutCondition};

/// The headers that an object carries, checked.
pub(in crate::crt_client) fn object_headers(
    headers: &ObjectHeaders,
    keeps_encryption: bool,
) -> Result<Vec<(String, String)>, String> {
    headers.check()?;
    Ok(headers.fields(keeps_encryption))
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
}
