//! The type that changes objects.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use mountpoint_client::types::{
    ETag, Key, ObjectDetails, ObjectHeaders, PutCondition, PutOutput, PutRequest,
};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient, Pending};

use super::completion_tags::CompletionTags;
use super::conditions::{Conditional, Conditions, Proof};
use super::deletion::Deleter;
use super::fault::failed;
use super::own_write::settled;
use crate::clock::Clock;
use crate::config::{CopyLimits, WriteConfig};
use crate::journal::Journal;
use crate::operation::FsError;

/// Changes the objects of a bucket.
#[derive(Debug)]
pub struct Mutator {
    pub(super) client: Arc<dyn ObjectClient>,
    pub(super) clock: Clock,
    pub(super) allow_rename: bool,
    pub(super) allow_delete: bool,
    pub(super) directory_markers: bool,
    pub(super) limits: CopyLimits,
    /// The mount's journal: uploads, including copies in parts, and renames of directories.
    pub(super) journal: Arc<Journal>,
    pub(super) conditions: Conditions,
    pub(super) deleter: Deleter,
    pub(crate) completion_tags: CompletionTags,
    /// Whether the server rejects copies of parts: their bytes then go through this machine.
    pub(super) copies_no_parts: AtomicBool,
}

impl Mutator {
    /// Changes `client`'s bucket as far as `settings` allow it.
    #[must_use]
    pub fn new(client: Arc<dyn ObjectClient>, settings: &WriteConfig, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            deleter: Deleter::new(Arc::clone(&client)),
            client,
            clock,
            allow_rename: settings.allow_rename,
            allow_delete: settings.allow_delete,
            directory_markers: settings.directory_markers,
            limits: settings.copy_limits,
            journal: Arc::new(Journal::new(
                settings.state_directory.as_deref(),
                &settings.bucket,
            )),
            conditions: Conditions::default(),
            completion_tags: CompletionTags::default(),
            copies_no_parts: AtomicBool::new(false),
        })
    }

    /// The object with its headers and metadata; `None` if there is none.
    pub(super) async fn details(&self, key: &Key) -> Result<Option<ObjectDetails>, FsError> {
        match self.client.head_details(key).await {
            Ok(details) => Ok(Some(details)),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error, "s3:GetObject")),
        }
    }

    /// Stores an object on a condition, and returns its ETag, whatever the answer was.
    pub(super) async fn put_small(
        &self,
        key: &Key,
        body: Bytes,
        headers: ObjectHeaders,
        wanted: (&PutCondition, Proof),
    ) -> Result<ETag, ClientError> {
        let headers = headers.with_token();
        let put = |condition| self.put(key, body.clone(), condition, headers.clone());
        let answer = self
            .on_condition((Conditional::Put, key), wanted, put)
            .await;
        settled(&*self.client, key, headers.token.as_ref(), answer).await
    }

    pub(super) fn put(
        &self,
        key: &Key,
        body: Bytes,
        condition: PutCondition,
        headers: ObjectHeaders,
    ) -> Pending<PutOutput> {
        self.client.put(PutRequest {
            key: key.clone(),
            body,
            condition,
            checksum: None,
            headers,
        })
    }

    /// Runs `change` on a condition that is proven.
    pub(super) async fn on_condition<T, F: Future<Output = Result<T, ClientError>>>(
        &self,
        on: (Conditional, &Key),
        wanted: (&PutCondition, Proof),
        change: impl Fn(PutCondition) -> F,
    ) -> Result<T, ClientError> {
        let made = self.conditions.make(&*self.client, on, wanted, change);
        made.await
    }

    /// Skips the trial of copies if the server's conditions `are_kept`, for tests of later changes.
    #[cfg(test)]
    pub(crate) fn believe(&self, are_kept: bool) {
        self.conditions.believe(are_kept);
    }

    /// What is known of the server's conditions.
    pub(crate) fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// Entries for the next mount.
    pub(crate) fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }
}
