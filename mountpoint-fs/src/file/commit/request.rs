//! Making a version of a file durable.
//!
//! The local bytes of a small file go into its record, so that one sync of the journal serves many
//! files. Larger ones are synced in their data files first; then the record says what is where.

use std::io;
use std::sync::Arc;

use super::format::{DescriptionFile, Payload, VersionRecord, in_files, sum};
use super::recovery::{ReadRecord, read_record};
use crate::file::contents::Snapshot;
use crate::file::context::StagingContext;
use crate::file::directory::{DataFileName, StagingDirectory};
use crate::file::journal::{AppendError, Journal, RECORD_LEN_MAX, RecordId, RecordKey};
use crate::file::local::{DataFiles, disk_error};
use crate::metrics::trace::{WaitCause, waits};
use crate::operation::FsError;

/// A version to be made durable.
#[derive(Debug)]
pub(in crate::file) struct CommitRequest {
    /// All facts but those that the contents have.
    pub(in crate::file) version: VersionRecord,
    pub(in crate::file) contents: Snapshot,
    pub(in crate::file) files: Arc<DataFiles>,
    /// Whether the record has the sums of the data files. Before a write over what they cover,
    /// [`drop_sums`] is called.
    pub(in crate::file) has_sums: bool,
    /// The record of the version before.
    pub(in crate::file) before: Option<CommittedRecord>,
}

/// The record of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::file) struct CommittedRecord {
    pub(in crate::file) id: RecordId,
    /// Number of the description beside the journal; `None` if the record has it.
    pub(in crate::file) description: Option<u64>,
    /// Its number among the records of the file.
    pub(in crate::file) number: u64,
}

/// Why a version is not durable.
#[derive(Clone, Debug)]
pub(in crate::file) enum CommitFailure {
    /// A data file could not be synced: which of its bytes the disk has is unknown.
    Sync(FsError),
    /// The version may be committed again.
    Again(FsError),
}

/// The durable part of a version, in memory.
struct Prepared {
    head: Vec<u8>,
    local: Vec<u8>,
    description: Option<u64>,
    /// The record has sums.
    has_sums: bool,
}

/// Returns when the version is durable, with its record.
pub(in crate::file) async fn commit(
    context: &Arc<StagingContext>,
    journal: &Journal,
    request: CommitRequest,
) -> Result<CommittedRecord, CommitFailure> {
    let files = Arc::clone(&request.files);
    let directory = Arc::clone(context.directory().map_err(CommitFailure::Again)?);
    let prepared = match request.is_quick() {
        true => prepare(&directory, request)?,
        false => {
            let prepared = context.on_disk(move || Ok(prepare(&directory, request)));
            prepared.await.map_err(CommitFailure::Again)??
        }
    };
    put(context, journal, &files, &prepared).await
}

/// Puts a record into the journal. Returns when it is durable.
async fn put(
    context: &Arc<StagingContext>,
    journal: &Journal,
    files: &DataFiles,
    prepared: &Prepared,
) -> Result<CommittedRecord, CommitFailure> {
    // Whatever becomes of a record that the journal takes, the next start may find it.
    let number = files.begin_record();
    let parts = [&prepared.head[..], &prepared.local[..]];
    let appended = append(context, journal, files.name(), &parts).await;
    let id = appended.map_err(|refused| {
        if !refused.was_taken {
            files.record_refused();
        }
        CommitFailure::Again(refused.error)
    })?;
    if !prepared.has_sums {
        files.unseal();
    }
    Ok(CommittedRecord {
        id,
        description: prepared.description,
        number,
    })
}

/// Replaces the record `before` by one without sums, so that the bytes in the data files may
/// change. `None` if the journal has no such record. The caller holds the file's gate exclusively.
pub(in crate::file) async fn drop_sums(
    context: &Arc<StagingContext>,
    files: &Arc<DataFiles>,
    before: CommittedRecord,
) -> Result<Option<CommittedRecord>, FsError> {
    let Some(write_back) = &context.write_back else {
        return Ok(None);
    };
    let (this, its) = (Arc::clone(context), Arc::clone(files));
    let prepared = context.on_disk(move || {
        let Some(write_back) = &this.write_back else {
            return Ok(None);
        };
        let directory = this.directory()?;
        let payload = write_back.journal.read(before.id);
        match read_record(&**directory.disk(), its.name(), payload) {
            ReadRecord::Version(mut version, local, _) => {
                version.sums = Vec::new();
                let prepared = encode(directory, &its, (*version, local), Some(before));
                prepared
                    .map(Some)
                    .map_err(|error| disk_error(directory, &error))
            }
            ReadRecord::Removed => Ok(None),
            ReadRecord::Unreadable(reason) | ReadRecord::Newer(reason) => {
                Err(FsError::Local(reason))
            }
        }
    });
    let Some(prepared) = prepared.await? else {
        return Ok(None);
    };
    match put(context, &write_back.journal, files, &prepared).await {
        Ok(record) => Ok(Some(record)),
        Err(CommitFailure::Again(error) | CommitFailure::Sync(error)) => Err(error),
    }
}

impl CommitRequest {
    /// Whether [`prepare`] takes little time and does not use the disk.
    fn is_quick(&self) -> bool {
        let ranges = self.contents.range_count();
        let local = self.contents.local();
        let bytes = local.map(|local| local.range.end - local.range.start);
        self.files.are_in_memory()
            && ranges <= QUICK_RANGES_MAX
            && bytes.sum::<u64>() <= INLINE_LEN_MAX
    }
}

/// Makes it durable that the file is removed: its committed versions never come back. Returns the
/// record, which is to be released.
pub(in crate::file) async fn remove(
    context: &Arc<StagingContext>,
    journal: &Journal,
    name: DataFileName,
) -> Result<RecordId, FsError> {
    let head = Payload::Removed
        .head()
        .map_err(|error| FsError::Local(error.to_string()))?;
    let appended = append(context, journal, name, &[&head]).await;
    appended.map_err(|refused| refused.error)
}

/// Why a record is not durable.
struct AppendFailure {
    error: FsError,
    /// Whether the journal has taken the record, so that the next start may find it.
    was_taken: bool,
}

async fn append(
    context: &Arc<StagingContext>,
    journal: &Journal,
    name: DataFileName,
    parts: &[&[u8]],
) -> Result<RecordId, AppendFailure> {
    let failed = |error: AppendError, was_taken| AppendFailure {
        error: match error {
            AppendError::Disk(error) => context.disk_error(&error),
            AppendError::Full { .. } => FsError::NoSpace(error.to_string()),
            AppendError::TooLarge { .. } | AppendError::Closed => FsError::Local(error.to_string()),
        },
        was_taken,
    };
    let append = journal.append(RecordKey(name.0), parts);
    let appended = waits(WaitCause::Disk, append, |_| ()).await;
    let mut commit = appended.map_err(|error| failed(error, false))?;
    let committed = waits(WaitCause::Disk, &mut commit, |_| ()).await;
    if !commit.may_go_on() {
        // The journal's thread belongs to the next batch.
        let waited = context.on_disk(|| Ok(())).await;
        waited.map_err(|error| AppendFailure {
            error,
            was_taken: true,
        })?;
    }
    committed.map_err(|error| failed(error, true))
}

/// Syncs the data files, or reads the bytes of a small file. Blocks.
fn prepare(
    directory: &StagingDirectory,
    request: CommitRequest,
) -> Result<Prepared, CommitFailure> {
    let CommitRequest {
        mut version,
        contents,
        files,
        has_sums,
        before,
    } = request;
    let failed = |error: io::Error| CommitFailure::Again(disk_error(directory, &error));
    version.describe(&contents);
    version.is_inline =
        version.local_bytes() <= INLINE_LEN_MAX && version.ranges.len() <= INLINE_RANGES_MAX;
    let mut local = Vec::new();
    if version.is_inline {
        for (file, range) in in_files(version.local()) {
            files.read_bytes(file, &range, &mut local).map_err(failed)?;
        }
        // Thousands of small files may wait for their upload.
        files.close();
    } else {
        let mut used: Vec<_> = in_files(version.local())
            .into_iter()
            .map(|it| it.0)
            .collect();
        used.sort_unstable();
        used.dedup();
        for file in &used {
            // A full disk loses nothing that is in memory.
            files.on_disk(*file).map_err(failed)?;
        }
        if has_sums {
            let noted = files.seal(&in_files(version.local()));
            version.set_sums(&noted.map_err(failed)?);
        }
        for file in used {
            let synced = files.sync(file);
            synced.map_err(|error| CommitFailure::Sync(disk_error(directory, &error)))?;
        }
    }
    encode(directory, &files, (version, local), before).map_err(failed)
}

/// Encodes a version with its local bytes, if they are in the record, beside the record `before`.
/// Blocks.
fn encode(
    directory: &StagingDirectory,
    files: &DataFiles,
    (version, local): (VersionRecord, Vec<u8>),
    before: Option<CommittedRecord>,
) -> io::Result<Prepared> {
    let has_sums = !version.sums.is_empty();
    let mut head = Payload::Version(Box::new(version), Vec::new()).head()?;
    let mut description = None;
    if head.len() + local.len() > RECORD_LEN_MAX {
        let number = before
            .and_then(|it| it.description)
            .map_or(0, |number| number + 1);
        head = put_beside(directory, files, number, Payload::text(&head))?;
        description = Some(number);
    }
    Ok(Prepared {
        head,
        local,
        description,
        has_sums,
    })
}

/// Writes a description to a file beside the journal. Returns the record that names it.
fn put_beside(
    directory: &StagingDirectory,
    files: &DataFiles,
    number: u64,
    text: &[u8],
) -> io::Result<Vec<u8>> {
    let name = files.name().description(number);
    files.set_described();
    // The one of the version before the last.
    directory.disk().remove(&name)?;
    let file = directory.disk().create(&name)?;
    file.write_at(text, 0)?;
    file.sync_data()?;
    directory.disk().sync()?;
    let beside = DescriptionFile {
        number,
        len: text.len() as u64,
        sum: sum(text),
    };
    Ok(Payload::Beside(beside).head()?)
}

impl From<FsError> for CommitFailure {
    fn from(error: FsError) -> Self {
        Self::Again(error)
    }
}

/// Most local bytes of a file that go into its record. Larger files take longer to write than to
/// sync by themselves.
const INLINE_LEN_MAX: u64 = 128 << 10;

/// Most ranges of a file whose bytes go into its record.
const INLINE_RANGES_MAX: usize = 1024;

/// Most ranges of a version that is brought into its record at once, by whichever thread.
const QUICK_RANGES_MAX: usize = 64;
