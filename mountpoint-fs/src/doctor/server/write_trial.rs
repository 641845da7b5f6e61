//! `--check-writes`: writes to the bucket, to see the server's features.
//!
//! Makes a few objects below one temporary key, one request after the other, passes each answer to
//! its judge, and removes all that it made.
//!
//! Invariant: a key or an upload is noted before a request may make it. A request in flight is
//! never given up for a signal, because it would take effect behind the removal.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, checksum};
use mountpoint_client::crt_client::CrtClient;
use mountpoint_client::types::{
    Checksum, ChecksumAlgorithm, CopyHeaders, CopySource, ETag, Key, ListRequest, ObjectHeaders,
    PartNumber, PutCondition, PutOutput, PutRequest, Upload,
};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient as _, Pending};

use super::DOCTOR_STEP;
use super::write_checks::DOCTOR_WRITES;
use super::{object, write_checks};
use crate::doctor::report::Report;
use crate::mount::stop_on_signals;

/// Tries the server's features below `prefix` and removes what it wrote.
pub(in crate::doctor) async fn check(
    client: &CrtClient,
    (prefix, algorithm): (&str, Option<ChecksumAlgorithm>),
    report: &mut Report,
) {
    report.looking_at("writing");
    let random = RandomState::new().hash_one(prefix);
    let folder = format!("{prefix}.mountpoint-doctor-{random:016x}/");
    if folder.len() + NAME_MAX > Key::LEN_MAX {
        let why = "the prefix is too long for names below it";
        report.add(write_checks::not_tried(why, "name a shorter prefix"));
        return;
    }
    let is_stopped = match stop_on_signals(true) {
        Ok(is_stopped) => is_stopped,
        Err(why) => {
            // A signal would leave objects behind.
            report.add(write_checks::not_tried(&why, "try again"));
            return;
        }
    };
    let mut trial = Trial {
        client,
        folder,
        keys: Vec::new(),
        uploads: Vec::new(),
        is_stopped,
        is_unanswered: false,
    };
    let outcome = tokio::time::timeout(DOCTOR_WRITES, trial.run(algorithm, report)).await;
    if outcome.is_err() {
        trial.is_unanswered = true;
    }
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(End::Signal)) => report.add(write_checks::interrupted()),
        Ok(Err(End::Time)) | Err(_) => report.add(write_checks::slow()),
    }
    report.looking_at("removing");
    let removal = tokio::time::timeout(DOCTOR_REMOVAL, trial.remove()).await;
    // A removal that timed out leaves in the lists what it has not removed.
    drop(removal);
    report.add(write_checks::removed(
        &trial.left(),
        &trial.folder,
        trial.is_unanswered,
    ));
}

/// Why no further request is sent.
#[derive(Debug)]
enum End {
    Signal,
    Time,
}

/// The objects and uploads that may be there.
struct Trial<'a> {
    client: &'a CrtClient,
    /// Common beginning of all keys, with a slash at its end.
    folder: String,
    keys: Vec<Key>,
    uploads: Vec<Upload>,
    is_stopped: Arc<AtomicBool>,
    /// A request may still take effect.
    is_unanswered: bool,
}

impl Trial<'_> {
    async fn run(
        &mut self,
        algorithm: Option<ChecksumAlgorithm>,
        report: &mut Report,
    ) -> Result<(), End> {
        let small = Bytes::from_static(b"mount-s3 doctor");
        let plain = self.key("plain");
        let put = self.put(&plain, &small, (PutCondition::None, None)).await?;
        report.add(write_checks::allowed("PutObject", &put));
        let Ok(version) = put else { return Ok(()) };
        let again = (PutCondition::Absent, None);
        let again = self.put(&plain, &small, again).await?;
        let header = "If-None-Match";
        report.add(write_checks::condition(
            "conditional PutObject",
            header,
            &again,
        ));
        let other = (PutCondition::Match(object::absent_version()), None);
        let other = self.put(&plain, &small, other).await?;
        let check = "replacing PutObject";
        report.add(write_checks::condition(check, "If-Match", &other));

        let summed = self.key("with-checksum");
        let sum = algorithm.map(|algorithm| checksum_of(algorithm, &small));
        if sum.is_some() {
            let put = self.put(&summed, &small, (PutCondition::None, sum));
            let put = put.await?;
            report.add(write_checks::upload_checksums(&put));
        }
        report.add(write_checks::read_checksums(
            &self.read_checksums(&plain).await?,
        ));

        let copy = self.key("copy");
        let source = CopySource {
            key: plain.clone(),
            if_match: other.or(again).ok().or(Some(version)),
        };
        let copied = self.copy(&source, &copy, PutCondition::None).await?;
        report.add(write_checks::copies(&copied));
        if copied.is_ok() {
            let again = self.copy(&source, &copy, PutCondition::Absent).await?;
            report.add(write_checks::copy_condition(&again));
        }

        self.uploads(&small, report).await?;
        self.deletion(&small, report).await?;
        self.deletions(&plain, &copy, report).await?;
        self.part_copies(report).await
    }

    async fn copy(
        &mut self,
        source: &CopySource,
        key: &Key,
        condition: PutCondition,
    ) -> Result<Result<PutOutput, ClientError>, End> {
        let headers = CopyHeaders::Same(ObjectHeaders::default());
        let source = source.clone();
        self.ask(|client| client.copy(source, key, condition, headers))
            .await
    }

    /// The completion of uploads.
    async fn uploads(&mut self, small: &Bytes, report: &mut Report) -> Result<(), End> {
        let key = self.key("in-parts");
        let completed = self.upload(&key, small, PutCondition::None).await?;
        report.add(write_checks::allowed("multipart upload", &completed));
        let Ok(completed) = completed else {
            return Ok(());
        };
        let head = self.ask(|client| client.head(&key)).await?;
        let request = ListRequest {
            prefix: key.as_str().to_owned(),
            ..ListRequest::default()
        };
        let listed = self.ask(|client| client.list(request)).await?;
        let listed = listed.map(|page| {
            let mut objects = page.objects.into_iter();
            objects.find(|object| object.key == key).map(|it| it.etag)
        });
        report.add(write_checks::etags(
            &completed,
            &head.map(|object| object.etag),
            &listed,
        ));
        let again = self.upload(&key, small, PutCondition::Absent).await?;
        let header = "If-None-Match";
        report.add(write_checks::condition(
            "conditional completion",
            header,
            &again,
        ));
        let other = PutCondition::Match(object::absent_version());
        let other = self.upload(&key, small, other).await?;
        let check = "replacing completion";
        report.add(write_checks::condition(check, "If-Match", &other));
        Ok(())
    }

    /// An object made by an upload of one part.
    async fn upload(
        &mut self,
        key: &Key,
        body: &Bytes,
        condition: PutCondition,
    ) -> Result<Result<ETag, ClientError>, End> {
        let upload = match self.begin(key).await? {
            Ok(upload) => upload,
            Err(error) => return Ok(Err(error)),
        };
        let (number, body) = (PartNumber(1), body.clone());
        let part = self
            .ask(|client| client.put_part(&upload, number, body, None))
            .await?;
        let part = match part {
            Ok(part) => part,
            Err(error) => return Ok(Err(error)),
        };
        let completed = self
            .ask(|client| client.complete_upload(&upload, vec![part], condition))
            .await?;
        if completed.is_ok() {
            self.uploads.retain(|begun| *begun != upload);
        }
        Ok(completed.map(|output| output.etag))
    }

    async fn begin(&mut self, key: &Key) -> Result<Result<Upload, ClientError>, End> {
        let headers = ObjectHeaders::default();
        let begun = self
            .ask(|client| client.create_upload(key, headers, None))
            .await?;
        self.uploads.extend(begun.as_ref().ok().cloned());
        Ok(begun)
    }

    /// DeleteObject of another version than there is.
    async fn deletion(&mut self, small: &Bytes, report: &mut Report) -> Result<(), End> {
        let key = self.key("deleted");
        let put = self.put(&key, small, (PutCondition::None, None)).await?;
        let other = Some(object::absent_version());
        let deleted = match put {
            Ok(_) => self.ask(|client| client.delete(&key, other)).await?,
            Err(error) => Err(error),
        };
        report.add(write_checks::deletion(&deleted));
        Ok(())
    }

    async fn deletions(&mut self, plain: &Key, copy: &Key, report: &mut Report) -> Result<(), End> {
        let other = vec![(plain.clone(), Some(object::absent_version()))];
        let versions = self.ask(|client| client.delete_many(other)).await?;
        let any = vec![(copy.clone(), None)];
        let lists = self.ask(|client| client.delete_many(any)).await?;
        report.add(write_checks::deletions(&versions, &lists));
        Ok(())
    }

    /// UploadPartCopy, of an object of the size that S3 demands.
    async fn part_copies(&mut self, report: &mut Report) -> Result<(), End> {
        let (source, target) = (self.key("large"), self.key("copied-part"));
        let body = Bytes::from(vec![0; PART_COPY_SOURCE]);
        let range = 0..body.len() as u64;
        let put = self.put(&source, &body, (PutCondition::None, None)).await?;
        let copied = match (put, self.begin(&target).await?) {
            (Ok(version), Ok(upload)) => {
                let if_match = Some(version);
                let source = CopySource {
                    key: source,
                    if_match,
                };
                let number = PartNumber(1);
                self.ask(|client| client.copy_part(&upload, number, source, range))
                    .await?
            }
            (Err(error), _) | (_, Err(error)) => {
                report.add(write_checks::unclear(write_checks::PART_COPY, &error));
                return Ok(());
            }
        };
        report.add(write_checks::part_copies(&copied));
        Ok(())
    }

    async fn put(
        &mut self,
        key: &Key,
        body: &Bytes,
        (condition, checksum): (PutCondition, Option<Checksum>),
    ) -> Result<Result<ETag, ClientError>, End> {
        let request = PutRequest {
            key: key.clone(),
            body: body.clone(),
            condition,
            checksum,
            headers: ObjectHeaders::default(),
        };
        let put = self.ask(|client| client.put(request)).await?;
        Ok(put.map(|output| output.etag))
    }

    /// Names of the checksums that the server tells of an object where that is asked for.
    async fn read_checksums(&mut self, key: &Key) -> Result<Result<Vec<String>, ClientError>, End> {
        let client = self.client;
        self.go_on()?;
        let probe = client.probe_object(key);
        let probe = tokio::time::timeout(DOCTOR_STEP, probe).await;
        let probe = probe.map_err(|_| End::Time)?;
        let names = probe.head.map(|head| head.checksums).unwrap_or_default();
        Ok(probe.outcome.map(|()| names))
    }

    /// The answer to a request, which is begun only if the trial is to go on.
    async fn ask<T>(
        &mut self,
        begin: impl FnOnce(&CrtClient) -> Pending<T>,
    ) -> Result<Result<T, ClientError>, End> {
        self.go_on()?;
        let answer = tokio::time::timeout(DOCTOR_STEP, begin(self.client)).await;
        answer.map_err(|_| {
            self.is_unanswered = true;
            End::Time
        })
    }

    fn go_on(&self) -> Result<(), End> {
        match self.is_stopped.load(Ordering::Relaxed) {
            true => Err(End::Signal),
            false => Ok(()),
        }
    }

    /// Notes a key below the temporary one.
    fn key(&mut self, name: &str) -> Key {
        let text = format!("{}{name}", self.folder);
        let key = Key::parse(&text).expect("it is short enough");
        self.keys.push(key.clone());
        key
    }

    /// Removes everything. The lists keep what may still be there.
    async fn remove(&mut self) {
        if let Ok(uploads) = self.client.list_uploads(&self.folder).await {
            let begun = &self.uploads;
            // A server that ignores the prefix lists uploads of others.
            let own = |upload: &Upload| upload.key.as_str().starts_with(&self.folder);
            let unknown = uploads
                .into_iter()
                .filter(|upload| own(upload) && !begun.contains(upload));
            let unknown: Vec<_> = unknown.collect();
            self.uploads.extend(unknown);
        }
        for upload in self.uploads.clone() {
            let aborted = self.client.abort_upload(&upload).await;
            if aborted.map_or_else(|error| error.kind == ErrorKind::NoSuchUpload, |()| true) {
                self.uploads.retain(|begun| *begun != upload);
            }
        }
        for key in self.keys.clone() {
            if self.client.delete(&key, None).await.is_ok() {
                self.keys.retain(|noted| *noted != key);
            }
        }
        let request = ListRequest {
            prefix: self.folder.clone(),
            ..ListRequest::default()
        };
        if let Ok(page) = self.client.list(request).await {
            let listed = page.objects.into_iter().map(|object| object.key);
            let own = listed.filter(|key| key.as_str().starts_with(&self.folder));
            self.keys = own.collect();
        }
    }

    /// Names of what may still be there.
    fn left(&self) -> Vec<String> {
        let uploads = self.uploads.iter();
        let uploads = uploads.map(|upload| format!("the upload {}", upload.upload_id));
        let keys = self.keys.iter().map(|key| key.as_str().to_owned());
        keys.chain(uploads).collect()
    }
}

fn checksum_of(algorithm: ChecksumAlgorithm, body: &[u8]) -> Checksum {
    match algorithm {
        ChecksumAlgorithm::Crc32c => {
            let sum = checksum(CrcAlgorithm::Crc32Iscsi, body);
            Checksum::Crc32c(u32::try_from(sum).expect("it has 32 bits"))
        }
        ChecksumAlgorithm::Crc64Nvme => {
            Checksum::Crc64Nvme(checksum(CrcAlgorithm::Crc64Nvme, body))
        }
    }
}

/// Bytes of the longest name below the temporary key.
const NAME_MAX: usize = "with-checksum".len();
/// S3 copies ranges only of objects above 5 MiB.
const PART_COPY_SOURCE: usize = (5 << 20) + 1;

/// How long the doctor removes what it wrote. 10 requests.
const DOCTOR_REMOVAL: Duration = Duration::from_secs(10);
