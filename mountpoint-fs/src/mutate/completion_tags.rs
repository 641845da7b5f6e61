//! The ETag of an object that an upload has become: some servers tell another one at its completion
//! than in HEAD and LIST.
//!
//! Nothing is guessed: a HEAD after the first completion shows it. Where both are the same, that
//! was all; where they are not, a HEAD follows every completion, because conditions name the ETag
//! that the server compares.

use std::sync::atomic::{AtomicBool, Ordering};

use mountpoint_client::types::{ETag, Key, ObjectInfo, Part};
use mountpoint_client::{ErrorKind, ObjectClient};

/// Whether the ETags in answers to completions are those of HEAD.
#[derive(Debug, Default)]
pub(crate) struct CompletionTags {
    /// The ETags are those of HEAD, or no request can tell.
    are_believed: AtomicBool,
    /// The ETags were seen to differ from those of HEAD.
    differ: AtomicBool,
}

/// An upload whose completion was answered.
#[derive(Debug)]
pub(crate) struct Completed<'a> {
    pub(crate) key: &'a Key,
    /// As the answer tells it.
    pub(crate) etag: ETag,
    pub(crate) parts: &'a [Part],
    /// The version that it replaced, as far as that is known.
    pub(crate) old: Option<&'a ETag>,
}

impl CompletionTags {
    /// The ETag by which the server knows the object that was `completed`.
    pub(crate) async fn known_by(
        &self,
        client: &dyn ObjectClient,
        completed: Completed<'_>,
    ) -> ETag {
        if self.are_believed.load(Ordering::Relaxed) {
            return completed.etag;
        }
        match client.head(completed.key).await {
            Ok(there) if there.etag.matches(&completed.etag) => {
                let differ = self.differ.load(Ordering::Relaxed);
                self.are_believed.store(!differ, Ordering::Relaxed);
                completed.etag
            }
            Ok(there) if completed.may_be(&there) => {
                if !self.differ.swap(true, Ordering::Relaxed) {
                    tracing::info!(
                        "the server tells other ETags at the end of uploads in parts than in HEAD, which is asked from now on"
                    );
                }
                there.etag
            }
            // A mount that may not read will not be told the next time either.
            Err(error) if error.kind == ErrorKind::Denied => {
                self.are_believed.store(true, Ordering::Relaxed);
                completed.etag
            }
            // Another host has replaced the object, or nobody knows.
            Ok(_) | Err(_) => completed.etag,
        }
    }
}

impl Completed<'_> {
    /// Whether the object that is there, which has another ETag than was told, may be the one that
    /// was made. Another host may have replaced it since.
    fn may_be(&self, there: &ObjectInfo) -> bool {
        let size: u64 = self.parts.iter().map(|part| part.size).sum();
        let is_old = self.old.is_some_and(|old| old.matches(&there.etag));
        if there.size != size || is_old {
            return false;
        }
        let is_of_parts = |etag: &ETag| etag.is_of_parts(self.parts.iter().map(|part| &part.etag));
        if is_of_parts(&there.etag) {
            return true;
        }
        match there.etag.parts() {
            None => true,
            // Of as many other parts, where the server makes the tags of uploads of their parts.
            Some(count) => count == self.parts.len() && !is_of_parts(&self.etag),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use futures::executor::block_on;
    use mountpoint_client::SimClient;
    use mountpoint_client::testing::sim::{Operation, SimOptions};
    use mountpoint_client::types::PartNumber;

    use super::*;

    /// An answer to the completion of `key`, which holds 5 bytes.
    fn answered<'a>(key: &'a Key, told: &str, parts: &'a [Part]) -> Completed<'a> {
        Completed {
            key,
            etag: ETag::from_header(told),
            parts,
            old: None,
        }
    }

    #[test]
    fn a_server_is_asked_until_it_is_believed() {
        let client = SimClient::new(SimOptions::default());
        let there = client.put_object("key", "12345").etag;
        let there = there.as_str();
        let key = Key::parse("key").unwrap();
        let part = [Part {
            number: PartNumber(1),
            etag: ETag::from_header(ONE),
            size: 5,
            checksum: None,
        }];
        // The tags of completions, the ETags that count, and how many of the answers were compared.
        for (told, known_by, asked) in [
            ([there, there, OTHER], [there, there, OTHER], 1),
            ([OTHER, OTHER, there], [there, there, there], 3),
        ] {
            let tags = CompletionTags::default();
            drop(client.take_log());
            for (told, known_by) in told.into_iter().zip(known_by) {
                let known = block_on(tags.known_by(&client, answered(&key, told, &part)));
                assert_eq!(known.as_str(), known_by);
            }
            assert_eq!(client.log().count(Operation::HeadObject), asked);
        }
    }

    const ONE: &str = "\"11111111111111111111111111111111\"";
    const TWO: &str = "\"22222222222222222222222222222222\"";
    const OTHER: &str = "\"33333333333333333333333333333333-2\"";

    #[test]
    fn objects_that_another_host_has_put_there_are_no_proof() {
        let tags = [ONE, TWO].map(ETag::from_header);
        let made = ETag::of_parts(&tags).unwrap();
        let made = made.as_str();
        let parts = [1, 2].map(|number| Part {
            number: PartNumber(number),
            etag: tags[usize::from(number) - 1].clone(),
            size: 5,
            checksum: None,
        });
        let key = Key::parse("key").unwrap();
        let more = "\"33333333333333333333333333333333-3\"";
        // The tag of the completion, the object's tag, its size, and the tag before.
        for (told, there, size, old, expected) in [
            (made, ONE, 10, None, true),
            (made, "\"any\"", 10, Some(TWO), true),
            (made, ONE, 9, None, false),
            (made, ONE, 10, Some(ONE), false),
            (made, OTHER, 10, None, false),
            ("\"any\"", OTHER, 10, None, true),
            ("\"any\"", made, 10, None, true),
            ("\"any\"", more, 10, None, false),
        ] {
            let old = old.map(ETag::from_header);
            let completed = Completed {
                key: &key,
                etag: ETag::from_header(told),
                parts: &parts,
                old: old.as_ref(),
            };
            let there = ObjectInfo {
                key: key.clone(),
                size,
                etag: ETag::from_header(there),
                last_modified: SystemTime::UNIX_EPOCH,
                storage_class: None,
                restored: false,
            };
            let case = format!("{told} {there:?} {old:?}");
            assert_eq!(completed.may_be(&there), expected, "{case}");
        }
    }
}
