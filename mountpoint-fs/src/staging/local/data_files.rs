//! The data files of one staged file. They are made with their first byte, and removed with the
//! value, unless the journal has a record that needs them.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mountpoint_crt_sys::block::BlockFill;

use crate::operation::FsError;
use crate::staging::contents::DataFileNo;
use crate::staging::directory::{DataFileName, StagingDirectory};
use crate::staging::disk::DiskFile;
use crate::sync::Mutex;

/// The data files of a staged file.
pub(in crate::staging) struct DataFiles {
    directory: Arc<StagingDirectory>,
    name: DataFileName,
    /// A leaf.
    files: Mutex<[DataFile; 2]>,
    /// The journal has a record, or may have one, that the files belong to.
    is_recorded: AtomicBool,
    /// There may be descriptions beside the journal.
    is_described: AtomicBool,
}

/// One of the files.
#[derive(Clone, Debug, Default)]
struct DataFile {
    is_made: bool,
    /// `None` for a file that was closed, too.
    open: Option<Arc<dyn DiskFile>>,
    /// A power loss leaves its name.
    is_named: bool,
}

impl DataFiles {
    /// No files yet.
    pub(in crate::staging) fn new(directory: &Arc<StagingDirectory>) -> Self {
        Self::of(directory, directory.new_name(), [false; 2])
    }

    /// The files of a record of the journal, of which those with `is_made` are there.
    pub(in crate::staging) fn recovered(
        directory: &Arc<StagingDirectory>,
        name: DataFileName,
        is_made: [bool; 2],
    ) -> Self {
        let files = Self::of(directory, name, is_made);
        files.set_recorded(true);
        files
    }

    fn of(directory: &Arc<StagingDirectory>, name: DataFileName, is_made: [bool; 2]) -> Self {
        let files = is_made.map(|is_made| DataFile {
            is_made,
            open: None,
            is_named: is_made,
        });
        Self {
            directory: Arc::clone(directory),
            name,
            files: Mutex::new(files),
            is_recorded: AtomicBool::new(false),
            is_described: AtomicBool::new(false),
        }
    }

    /// Writes `data` at `offset`.
    pub(in crate::staging) fn write(
        &self,
        file: DataFileNo,
        offset: u64,
        data: &[u8],
    ) -> io::Result<()> {
        self.directory.faults.check()?;
        self.make(file)?.write_at(data, offset)
    }

    /// Appends the bytes of `range` to `fill`.
    pub(in crate::staging) fn read(
        &self,
        file: DataFileNo,
        range: &Range<u64>,
        fill: &mut BlockFill,
    ) -> io::Result<()> {
        self.directory.faults.check()?;
        let len = len_of(range)?;
        if self.there(file)?.read_into(fill, range.start, len)? < len {
            // Somebody else has cut the file.
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        Ok(())
    }

    /// Appends the bytes of `range` to `bytes`.
    pub(in crate::staging) fn read_bytes(
        &self,
        file: DataFileNo,
        range: &Range<u64>,
        bytes: &mut Vec<u8>,
    ) -> io::Result<()> {
        self.directory.faults.check()?;
        let (start, len) = (bytes.len(), len_of(range)?);
        bytes.resize(start + len, 0);
        if self
            .there(file)?
            .read_at(&mut bytes[start..], range.start)?
            < len
        {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        Ok(())
    }

    /// Makes all bytes that were written to a file durable, and its name. After a failure nobody
    /// knows which bytes the disk has.
    pub(in crate::staging) fn sync(&self, file: DataFileNo) -> io::Result<()> {
        let Some(open) = self.file(file)? else {
            return Ok(());
        };
        self.directory.faults.check_sync()?;
        open.sync_data()?;
        if !self.files.lock()[index(file)].is_named {
            self.directory.disk().sync()?;
            // Both were made before.
            self.files
                .lock()
                .iter_mut()
                .for_each(|it| it.is_named |= it.is_made);
        }
        Ok(())
    }

    /// Closes the files until they are needed again.
    pub(in crate::staging) fn close(&self) {
        let closed = self.files.lock().each_mut().map(|file| file.open.take());
        drop(closed);
    }

    /// Gives back the disk space of `range`, whose bytes are needed no longer.
    pub(in crate::staging) fn discard(&self, file: DataFileNo, range: &Range<u64>) {
        if let Ok(Some(file)) = self.file(file) {
            file.discard(range);
        }
    }

    /// The file, if it was made.
    pub(in crate::staging) fn file(
        &self,
        file: DataFileNo,
    ) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let mut files = self.files.lock();
        let place = &mut files[index(file)];
        if place.open.is_none() && place.is_made {
            place.open = Some(self.directory.disk().open(&self.name.of(file))?);
        }
        Ok(place.open.clone())
    }

    /// The name of its files.
    pub(in crate::staging) fn name(&self) -> DataFileName {
        self.name
    }

    /// Whether the journal may have a record that needs the files.
    pub(in crate::staging) fn is_recorded(&self) -> bool {
        self.is_recorded.load(Ordering::Acquire)
    }

    /// Sets whether the journal may have a record that needs the files.
    pub(in crate::staging) fn set_recorded(&self, is_recorded: bool) {
        self.is_recorded.store(is_recorded, Ordering::Release);
    }

    /// Notes that there may be descriptions beside the journal, which go with the files.
    pub(in crate::staging) fn set_described(&self) {
        self.is_described.store(true, Ordering::Release);
    }

    fn there(&self, file: DataFileNo) -> io::Result<Arc<dyn DiskFile>> {
        let found = self.file(file)?;
        found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn make(&self, file: DataFileNo) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(open) = self.file(file)? {
            return Ok(open);
        }
        let mut files = self.files.lock();
        let place = &mut files[index(file)];
        if let Some(open) = &place.open {
            return Ok(Arc::clone(open));
        }
        let made = self.directory.disk().create(&self.name.of(file))?;
        *place = DataFile {
            is_made: true,
            open: Some(Arc::clone(&made)),
            is_named: false,
        };
        Ok(made)
    }
}

fn index(file: DataFileNo) -> usize {
    match file {
        DataFileNo::First => 0,
        DataFileNo::Second => 1,
    }
}

fn len_of(range: &Range<u64>) -> io::Result<usize> {
    usize::try_from(range.end - range.start)
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

impl Drop for DataFiles {
    fn drop(&mut self) {
        if self.is_recorded() {
            return;
        }
        let files = self.files.get_mut();
        for file in DataFileNo::ALL {
            if files[index(file)].is_made {
                self.directory.remove_data_file(&self.name.of(file));
            }
        }
        if self.is_described.load(Ordering::Acquire) {
            for number in 0..2 {
                let name = self.name.description(number);
                self.directory.remove_data_file(&name);
            }
        }
    }
}

impl fmt::Debug for DataFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DataFiles").field(&self.name).finish()
    }
}

/// The application's error for a failure of the local disk.
pub(in crate::staging) fn disk_error(directory: &StagingDirectory, error: &io::Error) -> FsError {
    let place = directory.path().display();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FsError::NoSpace(format!(
            "the disk of --staging has no room, {place}: {error}"
        )),
        _ => FsError::Local(format!("the disk of --staging failed, {place}: {error}")),
    }
}
