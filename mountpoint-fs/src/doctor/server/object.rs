//! One GET of a few bytes, on the path of every read.

use std::ops::Range;

use mountpoint_client::types::{ETag, GetRequest, Key, ObjectInfo, Priority};
use mountpoint_client::{ClientError, GetHandle, ObjectClient};
use mountpoint_crt_sys::block::BlockPool;

use crate::mutate::fetch::begin_get;

/// The range to ask for.
///
/// The range of a longer object does not begin at its start, so that a server that ignores ranges
/// is noticed.
pub(in crate::doctor) fn range_of(size: u64) -> Range<u64> {
    let start = u64::from(size > 1);
    start..size.min(start + RANGE_MAX)
}

/// Whether an object can be read now.
pub(in crate::doctor) fn is_readable(object: &ObjectInfo) -> bool {
    let class = object.storage_class.as_deref().unwrap_or_default();
    let is_archived = matches!(class, "GLACIER" | "DEEP_ARCHIVE");
    object.size > 0 && (!is_archived || object.restored)
}

/// Asks for `range` of that version and drops the bytes.
pub(in crate::doctor) async fn get(
    client: &dyn ObjectClient,
    key: &Key,
    range: Range<u64>,
    version: ETag,
) -> Result<(), ClientError> {
    let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    let fill = BlockPool::new(0).allocate(len);
    let request = GetRequest {
        key: key.clone(),
        range,
        if_match: Some(version),
        object_size: None,
        priority: Priority::Foreground,
    };
    let (handle, outcome) = begin_get(client, request, fill);
    let _cancel = CancelOnDrop(Some(handle));
    outcome.await
}

/// An ETag that no object has.
pub(in crate::doctor) fn absent_version() -> ETag {
    ETag::from_header("\"00000000000000000000000000000000-doctor\"")
}

/// Cancels the GET when its caller is dropped; a finished one is not affected.
struct CancelOnDrop(Option<GetHandle>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            handle.cancel();
        }
    }
}

/// Length of the range: enough to be one, little enough to cost nothing.
const RANGE_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn ranges() {
        for (size, expected) in [(1, 0..1), (2, 1..2), (4097, 1..4097), (1 << 40, 1..4097)] {
            assert_eq!(range_of(size), expected, "{size}");
        }
    }

    #[test]
    fn objects_that_can_be_read() {
        for (size, class, restored, expected) in [
            (1, None, false, true),
            (0, None, false, false),
            (1, Some("STANDARD"), false, true),
            (1, Some("GLACIER_IR"), false, true),
            (1, Some("GLACIER"), false, false),
            (1, Some("DEEP_ARCHIVE"), false, false),
            (1, Some("GLACIER"), true, true),
        ] {
            let object = ObjectInfo {
                key: Key::parse("k").unwrap(),
                size,
                etag: absent_version(),
                last_modified: SystemTime::UNIX_EPOCH,
                storage_class: class.map(str::to_owned),
                restored,
            };
            assert_eq!(is_readable(&object), expected, "{object:?}");
        }
    }
}
