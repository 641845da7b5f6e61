//! The ETag of an object that an upload has become: some servers tell another one at its completion
//! than in HEAD and LIST.
//!
//! Nothing is guessed: a HEAD after the first completion shows it. Where both are the same, that
//! was all; where they are not, a HEAD follows every completion, because conditions name the ETag
//! that the server compares.

use std::sync::atomic::{AtomicBool, Ordering};

use mountpoint_client::types::{ETag, Key, WriteToken};
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
    /// The token of the upload, by which its object is known.
    pub(crate) token: Option<&'a WriteToken>,
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
        match client.head_details(completed.key).await {
            Ok(there) if there.info.etag.matches(&completed.etag) => {
                let differ = self.differ.load(Ordering::Relaxed);
                self.are_believed.store(!differ, Ordering::Relaxed);
                completed.etag
            }
            Ok(there) if there.token.is_some() && there.token.as_ref() == completed.token => {
                if !self.differ.swap(true, Ordering::Relaxed) {
                    tracing::info!(
                        "the server tells other ETags at the end of uploads in parts than in HEAD, which is asked from now on"
                    );
                }
                there.info.etag
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

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use mountpoint_client::SimClient;
    use mountpoint_client::testing::sim::{Operation, SimOptions};
    use mountpoint_client::types::{ObjectHeaders, PutCondition, PutRequest};

    use super::*;

    #[test]
    fn a_server_is_asked_until_it_is_believed() {
        let client = SimClient::new(SimOptions::default());
        let key = Key::parse("key").unwrap();
        let (ours, theirs) = (WriteToken::random(), WriteToken::random());
        let put = client.put(PutRequest {
            key: key.clone(),
            body: "12345".into(),
            condition: PutCondition::None,
            checksum: None,
            headers: ObjectHeaders {
                token: Some(ours.clone()),
                ..ObjectHeaders::default()
            },
        });
        let there = block_on(put).unwrap().etag;
        let there = there.as_str();
        // The tags of completions and their tokens, the ETags that count, and how many of the
        // answers were compared.
        for (told, token, known_by, asked) in [
            ([there, there, OTHER], &ours, [there, there, OTHER], 1),
            ([OTHER, OTHER, there], &ours, [there, there, there], 3),
            // Another host has put its object there since.
            ([OTHER, OTHER, OTHER], &theirs, [OTHER, OTHER, OTHER], 3),
        ] {
            let tags = CompletionTags::default();
            drop(client.take_log());
            for (told, known_by) in told.into_iter().zip(known_by) {
                let completed = Completed {
                    key: &key,
                    etag: ETag::from_header(told),
                    token: Some(token),
                };
                let known = block_on(tags.known_by(&client, completed));
                assert_eq!(known.as_str(), known_by);
            }
            assert_eq!(client.log().count(Operation::HeadObject), asked);
        }
    }

    const OTHER: &str = "\"33333333333333333333333333333333-2\"";
}
