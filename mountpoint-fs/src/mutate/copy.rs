//! Copying one object on the server, whatever its size.

use std::ops::Range;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use mountpoint_client::types::{
    CopyHeaders, CopySource, ETag, Key, ObjectDetails, ObjectHeaders, Part, PartNumber,
    PutCondition, PutOutput, Upload, WriteToken,
};
use mountpoint_client::{ClientError, ErrorKind};
use mountpoint_crt_sys::block::BlockPool;

use super::Mutator;
use super::completion_tags::Completed;
use super::conditions::{Conditional, Proof};
use super::fault::{COPY, Doubt, failed, seen, unknown};
use super::fetch::fetch;
use super::own_write::{NO_TOKEN, abandon, made_by, settled};
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
        let (source, proof) = &self.prove_copies(source, &condition).await?;
        let request = match (&condition, source.info.size) {
            (_, size) if size > self.limits.whole_max => Conditional::Complete,
            (PutCondition::None, _) => Conditional::Copy,
            (_, size) if !self.goes_around_copies(size, &condition) => Conditional::Copy,
            (_, 0) => Conditional::Put,
            _ => Conditional::Complete,
        };
        let mut headers = source.headers.clone().with_token();
        if !headers.are_utf8() && source.info.size <= self.limits.whole_max {
            // The SDK sends UTF-8 only, so that the server copies them, and no token.
            headers.token = None;
        }
        let outcome = match request {
            Conditional::Complete => {
                let all = (source_of(source), 0..source.info.size);
                let made = (destination, headers.clone());
                self.copy_range(all, made, condition.clone(), stop).await
            }
            Conditional::Copy | Conditional::Put => {
                let proof = match request {
                    Conditional::Copy => *proof,
                    _ => Proof::Trial,
                };
                let copy = |used| {
                    let made = (destination, headers.clone());
                    self.copy_on(source, made, (request, used))
                };
                let on = (request, destination);
                self.on_condition(on, (&condition, proof), copy).await
            }
        };
        match outcome {
            Ok(etag) => Ok(etag),
            Err(error)
                if error.kind == ErrorKind::PreconditionFailed
                    && condition == PutCondition::Absent =>
            {
                self.copy_refused(destination, headers.token.as_ref(), error)
                    .await
            }
            Err(error) => Err(failed(error, COPY)),
        }
    }

    /// The copy with `token` on the condition that the destination is absent, after a refusal. S3
    /// does not say whether that condition failed, or that of the source's version.
    async fn copy_refused(
        &self,
        destination: &Key,
        token: Option<&WriteToken>,
        error: ClientError,
    ) -> Result<ETag, FsError> {
        let is_lost = Doubt::of(&error) == Some(Doubt::Lost);
        match seen(self.client.head_details(destination).await, &error) {
            Ok(Some(there)) if token.is_some() && there.token.as_ref() == token => {
                Ok(there.info.etag)
            }
            Ok(Some(_)) if is_lost && token.is_none() => {
                Err(FsError::Client(unknown(&error, NO_TOKEN)))
            }
            Ok(Some(_)) => Err(FsError::Exists),
            Err(unknown) if is_lost => Err(failed(unknown, COPY)),
            // The copy was not made.
            Ok(None) | Err(_) => Err(FsError::from(error)),
        }
    }

    /// Whether an object of `size` bytes, which one request can copy, is copied on conditions by an
    /// upload, or stored by a PUT if it is empty: the server keeps their conditions, and not those
    /// of copies.
    pub(super) fn goes_around_copies(&self, size: u64, condition: &PutCondition) -> bool {
        let other = match size {
            0 => Conditional::Put,
            _ => Conditional::Complete,
        };
        let lacks = |request| self.conditions.lacks(request, condition);
        lacks(Conditional::Copy) && !lacks(other)
    }

    /// Sees whether the server keeps conditions of copies such as `wanted`, by a copy of the
    /// version `source` onto itself that it has to refuse. Returns the version that is there then,
    /// and what proves the copy itself: where the source may not be written, its place is tried.
    async fn prove_copies(
        &self,
        source: &ObjectDetails,
        wanted: &PutCondition,
    ) -> Result<(ObjectDetails, Proof), FsError> {
        let mut source = source.clone();
        if source.info.size > self.limits.whole_max || !source.headers.are_utf8() {
            return Ok((source, Proof::Look));
        }
        let (key, headers) = (&source.info.key, source.headers.clone().with_token());
        let copy = |condition| {
            let headers = CopyHeaders::New(headers.clone());
            self.client
                .copy(source_of(&source), key, condition, headers)
        };
        match self.conditions.prove(Conditional::Copy, wanted, copy).await {
            Ok(made) => {
                if let Some(PutOutput { etag }) = made {
                    source.info.etag = etag;
                }
                Ok((source, Proof::Look))
            }
            Err(error) if error.kind == ErrorKind::Denied => Ok((source, Proof::Trial)),
            Err(error) => Err(failed(error, COPY)),
        }
    }

    async fn copy_on(
        &self,
        source: &ObjectDetails,
        (destination, headers): (&Key, ObjectHeaders),
        (request, condition): (Conditional, PutCondition),
    ) -> Result<ETag, ClientError> {
        let token = headers.token.clone();
        let copied = match request {
            Conditional::Put => self.put(destination, Bytes::new(), condition, headers),
            Conditional::Copy | Conditional::Complete => {
                // With the headers of the source, and a token of its own.
                let headers = match headers.are_utf8() {
                    true => CopyHeaders::New(headers),
                    false => CopyHeaders::Same(headers),
                };
                let from = source_of(source);
                self.client.copy(from, destination, condition, headers)
            }
        };
        let copied = copied.await;
        match &copied {
            // Which condition was refused is looked at by the caller.
            Err(error) if error.kind == ErrorKind::PreconditionFailed => {
                copied.map(|output| output.etag)
            }
            _ => settled(&*self.client, destination, token.as_ref(), copied).await,
        }
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
        let headers = headers.with_token();
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
        let token = headers.token.clone();
        let upload = self
            .client
            .create_upload(destination, headers, None)
            .await?;
        let guard = Unfinished {
            mutator: self,
            upload: Some(&upload),
        };
        self.journal.begun(&upload).await;
        let mut is_in_doubt = false;
        let copied = async {
            let parts = self.parts_of(&source, range, &upload, stop).await?;
            let completed = self.complete(&upload, parts, condition).await;
            completed.inspect_err(|error| is_in_doubt = Doubt::of(error).is_some())
        };
        let copied = copied.await;
        guard.finished();
        match copied {
            Ok(PutOutput { etag }) => {
                self.journal.ended(&upload);
                let completed = Completed {
                    key: destination,
                    etag,
                    token: token.as_ref(),
                };
                let known_by = self.completion_tags.known_by(&*self.client, completed);
                Ok(known_by.await)
            }
            Err(error) => {
                let token = is_in_doubt.then_some(token.as_ref());
                self.copy_failed(&upload, token, error).await
            }
        }
    }

    /// Completes an upload.
    async fn complete(
        &self,
        upload: &Upload,
        parts: Vec<Part>,
        condition: PutCondition,
    ) -> Result<PutOutput, ClientError> {
        let complete = |condition| {
            let parts = parts.clone();
            self.client.complete_upload(upload, parts, condition)
        };
        // A completed upload cannot be completed again.
        let proof = match condition {
            PutCondition::Match(_) => Proof::Trial,
            PutCondition::Absent | PutCondition::None => Proof::Look,
        };
        let on = (Conditional::Complete, &upload.key);
        self.on_condition(on, (&condition, proof), complete).await
    }

    /// Gives the upload of a failed copy up. Its object is there nevertheless if only an answer was
    /// lost: its `token` is given where that may be.
    async fn copy_failed(
        &self,
        upload: &Upload,
        token: Option<Option<&WriteToken>>,
        error: ClientError,
    ) -> Result<ETag, ClientError> {
        let abandoned = abandon(&*self.client, upload).await;
        match &abandoned {
            Ok(()) => self.journal.ended(upload),
            Err(abort) => tracing::warn!(
                "an unfinished copy stays on the server until the next mount: {abort}"
            ),
        }
        let Some(token) = token else {
            return Err(error);
        };
        let made = made_by(&*self.client, &upload.key, token, &error).await?;
        match (made, abandoned) {
            (Some(there), _) => Ok(there.etag),
            // The server may complete it yet.
            (None, Err(why)) if Doubt::of(&error) == Some(Doubt::Lost) => Err(unknown(&error, why)),
            (None, _) => Err(error),
        }
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
        if_match: Some(etag.clone()),
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
