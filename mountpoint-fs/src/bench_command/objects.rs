//! The objects to read, as the listing names them.

use std::time::Duration;

use mountpoint_client::types::{ETag, Key, ListRequest, ObjectInfo};
use mountpoint_client::{ClientError, ObjectClient};

use super::figures::Figures;
use crate::clock::Clock;

/// An object to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) key: Key,
    pub(super) etag: ETag,
    /// Bytes.
    pub(super) size: u64,
}

/// Objects to read.
#[derive(Clone, Debug, Default)]
pub(super) struct Targets {
    /// For throughput, the largest first.
    pub(super) large: Vec<Target>,
    /// For small files.
    pub(super) small: Vec<Target>,
}

impl Targets {
    /// Chooses among what was listed. Archived objects cannot be read.
    pub(super) fn choose(listed: &[ObjectInfo]) -> Self {
        let readable = listed.iter().filter(|object| {
            let class = object.storage_class.as_deref().unwrap_or_default();
            !ARCHIVED.contains(&class) || object.restored
        });
        let mut found = Self::default();
        for object in readable.filter(|object| object.size > 0) {
            let target = Target {
                key: object.key.clone(),
                etag: object.etag.clone(),
                size: object.size,
            };
            if target.size <= SMALL_MAX && found.small.len() < SMALL_COUNT_MAX {
                found.small.push(target);
            } else if target.size >= LARGE_MIN {
                found.large.push(target);
            }
        }
        found
            .large
            .sort_by_key(|target| std::cmp::Reverse(target.size));
        found.large.truncate(LARGE_COUNT_MAX);
        found
    }
}

/// Lists the first pages below `prefix` for at most `time_max`, and measures that.
///
/// # Errors
/// If the first page fails.
pub(super) async fn list(
    client: &dyn ObjectClient,
    prefix: &str,
    (clock, time_max): (&Clock, Duration),
) -> Result<(Figures, Vec<ObjectInfo>), ClientError> {
    let (mut figures, mut listed) = (Figures::default(), Vec::new());
    let begun = clock.now();
    let mut token = None;
    for page in 0..PAGES_MAX {
        let asked = clock.now();
        let request = ListRequest {
            prefix: prefix.to_owned(),
            continuation_token: token.take(),
            ..ListRequest::default()
        };
        let output = match client.list(request).await {
            Ok(output) => output,
            Err(error) if page == 0 => return Err(error),
            Err(error) => {
                figures.failed(error.to_string());
                break;
            }
        };
        figures.succeeded(0, clock.now().saturating_sub(asked));
        listed.extend(output.objects);
        token = output.continuation_token;
        if token.is_none() || clock.now().saturating_sub(begun) > time_max {
            break;
        }
    }
    figures.elapsed = clock.now().saturating_sub(begun);
    figures.operations = listed.len() as u64;
    Ok((figures, listed))
}

/// Storage classes whose objects must be restored first.
const ARCHIVED: [&str; 2] = ["GLACIER", "DEEP_ARCHIVE"];

/// Most bytes of a small file.
const SMALL_MAX: u64 = 1 << 20;
const SMALL_COUNT_MAX: usize = 10_000;

/// Least bytes of an object that shows throughput: one request of the size that is used.
const LARGE_MIN: u64 = 8 << 20;
const LARGE_COUNT_MAX: usize = 256;

/// Pages of a listing.
const PAGES_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn object(key: &str, size: u64, class: Option<&str>) -> ObjectInfo {
        ObjectInfo {
            key: Key::parse(key).unwrap(),
            size,
            etag: ETag::from_header("\"1\""),
            last_modified: std::time::SystemTime::UNIX_EPOCH,
            storage_class: class.map(str::to_owned),
            restored: false,
        }
    }

    #[test]
    fn archived_and_empty_objects_are_left_out() {
        let listed = [
            object("a", 8 << 20, None),
            object("b", 9 << 20, Some("STANDARD")),
            object("c", 10 << 20, Some("GLACIER")),
            object("d", 0, None),
            object("e", 1, None),
            object("f", 2 << 20, None),
        ];
        let targets = Targets::choose(&listed);
        let keys = |targets: &[Target]| {
            let keys = targets.iter().map(|target| target.key.to_string());
            keys.collect::<Vec<_>>()
        };
        assert_eq!(keys(&targets.large), ["b", "a"]);
        assert_eq!(keys(&targets.small), ["e"]);
    }
}
