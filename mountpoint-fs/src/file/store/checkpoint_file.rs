//! The checkpoint of a file's upload, in a file beside its data files.
//!
//! One job at a time writes and syncs what was noted meanwhile, on the threads of the disk. A
//! checkpoint that cannot be written costs requests after a kill, and nothing else.

use std::io;
use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use mountpoint_client::types::Upload;

use super::checkpoint_lines::{FoundCheckpoint, begun, decode, finished};
use crate::file::context::StagingContext;
use crate::file::directory::DataFileName;
use crate::local_disk::{Disk, DiskFile};
use crate::sync::Mutex;
use crate::write::background;
use crate::write::{BegunUpload, CheckpointStore, FinishedPart, UploadCheckpoint};

/// The checkpoint of the upload of the file `name`, if an earlier process has left one. Blocks.
pub(in crate::file) fn find_checkpoint(
    disk: &dyn Disk,
    name: DataFileName,
) -> Option<FoundCheckpoint> {
    let read = || -> io::Result<Vec<u8>> {
        let file = disk.open(&name.checkpoint())?;
        let len = usize::try_from(file.size()?.min(LEN_MAX)).map_err(io::Error::other)?;
        let mut text = vec![0; len];
        let len = file.read_at(&mut text, 0)?;
        text.truncate(len);
        Ok(text)
    };
    match read() {
        Ok(text) => decode(&text),
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!("the checkpoint of the upload {name} cannot be read: {error}");
            }
            None
        }
    }
}

/// A checkpoint of the uploads of the file `name`, which goes on with `found`.
pub(in crate::file) fn checkpoint(
    context: &Arc<StagingContext>,
    name: DataFileName,
    found: Option<FoundCheckpoint>,
) -> Arc<UploadCheckpoint> {
    let store = Box::new(checkpoint_file(context, name, found.as_ref()));
    match found {
        Some(found) => UploadCheckpoint::restored(found.begun, found.parts, store),
        None => UploadCheckpoint::new(store),
    }
}

/// The file of that checkpoint.
pub(in crate::file) fn checkpoint_file(
    context: &Arc<StagingContext>,
    name: DataFileName,
    found: Option<&FoundCheckpoint>,
) -> impl CheckpointStore + use<> {
    CheckpointFile(Arc::new(CheckpointNotes {
        context: Arc::clone(context),
        name,
        waiting: Mutex::default(),
        open: Mutex::new(match found {
            Some(found) => OpenCheckpoint {
                upload_id: found.begun.upload.upload_id.clone(),
                state: CheckpointState::Found(found.len),
            },
            None => OpenCheckpoint::default(),
        }),
    }))
}

/// The file of a checkpoint.
struct CheckpointFile(Arc<CheckpointNotes>);

struct CheckpointNotes {
    context: Arc<StagingContext>,
    name: DataFileName,
    /// A leaf.
    waiting: Mutex<WaitingNotes>,
    /// The lock is taken by the job alone.
    open: Mutex<OpenCheckpoint>,
}

#[derive(Default)]
struct OpenCheckpoint {
    /// The upload that began last.
    upload_id: String,
    state: CheckpointState,
}

/// The file of the checkpoint.
#[derive(Default)]
enum CheckpointState {
    /// There is none, or nothing more is written to it.
    #[default]
    None,
    /// An earlier process has left it, with so many bytes that are whole lines.
    Found(u64),
    /// The open file, and the offset at which lines are appended.
    Open(Arc<dyn DiskFile>, u64),
}

/// Notes to be written: one for each part that was sent meanwhile, of few bytes.
#[derive(Default)]
struct WaitingNotes {
    notes: Vec<CheckpointNote>,
    /// A job writes.
    is_writing: bool,
}

enum CheckpointNote {
    Begun {
        upload_id: String,
        line: Vec<u8>,
        tell: oneshot::Sender<bool>,
    },
    Finished(Vec<u8>),
    Ended {
        upload_id: String,
    },
}

impl CheckpointStore for CheckpointFile {
    fn begun(&self, upload: &BegunUpload) -> BoxFuture<'static, bool> {
        let (tell, told) = oneshot::channel();
        self.note(CheckpointNote::Begun {
            upload_id: upload.upload.upload_id.clone(),
            line: begun(upload),
            tell,
        });
        told.unwrap_or_else(|_| false).boxed()
    }

    fn finished(&self, part: &FinishedPart) {
        self.note(CheckpointNote::Finished(finished(part)));
    }

    fn ended(&self, upload: &Upload) {
        let upload_id = upload.upload_id.clone();
        self.note(CheckpointNote::Ended { upload_id });
    }
}

impl CheckpointFile {
    fn note(&self, note: CheckpointNote) {
        {
            let mut waiting = self.0.waiting.lock();
            waiting.notes.push(note);
            if std::mem::replace(&mut waiting.is_writing, true) {
                return;
            }
        }
        let shared = Arc::clone(&self.0);
        let work = shared.context.writing.begin_work();
        background::run(async move {
            while let Some(notes) = shared.next() {
                let this = Arc::clone(&shared);
                let job = move || {
                    this.write(notes);
                    Ok(())
                };
                // A thread that fails drops the notes, and so tells the caller that waits for one.
                shared.context.on_disk(job).await.ok();
            }
            drop(work);
        });
    }
}

impl CheckpointNotes {
    /// The notes to write now; `None` ends the job.
    fn next(&self) -> Option<Vec<CheckpointNote>> {
        let mut waiting = self.waiting.lock();
        waiting.is_writing = !waiting.notes.is_empty();
        let is_writing = waiting.is_writing;
        is_writing.then(|| std::mem::take(&mut waiting.notes))
    }

    /// Writes `notes`, with one sync for all parts. Blocks.
    fn write(&self, notes: Vec<CheckpointNote>) {
        let mut open = self.open.lock();
        let mut lines = Vec::new();
        for note in notes {
            match note {
                CheckpointNote::Finished(line) => lines.extend(line),
                CheckpointNote::Begun {
                    upload_id,
                    line,
                    tell,
                } => {
                    lines.clear();
                    let begun = self.logged(self.begin(&line));
                    tell.send(begun.is_some()).ok();
                    let state = begun.unwrap_or_default();
                    *open = OpenCheckpoint { upload_id, state };
                }
                // The end of an upload may be noted when the next one has begun.
                CheckpointNote::Ended { upload_id } if upload_id == open.upload_id => {
                    lines.clear();
                    *open = OpenCheckpoint::default();
                    let name = self.name.checkpoint();
                    if let Some(directory) = &self.context.directory {
                        directory.remove_data_file(&name);
                    }
                }
                CheckpointNote::Ended { .. } => {}
            }
        }
        if !lines.is_empty() {
            let appended = self.append(&mut open.state, &lines);
            if self.logged(appended).is_none() {
                // A later line behind a torn one would not be read.
                open.state = CheckpointState::None;
            }
        }
    }

    fn disk(&self) -> io::Result<&Arc<dyn Disk>> {
        let directory = self.context.directory.as_ref();
        let directory = directory.ok_or(io::ErrorKind::Unsupported)?;
        Ok(directory.disk())
    }

    /// Makes the file, with its first line.
    fn begin(&self, line: &[u8]) -> io::Result<CheckpointState> {
        let (disk, name) = (self.disk()?, self.name.checkpoint());
        disk.remove(&name)?;
        let file = disk.create(&name)?;
        file.write_at(line, 0)?;
        file.sync_data()?;
        disk.sync()?;
        Ok(CheckpointState::Open(file, line.len() as u64))
    }

    /// Appends lines to the file, if it can be written.
    fn append(&self, open: &mut CheckpointState, lines: &[u8]) -> io::Result<()> {
        if let CheckpointState::Found(len) = *open {
            let file = self.disk()?.open(&self.name.checkpoint())?;
            *open = CheckpointState::Open(file, len);
        }
        let CheckpointState::Open(file, len) = open else {
            return Ok(());
        };
        if *len + lines.len() as u64 > LEN_MAX {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        file.write_at(lines, *len)?;
        *len += lines.len() as u64;
        file.sync_data()
    }

    fn logged<T>(&self, written: io::Result<T>) -> Option<T> {
        let noted = written.inspect_err(|error| {
            let name = self.name;
            tracing::info!("the checkpoint of the upload {name} is not written: {error}");
        });
        noted.ok()
    }
}

/// More than the lines of 10,000 parts have, each sent a few times. Parts behind it are not noted.
const LEN_MAX: u64 = 64 << 20;
