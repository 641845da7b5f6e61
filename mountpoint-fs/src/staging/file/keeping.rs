//! Keeping a version that cannot be stored, in the user's directory.

use std::sync::Arc;

use super::parts::FileParts;
use super::releasing::{end_upload, release};
use crate::operation::FsError;
use crate::staging::kept::{Kept, keep};
use crate::staging::local::disk_error;

/// Keeps the local version. Returns the failure that ends the file by that. The caller holds
/// `storing`.
pub(super) async fn keep_as(file: &Arc<FileParts>, reason: &str) -> FsError {
    let _turn = file.gate.write().await;
    let (context, files) = (Arc::clone(&file.context), Arc::clone(&file.files));
    let (key, base, metadata, contents) = {
        let state = file.state.lock();
        let base = state.base.as_ref().map(|base| base.version.clone());
        let metadata = state.headers.metadata.clone();
        (
            state.key.clone(),
            base,
            metadata,
            state.contents.now().clone(),
        )
    };
    let (named, reason) = (key.clone(), reason.to_owned());
    let kept = file.context.on_disk(move || {
        let kept = Kept {
            key: &named,
            base: base.as_ref(),
            metadata,
            contents: &contents,
            reason,
            time: context.clock.wall(),
        };
        let directory = &context.directory;
        keep(directory, &context.config, &files, &kept)
            .map_err(|error| disk_error(directory, &error))
    });
    let directory = file.context.config.directory.display();
    let kept = kept.await;
    let is_kept = kept.is_ok();
    let text = match kept {
        Ok(id) => format!(
            "{key} was not stored: its local version is kept as {id}, see `mount-s3 staged list {directory}`"
        ),
        Err(error) => {
            format!("{key} was not stored, and its local version could not be kept: {error}")
        }
    };
    tracing::error!("{text}");
    let failure = FsError::Stale(text);
    file.end(failure.clone());
    file.observer().failed(&failure);
    end_upload(file);
    if is_kept {
        release(file, true);
    }
    failure
}
