//! Copying one object on the server, whatever its size.

use std::ops::Range;
use std::sync::atomic::Ordering;

use mountpoint_client::types::{
    CopyHeaders, CopySource, ETag, Key, ObjectDetails, ObjectHeaders, Part, PartNumber,
    PutCondition, Upload,
};
use mountpoint_client::{ClientError, ErrorKind};
use mountpoint_crt_sys::block::BlockPool;

use super::Mutator;
use super::completion_tags::Completed;
use super::conditions::{Conditional, Conditions};
use super::fault::{COPY, Doubt, failed, may_be_own, seen, tell_own};
use super::fetch::fetch;
use super::lost_upload::{Abandoned, IntendedObject, abandon, became};
use super::parallel::in_parallel;
use crate::config::limits::COPIES_IN_FLIGHT_MAX;
use crate::operation::{FsError, Stop};

impl Mutator {
    /// Copies the version `source` to `destination` with headers and metadata. Returns the copy's
    /// ETag.
    ///
    /// [`FsError::Stale`] if the source is another version by now, [`FsError::Exists`] if
    /// `condition` is [`PutCondition::Absent`] and the destination exists, [`FsError::Interrupted`]
    /// if `stop` was asked for between two parts.
    pub(super) async fn copy(
        &self,
        source: &ObjectDetails,
        destination: &Key,
        condition: PutCondition,
        stop: &Stop,
    ) -> Result<ETag, FsError> {
        let request = match source.info.size > self.limits.whole_max {
            true => Conditional::Complete,
            false => Conditional::Copy,
        };
        let mut used = self.conditions.reduce(request, &condition);
        let outcome = loop {
            if used != condition {
                self.require(destination, &condition).await?;
            }
            match self.copy_on(source, destination, &used, stop).await {
                Err(error) if Conditions::is_refused(&used, &error) => used = PutCondition::None,
                outcome => break outcome,
            }
        };
        match outcome {
            Ok(etag) => {
                self.conditions.learn(request, &condition, &used);
                Ok(etag)
            }
            Err(error)
                if error.kind == ErrorKind::PreconditionFailed
                    && condition == PutCondition::Absent =>
            {
                // S3 does not say which of the two conditions failed.
                match seen(self.client.head(destination).await, &error) {
                    // The copy was made, and its answer was lost.
                    Ok(Some(copy))
                        if may_be_own(&copy, &error)
                            && copy.size == source.info.size
                            && copy.etag.matches(&source.info.etag) =>
                    {
                        tell_own(destination, &error);
                        Ok(copy.etag)
                    }
                    Ok(Some(_)) => Err(FsError::Exists),
                    Err(unknown) if error.answer_was_lost => Err(failed(unknown, COPY)),
                    // The copy was not made.
                    Ok(None) | Err(_) => Err(FsError::from(error)),
                }
            }
            Err(error) => Err(failed(error, COPY)),
        }
    }

    async fn copy_on(
        &self,
        source: &ObjectDetails,
        destination: &Key,
        condition: &PutCondition,
        stop: &Stop,
    ) -> Result<ETag, ClientError> {
        let condition = condition.clone();
        if source.info.size > self.limits.whole_max {
            let all = (source_of(source), 0..source.info.size);
            let made = (destination, source.headers.clone());
            self.copy_range(all, made, condition, stop).await
        } else {
            self.copy_whole(source, destination, condition).await
        }
    }

    async fn copy_whole(
        &self,
        source: &ObjectDetails,
        destination: &Key,
        condition: PutCondition,
    ) -> Result<ETag, ClientError> {
        let headers = CopyHeaders::Same(source.headers.clone());
        let copied = self
            .client
            .copy(source_of(source), destination, condition, headers);
        Ok(copied.await?.etag)
    }

    /// Copies a range of the version `source`, which is not empty, to `destination`.
    ///
    /// The range becomes the whole destination, with the headers `headers`.
    pub(super) async fn copy_range(
        &self,
        (source, range): (CopySource, Range<u64>),
        (destination, headers): (&Key, ObjectHeaders),
        condition: PutCondition,
        stop: &Stop,
    ) -> Result<ETag, ClientError> {
        let mut begun = 0;
        loop {
            begun += 1;
            let all = (source.clone(), range.clone());
            let made = (destination, headers.clone());
            let copied = self.copy_upload(all, made, condition.clone(), stop).await;
            match copied {
                // S3 then demands a new upload. Its condition is unchanged.
                Err(error)
                    if error.met_conflict
                        && matches!(error.kind, ErrorKind::Conflict | ErrorKind::NoSuchUpload)
                        && begun < COPY_UPLOADS_MAX
                        && !stop.is_asked() =>
                {
                    tracing::info!(%destination, "the copy starts again: {error}");
                }
                copied => return copied,
            }
        }
    }

    /// Copies by one upload.
    async fn copy_upload(
        &self,
        (source, range): (CopySource, Range<u64>),
        (destination, headers): (&Key, ObjectHeaders),
        condition: PutCondition,
        stop: &Stop,
    ) -> Result<ETag, ClientError> {
        let size = range.end - range.start;
        let old = self
            .replaced_by_copy(&source, destination, &condition)
            .await;
        let upload = self
            .client
            .create_upload(destination, headers, None)
            .await?;
        let guard = Unfinished {
            mutator: self,
            upload: Some(&upload),
        };
        self.journal.begun(&upload).await;
        let (mut doubt, mut made_of) = (None, Vec::new());
        let copied = async {
            let parts = self.parts_of(&source, range, &upload, stop).await?;
            made_of.clone_from(&parts);
            let completed = self.client.complete_upload(&upload, parts, condition).await;
            completed.inspect_err(|error| doubt = Doubt::of(error))
        };
        let copied = copied.await;
        guard.finished();
        match copied {
            Ok(output) => {
                self.journal.ended(&upload);
                let completed = Completed {
                    key: destination,
                    etag: output.etag,
                    parts: &made_of,
                    old: old.as_ref(),
                };
                let known_by = self.completion_tags.known_by(&*self.client, completed);
                Ok(known_by.await)
            }
            Err(error) => {
                let wanted = doubt.map(|doubt| IntendedObject {
                    size,
                    parts: &made_of,
                    old: old.as_ref(),
                    doubt,
                });
                self.copy_failed(&upload, wanted, error).await
            }
        }
    }

    /// The version that a copy replaces, as far as it is known.
    async fn replaced_by_copy(
        &self,
        source: &CopySource,
        destination: &Key,
        condition: &PutCondition,
    ) -> Option<ETag> {
        match condition {
            PutCondition::Match(etag) => Some(etag.clone()),
            PutCondition::None if source.key == *destination => source.if_match.clone(),
            PutCondition::None => {
                let there = self.client.head(destination).await;
                there.ok().map(|there| there.etag)
            }
            PutCondition::Absent => None,
        }
    }

    /// Gives the upload of a failed copy up. Its object is there nevertheless if only an answer was
    /// lost: `wanted` describes it where that may be.
    async fn copy_failed(
        &self,
        upload: &Upload,
        wanted: Option<IntendedObject<'_>>,
        error: ClientError,
    ) -> Result<ETag, ClientError> {
        let abandoned = abandon(&*self.client, upload, wanted.is_some()).await;
        match &abandoned {
            Abandoned::Aborted | Abandoned::WasGone => self.journal.ended(upload),
            Abandoned::Stays(abort) => tracing::warn!(
                "an unfinished copy stays on the server until the next mount: {abort}"
            ),
        }
        let Some(wanted) = wanted else {
            return Err(error);
        };
        let given_up = (upload, Some(&abandoned));
        let made = became(&*self.client, given_up, wanted, &error).await?;
        made.ok_or(error)
    }

    /// The range as parts of the upload. The server copies them if it can; otherwise they are read
    /// and sent.
    async fn parts_of(
        &self,
        source: &CopySource,
        range: Range<u64>,
        upload: &Upload,
        stop: &Stop,
    ) -> Result<Vec<Part>, ClientError> {
        if !self.copies_no_parts.load(Ordering::Relaxed) {
            match self.copy_parts(source, range.clone(), upload, stop).await {
                Err(error) if copies_nothing(&error) => {
                    let key = &source.key;
                    tracing::info!(%key, "the server copies no parts, their bytes go through this machine: {error}");
                    // Other failures may concern this one object only.
                    let is_final =
                        error.kind == ErrorKind::Unsupported || error.status == Some(411);
                    self.copies_no_parts.store(is_final, Ordering::Relaxed);
                }
                copied => return copied,
            }
        }
        self.send_parts(source, range, upload, stop).await
    }

    /// Reads the range, and sends it in parts.
    async fn send_parts(
        &self,
        source: &CopySource,
        range: Range<u64>,
        upload: &Upload,
        stop: &Stop,
    ) -> Result<Vec<Part>, ClientError> {
        let len = range.end - range.start;
        let part_size = SENT_COPY_PART.max(len.div_ceil(PARTS_MAX));
        if part_size > SENT_COPY_PART_MAX {
            let what = format!(
                "{}: the server copies no parts, and {} GiB are too much to send: {} GiB at most",
                source.key,
                len >> 30,
                (SENT_COPY_PART_MAX * PARTS_MAX) >> 30
            );
            return Err(ClientError::new(ErrorKind::Unsupported, what));
        }
        let Some(version) = &source.if_match else {
            let what = "no version of the source is known";
            return Err(ClientError::new(ErrorKind::Unsupported, what));
        };
        let (pool, client) = (BlockPool::new(0), &*self.client);
        let send = |number, part: Range<u64>| {
            let from = range.start + part.start..range.start + part.end;
            let bytes = fetch(client, &pool, (&source.key, version), from);
            async move {
                let bytes = bytes.await?;
                client.put_part(upload, number, bytes, None).await
            }
        };
        let parts = (1..).zip(parts(len, part_size));
        make_parts(SENT_COPY_PARTS, parts, stop, send).await
    }

    async fn copy_parts(
        &self,
        source: &CopySource,
        range: Range<u64>,
        upload: &Upload,
        stop: &Stop,
    ) -> Result<Vec<Part>, ClientError> {
        let len = range.end - range.start;
        let copy = |number, part: Range<u64>| {
            let range = range.start + part.start..range.start + part.end;
            self.client.copy_part(upload, number, source.clone(), range)
        };
        let parts = (1..).zip(parts(len, self.limits.part_max));
        make_parts(COPIES_IN_FLIGHT_MAX, parts, stop, copy).await
    }
}

/// Runs `make` for each of `parts`, at most `max` at a time. Returns when none is in flight.
///
/// S3 may keep a part that arrives after an abort.
async fn make_parts<F: Future<Output = Result<Part, ClientError>>>(
    max: usize,
    parts: impl Iterator<Item = (u16, Range<u64>)>,
    stop: &Stop,
    make: impl Fn(PartNumber, Range<u64>) -> F,
) -> Result<Vec<Part>, ClientError> {
    let mut made = Vec::new();
    let make = |(number, part)| make(PartNumber(number), part);
    in_parallel(max, parts, stop, make, |part| made.push(part)).await?;
    if stop.is_asked() {
        let what = "the copy was interrupted";
        return Err(ClientError::new(ErrorKind::Cancelled, what));
    }
    made.sort_unstable_by_key(|part: &Part| part.number);
    Ok(made)
}

/// Whether `error` says that the server copies no parts.
///
/// Servers say so by a code of their own, by rejecting the request as unintelligible (411 among
/// them), or by a malformed answer.
pub(crate) fn copies_nothing(error: &ClientError) -> bool {
    matches!(
        error.kind,
        ErrorKind::Unsupported | ErrorKind::InvalidRequest | ErrorKind::InvalidResponse
    )
}

/// An upload that is aborted when its caller is dropped.
struct Unfinished<'a> {
    mutator: &'a Mutator,
    upload: Option<&'a Upload>,
}

impl Unfinished<'_> {
    fn finished(mut self) {
        self.upload = None;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(upload) = self.upload {
            // The abort runs on although no caller waits for it. Its outcome is lost: the journal
            // still names the upload.
            drop(self.mutator.client.abort_upload(upload));
        }
    }
}

fn source_of(source: &ObjectDetails) -> CopySource {
    version(&source.info.key, &source.info.etag)
}

/// The version `etag` of the object as the source of a copy.
pub(super) fn version(key: &Key, etag: &ETag) -> CopySource {
    CopySource {
        key: key.clone(),
        if_match: Some(etag.quoted()),
    }
}

/// `size` bytes in parts of `part_max`. Parts are larger where more than 10,000 would be needed,
/// S3's limit.
fn parts(size: u64, part_max: u64) -> impl Iterator<Item = Range<u64>> {
    let part = part_max.max(size.div_ceil(PARTS_MAX)).max(1);
    (0..size.div_ceil(part)).map(move |index| index * part..((index + 1) * part).min(size))
}

/// Uploads that one copy may take. Each conflict is waited out for a minute before the next upload.
const COPY_UPLOADS_MAX: usize = 3;

/// S3's limit of an upload.
const PARTS_MAX: u64 = 10_000;
/// Bytes of a part that goes through this machine, beside the memory for data.
///
/// At four parts at a time, 32 MiB suffice for objects of up to 78 GiB; 256 MiB, for 625 GiB, are
/// the maximum.
const SENT_COPY_PART: u64 = 8 << 20;
const SENT_COPY_PART_MAX: u64 = 64 << 20;
const SENT_COPY_PARTS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_object() {
        let check = |size, part_max, expected: &[Range<u64>]| {
            assert_eq!(parts(size, part_max).collect::<Vec<_>>(), expected);
        };
        check(10, 4, &[0..4, 4..8, 8..10]);
        check(8, 4, &[0..4, 4..8]);
        for size in [5 << 40, 48 << 40] {
            let all: Vec<_> = parts(size, 512 << 20).collect();
            assert!(all.len() <= 10_000);
            assert_eq!(all.last().map(|range| range.end), Some(size));
            assert!(all.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }
}
