//! Copying one object on the server, whatever its size.

use std::ops::Range;

use futures::stream::{FuturesUnordered, StreamExt};
use mountpoint_client::types::{
    CopyHeaders, CopySource, ETag, Key, ObjectDetails, ObjectHeaders, Part, PartNumber,
    PutCondition, Upload,
};
use mountpoint_client::{ClientError, ErrorKind};

use super::Mutator;
use super::conditions::{Conditional, Conditions};
use super::fault::{COPY, failed, seen};
use super::lost_upload::{Abandoned, Wanted, abandon, became};
use crate::config::limits::COPIES_IN_FLIGHT_MAX;
use crate::operation::{FsError, Stop};

impl Mutator {
    /// Copies the version `source` to `destination` with everything it carries. The version of the copy.
    ///
    /// [`FsError::Stale`] if the source is another version by now, [`FsError::Exists`] if `condition` is
    /// [`PutCondition::Absent`] and the destination is there, [`FsError::Interrupted`] if it was asked to `stop` between
    /// two parts.
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
                // Which of the two conditions did not hold, S3 does not say.
                match seen(self.client.head(destination).await, &error) {
                    // The copy was made, and its answer was lost.
                    Ok(Some(copy))
                        if error.answer_was_lost
                            && copy.size == source.info.size
                            && copy.etag.matches(&source.info.etag) =>
                    {
                        Ok(copy.etag)
                    }
                    Ok(Some(_)) => Err(FsError::Exists),
                    Err(unknown) if error.answer_was_lost => Err(failed(unknown, COPY)),
                    // It was not made.
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
        let headers = CopyHeaders::Same {
            storage_class: source.headers.storage_class.clone(),
        };
        let copied = self
            .client
            .copy(source_of(source), destination, condition, headers);
        Ok(copied.await?.etag)
    }

    /// Makes the range of the version `source`, which is not empty, the whole of `destination`, which carries `headers`.
    pub(super) async fn copy_range(
        &self,
        (source, range): (CopySource, Range<u64>),
        (destination, headers): (&Key, ObjectHeaders),
        condition: PutCondition,
        stop: &Stop,
    ) -> Result<ETag, ClientError> {
        let size = range.end - range.start;
        let old = match &condition {
            PutCondition::Match(etag) => Some(etag.clone()),
            PutCondition::None if source.key == *destination => source.if_match.clone(),
            PutCondition::None => {
                let there = self.client.head(destination).await;
                there.ok().map(|there| there.etag)
            }
            PutCondition::Absent => None,
        };
        let upload = self
            .client
            .create_upload(destination, headers, None)
            .await?;
        self.journal.begun(&upload);
        let guard = Unfinished {
            mutator: self,
            upload: Some(&upload),
        };
        let (mut may_be_complete, mut made_of) = (false, Vec::new());
        let copied = async {
            let parts = self.copy_parts(&source, range, &upload, stop).await?;
            made_of.clone_from(&parts);
            let completed = self.client.complete_upload(&upload, parts, condition).await;
            completed.inspect_err(|error| may_be_complete = error.answer_was_lost)
        };
        let copied = copied.await;
        match copied {
            Ok(output) => {
                guard.finished();
                self.journal.ended(&upload);
                Ok(output.etag)
            }
            Err(error) => {
                guard.finished();
                let abandoned = abandon(&*self.client, &upload, may_be_complete).await;
                match &abandoned {
                    Abandoned::Aborted | Abandoned::WasGone => self.journal.ended(&upload),
                    Abandoned::Stays(abort) => tracing::warn!(
                        "an unfinished copy stays on the server until the next mount: {abort}"
                    ),
                }
                if may_be_complete {
                    // Its completion was answered to nobody.
                    let wanted = Wanted {
                        size,
                        parts: &made_of,
                        old: old.as_ref(),
                    };
                    if let Some(etag) = became(&*self.client, &upload, &abandoned, wanted).await {
                        return Ok(etag);
                    }
                }
                Err(error)
            }
        }
    }

    async fn copy_parts(
        &self,
        source: &CopySource,
        range: Range<u64>,
        upload: &Upload,
        stop: &Stop,
    ) -> Result<Vec<Part>, ClientError> {
        let len = range.end - range.start;
        let mut rest = (1..).zip(parts(len, self.limits.part_max));
        let mut in_the_air = FuturesUnordered::new();
        let mut copied = Vec::new();
        let mut failure = None;
        loop {
            if stop.is_asked() {
                let what = "the copy was interrupted";
                failure.get_or_insert_with(|| ClientError::new(ErrorKind::Cancelled, what));
            }
            if let Some(error) = failure {
                // S3 may keep a part that arrives behind an abort.
                while in_the_air.next().await.is_some() {}
                return Err(error);
            }
            let free = COPIES_IN_FLIGHT_MAX - in_the_air.len();
            in_the_air.extend(rest.by_ref().take(free).map(|(number, part)| {
                let number = PartNumber(number);
                let range = range.start + part.start..range.start + part.end;
                self.client.copy_part(upload, number, source.clone(), range)
            }));
            match in_the_air.next().await {
                Some(Ok(part)) => copied.push(part),
                Some(Err(error)) => failure = Some(error),
                None => break,
            }
        }
        copied.sort_unstable_by_key(|part: &Part| part.number);
        Ok(copied)
    }
}

/// An upload that is aborted if nobody waits for it any more.
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
            // A request that changes something goes on without being waited for. What it comes to nobody hears: the
            // journal still names the upload.
            drop(self.mutator.client.abort_upload(upload));
        }
    }
}

fn source_of(source: &ObjectDetails) -> CopySource {
    version(&source.info.key, &source.info.etag)
}

/// The version `etag` of the object, and no other.
pub(super) fn version(key: &Key, etag: &ETag) -> CopySource {
    CopySource {
        key: key.clone(),
        if_match: Some(etag.quoted()),
    }
}

/// `size` bytes in parts of `part_max`, or larger ones if that would be more than S3's 10,000.
fn parts(size: u64, part_max: u64) -> impl Iterator<Item = Range<u64>> {
    let part = part_max.max(size.div_ceil(PARTS_MAX)).max(1);
    (0..size.div_ceil(part)).map(move |index| index * part..((index + 1) * part).min(size))
}

/// S3's bound of an upload.
const PARTS_MAX: u64 = 10_000;

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
