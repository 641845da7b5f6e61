//! The data files of one staged file. They are made with their first byte, and removed with the
//! value.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use mountpoint_crt_sys::block::BlockFill;
use nix::fcntl::{FallocateFlags, fallocate};

use crate::operation::FsError;
use crate::staging::contents::DataFileNo;
use crate::staging::directory::{DataFileName, StagingDirectory};
use crate::sync::Mutex;

/// The data files of a staged file.
pub(in crate::staging) struct DataFiles {
    directory: Arc<StagingDirectory>,
    name: DataFileName,
    /// A leaf.
    files: Mutex<[Option<Arc<File>>; 2]>,
}

impl DataFiles {
    /// No files yet.
    pub(in crate::staging) fn new(directory: &Arc<StagingDirectory>) -> Self {
        Self {
            directory: Arc::clone(directory),
            name: directory.new_name(),
            files: Mutex::default(),
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
        self.make(file)?.write_all_at(data, offset)
    }

    /// Appends the bytes of `range` to `fill`.
    pub(in crate::staging) fn read(
        &self,
        file: DataFileNo,
        range: &Range<u64>,
        fill: &mut BlockFill,
    ) -> io::Result<()> {
        self.directory.faults.check()?;
        let len = usize::try_from(range.end - range.start)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let file = self.file(file);
        let file = file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        if fill.read_from(&file, range.start, len)? < len {
            // Somebody else has cut the file.
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        Ok(())
    }

    /// Gives back the disk space of `range`, whose bytes are not needed any more.
    pub(in crate::staging) fn discard(&self, file: DataFileNo, range: &Range<u64>) {
        let Some(file) = self.file(file) else { return };
        let offset = libc::off_t::try_from(range.start);
        let len = libc::off_t::try_from(range.end - range.start);
        if let (Ok(offset), Ok(len)) = (offset, len) {
            let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
            // A file system without holes gives the space back when the file is removed.
            fallocate(&*file, flags, offset, len).ok();
        }
    }

    /// The file, if it was made.
    pub(in crate::staging) fn file(&self, file: DataFileNo) -> Option<Arc<File>> {
        self.files.lock()[index(file)].clone()
    }

    /// The name of its files.
    pub(in crate::staging) fn name(&self) -> DataFileName {
        self.name
    }

    fn make(&self, file: DataFileNo) -> io::Result<Arc<File>> {
        let mut files = self.files.lock();
        let place = &mut files[index(file)];
        if let Some(file) = place {
            return Ok(Arc::clone(file));
        }
        let made = Arc::new(self.directory.make_data_file(self.name, file)?);
        *place = Some(Arc::clone(&made));
        Ok(made)
    }
}

fn index(file: DataFileNo) -> usize {
    match file {
        DataFileNo::First => 0,
        DataFileNo::Second => 1,
    }
}

impl Drop for DataFiles {
    fn drop(&mut self) {
        let files = self.files.get_mut();
        for file in DataFileNo::ALL {
            if files[index(file)].take().is_some() {
                self.directory.remove_data_file(self.name, file);
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
