//! The data files of one staged file. They are made with their first byte, in memory as long as
//! they are small, and removed with the value, unless the journal has a record that needs them.
//! Without a directory they are in memory alone, in chunks.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mountpoint_crt_sys::block::BlockFill;

use super::chunks::{Chunks, Discarded};
use super::file_sums::{FileSums, NotedSums, index};
use super::memory_file::{FileMemory, MemoryFile, Share};
use super::sums::{BLOCK_LEN, BlockLook, blocks_of, sum_of};
use crate::file::contents::DataFileNo;
use crate::file::directory::{DataFileName, StagingDirectory};
use crate::local_disk::DiskFile;
use crate::memory::BufferRequest;
use crate::operation::FsError;
use crate::sync::Mutex;
use crate::write::{Grant, PartBody, WriteContext};

/// The data files of a staged file.
pub(in crate::file) struct DataFiles {
    /// `None` for files that are in memory alone.
    directory: Option<Arc<StagingDirectory>>,
    name: DataFileName,
    /// The bytes of files that are in memory alone.
    chunks: Option<[Chunks; 2]>,
    /// For small files; `None` for those that an earlier process has made on the disk.
    memory: Option<Arc<FileMemory>>,
    /// A leaf.
    files: Mutex<[DataFile; 2]>,
    /// A leaf.
    records: Mutex<Records>,
    /// There may be descriptions beside the journal.
    is_described: AtomicBool,
    /// The checksums of the files on the disk.
    sums: FileSums,
}

/// One of the files.
#[derive(Debug, Default)]
struct DataFile {
    /// All its bytes, until it is made on the disk.
    memory: Option<MemoryFile>,
    /// The disk has it.
    is_made: bool,
    /// `None` for a file that was closed, too.
    open: Option<Arc<dyn DiskFile>>,
    /// A power loss leaves its name.
    is_named: bool,
    /// Nothing was written since the last sync.
    is_synced: bool,
}

/// The bytes of a small file that are in memory alone, for a file that nobody uses.
#[derive(Debug)]
pub(in crate::file) struct RestingBytes {
    /// Bytes of the first data file. There is no second one.
    pub(in crate::file) bytes: Vec<u8>,
    pub(in crate::file) share: Option<Share>,
    /// The last record that the journal has, or may have, and the last one that it has no longer.
    pub(in crate::file) records: [u64; 2],
}

/// Records of the journal that the files belong to, which have numbers from 1 on.
#[derive(Debug, Default)]
struct Records {
    /// The last one that the journal has, or may have.
    begun: u64,
    /// The last one that it has no longer, as it has none before.
    ended: u64,
}

impl DataFiles {
    /// No files yet. Small ones will be in `memory`. Waits for nothing. Files that records may need
    /// `are_summed`.
    pub(in crate::file) fn new(
        directory: &Arc<StagingDirectory>,
        memory: &Arc<FileMemory>,
        are_summed: bool,
    ) -> Self {
        let mut files = Self::of(directory, directory.new_name(), [false; 2]);
        files.memory = Some(Arc::clone(memory));
        files.sums = match are_summed {
            true => FileSums::new(),
            false => FileSums::none(),
        };
        files
    }

    /// No files yet, which will be in memory alone.
    pub(in crate::file) fn in_memory(name: DataFileName, writing: &Arc<WriteContext>) -> Self {
        let mut files = Self::at(None, name, [false; 2]);
        files.chunks = Some([Chunks::new(writing), Chunks::new(writing)]);
        files
    }

    /// The files of a record of the journal, of which those with `is_made` are there, with the sums
    /// in the record.
    pub(in crate::file) fn recovered(
        directory: &Arc<StagingDirectory>,
        name: DataFileName,
        is_made: [bool; 2],
        noted: [NotedSums; 2],
    ) -> Self {
        let mut files = Self::of(directory, name, is_made);
        files.sums = FileSums::noted(noted);
        files.begin_record();
        files
    }

    /// The files of a record of the journal that has their bytes, of up to `FILE_LEN_MAX` in
    /// `memory`, and which are not on the disk.
    pub(in crate::file) fn inline(
        directory: &Arc<StagingDirectory>,
        memory: &Arc<FileMemory>,
        name: DataFileName,
    ) -> Self {
        let mut files = Self::of(directory, name, [false; 2]);
        files.memory = Some(Arc::clone(memory));
        files.sums = FileSums::new();
        files.begin_record();
        files
    }

    /// The files of a file that has rested.
    pub(in crate::file) fn woken(
        directory: &Arc<StagingDirectory>,
        memory: &Arc<FileMemory>,
        name: DataFileName,
        rested: RestingBytes,
    ) -> Self {
        let mut files = Self::of(directory, name, [false; 2]);
        files.memory = Some(Arc::clone(memory));
        files.sums = FileSums::new();
        let RestingBytes {
            bytes,
            share,
            records: [begun, ended],
        } = rested;
        if !bytes.is_empty() {
            files.files.get_mut()[0].memory = Some(MemoryFile::restored(bytes, share));
        }
        *files.records.get_mut() = Records { begun, ended };
        files
    }

    /// Takes the bytes of a file that nobody uses. `None`, and no change, if there are more than
    /// `len_max`, or some are on the disk or in the second file.
    pub(in crate::file) fn rest(&self, len_max: usize) -> Option<RestingBytes> {
        if self.is_described.load(Ordering::Acquire) || !self.sums.are_none() {
            return None;
        }
        let mut files = self.files.lock();
        let [first, second] = &mut *files;
        let is_small = |memory: &MemoryFile| memory.bytes().len() <= len_max;
        let rests = !first.is_made
            && !second.is_made
            && second.memory.is_none()
            && first.memory.as_ref().is_none_or(is_small);
        if !rests {
            return None;
        }
        let (bytes, share) = first.memory.take().unwrap_or_default().into_parts();
        let records = self.records.lock();
        Some(RestingBytes {
            bytes,
            share,
            records: [records.begun, records.ended],
        })
    }

    fn of(directory: &Arc<StagingDirectory>, name: DataFileName, is_made: [bool; 2]) -> Self {
        Self::at(Some(Arc::clone(directory)), name, is_made)
    }

    fn at(
        directory: Option<Arc<StagingDirectory>>,
        name: DataFileName,
        is_made: [bool; 2],
    ) -> Self {
        let files = is_made.map(|is_made| DataFile {
            memory: None,
            is_made,
            open: None,
            is_named: is_made,
            is_synced: false,
        });
        Self {
            directory,
            name,
            chunks: None,
            memory: None,
            files: Mutex::new(files),
            records: Mutex::default(),
            is_described: AtomicBool::new(false),
            sums: FileSums::none(),
        }
    }

    /// Writes `data` at `offset`.
    pub(in crate::file) fn write(
        &self,
        file: DataFileNo,
        offset: u64,
        data: &[u8],
    ) -> io::Result<()> {
        if self.write_memory(file, offset, data) {
            return Ok(());
        }
        self.directory()?.faults.check()?;
        let there = self.make(file)?;
        let range = offset..offset + data.len() as u64;
        self.compare(file, &range, true)?;
        self.files.lock()[index(file)].is_synced = false;
        let write = self.sums.begin(file, range);
        let written = there.write_at(data, offset);
        let is_written = written.is_ok();
        self.sums.end(file, write, is_written.then_some(data));
        written
    }

    /// Compares the blocks of `range` with the sums of the process that wrote them, once, but for
    /// those that a write replaces as a whole, if the range `is_written`.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the disk returns other bytes than those.
    fn compare(&self, file: DataFileNo, range: &Range<u64>, is_written: bool) -> io::Result<()> {
        for (block, sum) in self.sums.unchecked(file, range, is_written) {
            let start = block * BLOCK_LEN;
            let mut bytes = vec![0; len_of(&(0..sum.len))?];
            let read = self.there(file)?.read_at(&mut bytes, start)?;
            let is_right = read == bytes.len() && sum_of(&bytes) == sum.sum;
            if !self.sums.compared(file, (block, sum), is_right) {
                let name = self.name.of(file);
                let text = format!(
                    "the disk has changed bytes {start} to {} of its data file {name}: they are not those that were \
                     written",
                    start + sum.len
                );
                self.sums.damaged(&text);
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
        Ok(())
    }

    /// The damage of the files that was found.
    pub(in crate::file) fn damage(&self) -> Option<String> {
        self.sums.damage()
    }

    /// The sums of the blocks of `ranges`, for a record. Blocks whose sums are unknown are read, so
    /// nothing is written meanwhile. From now on the files are sealed: bytes that have sums must
    /// not be written over before [`Self::unseal`].
    pub(in crate::file) fn seal(
        &self,
        ranges: &[(DataFileNo, Range<u64>)],
    ) -> io::Result<[NotedSums; 2]> {
        let mut noted = [NotedSums::new(), NotedSums::new()];
        for file in DataFileNo::ALL {
            let its = ranges.iter().filter(|(place, _)| *place == file);
            let mut blocks: Vec<_> = its.flat_map(|(_, range)| blocks_of(range)).collect();
            blocks.dedup();
            for block in blocks {
                let start = block * BLOCK_LEN;
                let range = start..start + BLOCK_LEN;
                let sum = match self.sums.of_block(file, block) {
                    BlockLook::Unknown => continue,
                    BlockLook::Summed(sum) => sum,
                    BlockLook::Changed => {
                        let mut bytes = vec![0; len_of(&range)?];
                        let read = self.there(file)?.read_at(&mut bytes, start)?;
                        self.sums.summed(file, block, &bytes[..read])
                    }
                };
                noted[index(file)].push((block, sum.len, sum.sum));
            }
        }
        self.sums.seal(&noted);
        Ok(noted)
    }

    /// Whether a record that the journal may have has sums of bytes of `file` at `offset` or behind
    /// it.
    pub(in crate::file) fn is_sealed(&self, file: DataFileNo, offset: u64) -> bool {
        self.sums.is_sealed(file, offset) && self.is_recorded()
    }

    /// Notes that committed bytes are written over: no record has sums until the last close, as
    /// each write behind a commit would have to be noted first.
    pub(in crate::file) fn begin_rewriting(&self) {
        self.sums.set_rewritten(true);
    }

    /// Whether committed bytes were written over since the last close.
    pub(in crate::file) fn is_rewritten(&self) -> bool {
        self.sums.is_rewritten()
    }

    /// Notes the last close. Returns whether committed bytes were written over before.
    pub(in crate::file) fn end_rewriting(&self) -> bool {
        self.sums.set_rewritten(false)
    }

    /// Notes that no record has sums.
    pub(in crate::file) fn unseal(&self) {
        self.sums.unseal();
    }

    /// Writes `data` at `offset` without a wait for the disk. `false`, and no change, if the disk
    /// has to take it.
    pub(in crate::file) fn write_memory(&self, file: DataFileNo, offset: u64, data: &[u8]) -> bool {
        let Some(memory) = &self.memory else {
            return false;
        };
        let mut files = self.files.lock();
        let place = &mut files[index(file)];
        if place.is_made {
            return false;
        }
        if let Some(there) = &mut place.memory {
            return there.write(memory, offset, data);
        }
        let mut made = MemoryFile::default();
        let is_written = made.write(memory, offset, data);
        place.memory = is_written.then_some(made);
        is_written
    }

    /// Appends the bytes of `range` to `fill` without a wait for the disk. `false`, and no change,
    /// if the disk has them.
    pub(in crate::file) fn read_memory(
        &self,
        file: DataFileNo,
        range: &Range<u64>,
        fill: &mut BlockFill,
    ) -> io::Result<bool> {
        if let Some(chunks) = &self.chunks {
            return match chunks[index(file)].read(range, |piece| fill.append(piece)) {
                true => Ok(true),
                // They were given back meanwhile.
                false => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            };
        }
        self.small(file, range, |bytes| fill.append(bytes))
    }

    /// Whether the bytes are in memory alone, whatever the length of the file.
    pub(in crate::file) fn have_no_disk(&self) -> bool {
        self.chunks.is_some()
    }

    /// Writes `data` at `offset` of a file that is in memory alone: in memory of `grant`, if there
    /// is one, and of what is free.
    ///
    /// # Errors
    /// Nothing was written: there is not enough memory, and this much is needed.
    pub(in crate::file) fn write_chunks(
        &self,
        file: DataFileNo,
        offset: u64,
        data: &[u8],
        grant: &mut Option<Grant>,
    ) -> Result<(), BufferRequest> {
        let chunks = self.chunks.as_ref().expect("it has no disk");
        chunks[index(file)].write(offset, data, grant)
    }

    /// The end of the part that begins at `offset` of a file that is in memory alone.
    pub(in crate::file) fn part_end(&self, offset: u64) -> Option<u64> {
        self.chunks.as_ref()?[0].part_end(offset)
    }

    /// Has a part begin at `offset`, where the base of a file in memory ends.
    pub(in crate::file) fn begin_part(&self, offset: u64) {
        if let Some([first, _]) = &self.chunks {
            first.begin_part(offset);
        }
    }

    /// Notes that the file was cut to `len` bytes.
    pub(in crate::file) fn cut(&self, len: u64) {
        if let Some([first, _]) = &self.chunks {
            first.forget_parts(len);
        }
    }

    /// Whether the part that begins at `start` can be sent before it is full.
    pub(in crate::file) fn can_cut(&self, start: u64) -> bool {
        let chunks = self.chunks.as_ref();
        chunks.is_some_and(|[first, _]| first.can_cut(start))
    }

    /// Ends the part that begins at `start` behind the bytes that are in memory, if they are enough
    /// for a part.
    pub(in crate::file) fn cut_part(&self, start: u64) {
        if let Some([first, _]) = &self.chunks {
            first.cut_part(start);
        }
    }

    /// Gives back the memory of parts that are not full.
    pub(in crate::file) fn shrink_parts(&self) -> Vec<Discarded> {
        let chunks = self.chunks.iter().flatten();
        chunks.map(Chunks::shrink).collect()
    }

    /// Bytes of memory of files that are in memory alone.
    pub(in crate::file) fn chunk_bytes(&self) -> u64 {
        let chunks = self.chunks.iter().flatten();
        chunks.map(Chunks::bytes).sum()
    }

    /// The bytes of `range` as the body of a request, if they are a chunk in memory or the first
    /// bytes of one. With `sums`, they are summed if need be; otherwise they must have been.
    pub(in crate::file) fn body(
        &self,
        file: DataFileNo,
        range: &Range<u64>,
        sums: bool,
    ) -> Option<PartBody> {
        let chunks = self.chunks.as_ref()?;
        chunks[index(file)].body(range, sums)
    }

    /// Whether no byte is on the disk.
    pub(in crate::file) fn are_in_memory(&self) -> bool {
        self.files.lock().iter().all(|file| !file.is_made)
    }

    /// Has `copy` take the bytes of `range`, if the file is in memory.
    fn small(
        &self,
        file: DataFileNo,
        range: &Range<u64>,
        copy: impl FnOnce(&[u8]),
    ) -> io::Result<bool> {
        let files = self.files.lock();
        let Some(memory) = &files[index(file)].memory else {
            return Ok(false);
        };
        let start = usize::try_from(range.start).unwrap_or(usize::MAX);
        let end = start.saturating_add(len_of(range)?);
        let bytes = memory.bytes().get(start..end);
        copy(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(true)
    }

    /// Appends the bytes of `range` to `fill`.
    pub(in crate::file) fn read(
        &self,
        file: DataFileNo,
        range: &Range<u64>,
        fill: &mut BlockFill,
    ) -> io::Result<()> {
        if self.read_memory(file, range, fill)? {
            return Ok(());
        }
        self.directory()?.faults.check()?;
        self.compare(file, range, false)?;
        let len = len_of(range)?;
        if self.there(file)?.read_into(fill, range.start, len)? < len {
            // Somebody else has cut the file.
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        Ok(())
    }

    /// Appends the bytes of `range` to `bytes`.
    pub(in crate::file) fn read_bytes(
        &self,
        file: DataFileNo,
        range: &Range<u64>,
        bytes: &mut Vec<u8>,
    ) -> io::Result<()> {
        if let Some(chunks) = &self.chunks {
            return match chunks[index(file)].read(range, |piece| bytes.extend_from_slice(piece)) {
                true => Ok(()),
                false => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            };
        }
        if self.small(file, range, |there| bytes.extend_from_slice(there))? {
            return Ok(());
        }
        self.directory()?.faults.check()?;
        self.compare(file, range, false)?;
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
    pub(in crate::file) fn sync(&self, file: DataFileNo) -> io::Result<()> {
        let Some(open) = self.on_disk(file)? else {
            return Ok(());
        };
        if self.files.lock()[index(file)].is_synced {
            return Ok(());
        }
        self.directory()?.faults.check_sync()?;
        open.sync_data()?;
        if !self.files.lock()[index(file)].is_named {
            self.directory()?.disk().sync()?;
            // Both were made before.
            self.files
                .lock()
                .iter_mut()
                .for_each(|it| it.is_named |= it.is_made);
        }
        self.files.lock()[index(file)].is_synced = true;
        Ok(())
    }

    /// Gives back memory beside that of the bytes: the files may wait for long.
    pub(in crate::file) fn shrink(&self) {
        let surplus = {
            let mut files = self.files.lock();
            files
                .each_mut()
                .map(|file| file.memory.as_mut().map(MemoryFile::shrink))
        };
        drop(surplus);
    }

    /// Closes the files until they are needed again.
    pub(in crate::file) fn close(&self) {
        let closed = self.files.lock().each_mut().map(|file| file.open.take());
        drop(closed);
    }

    /// Length of the file on the disk, or in memory alone; 0 if it was not made.
    pub(in crate::file) fn size_on_disk(&self, file: DataFileNo) -> io::Result<u64> {
        if let Some(chunks) = &self.chunks {
            return Ok(chunks[index(file)].end());
        }
        self.file(file)?.map_or(Ok(0), |file| file.size())
    }

    /// Gives back the disk space or the memory of `range`, whose bytes are needed no longer.
    pub(in crate::file) fn discard(&self, file: DataFileNo, range: &Range<u64>) -> Discarded {
        if let Some(chunks) = &self.chunks {
            return chunks[index(file)].discard(range);
        }
        if let Ok(Some(there)) = self.file(file) {
            self.sums.changed(file, range);
            self.files.lock()[index(file)].is_synced = false;
            there.discard(range);
        }
        Discarded::default()
    }

    /// The file on the disk, where one that is in memory is made; `None` if there is neither.
    pub(in crate::file) fn on_disk(
        &self,
        file: DataFileNo,
    ) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let is_in_memory = self.files.lock()[index(file)].memory.is_some();
        match is_in_memory {
            true => {
                self.directory()?.faults.check()?;
                self.make(file).map(Some)
            }
            false => self.file(file),
        }
    }

    /// The file on the disk, if it was made.
    fn file(&self, file: DataFileNo) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let mut files = self.files.lock();
        let place = &mut files[index(file)];
        if place.open.is_none() && place.is_made {
            place.open = Some(self.directory()?.disk().open(&self.name.of(file))?);
        }
        Ok(place.open.clone())
    }

    /// The name of its files.
    pub(in crate::file) fn name(&self) -> DataFileName {
        self.name
    }

    /// Whether the journal may have a record that needs the files.
    pub(in crate::file) fn is_recorded(&self) -> bool {
        let records = self.records.lock();
        records.begun > records.ended
    }

    /// Number of the last record that the journal may have.
    pub(in crate::file) fn last_record(&self) -> u64 {
        self.records.lock().begun
    }

    /// Notes that the journal may have one more record that needs the files. Returns its number.
    /// The commits of a file begin one behind the other.
    pub(in crate::file) fn begin_record(&self) -> u64 {
        let mut records = self.records.lock();
        records.begun += 1;
        records.begun
    }

    /// Notes that the journal has not taken the last record.
    pub(in crate::file) fn record_refused(&self) {
        self.records.lock().begun -= 1;
    }

    /// Notes that the journal has no record up to `number`.
    pub(in crate::file) fn records_ended(&self, number: u64) {
        let mut records = self.records.lock();
        records.ended = records.ended.max(number);
    }

    /// Notes that there may be descriptions beside the journal, which go with the files.
    pub(in crate::file) fn set_described(&self) {
        self.is_described.store(true, Ordering::Release);
    }

    fn directory(&self) -> io::Result<&Arc<StagingDirectory>> {
        let directory = self.directory.as_ref();
        directory.ok_or_else(|| io::Error::from(io::ErrorKind::StorageFull))
    }

    /// The application's error for a failure of the local disk, or for the lack of memory.
    pub(in crate::file) fn error(&self, error: &io::Error) -> FsError {
        match &self.directory {
            Some(directory) => disk_error(directory, error),
            None if error.kind() != io::ErrorKind::StorageFull => {
                FsError::Local(format!("bytes in memory are missing: {error}"))
            }
            None => FsError::NoSpace(
                "there is no memory for more written bytes that S3 does not have: raise --memory-target, or keep \
                 them on a local disk with --staging"
                    .to_owned(),
            ),
        }
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
        let name = self.name.of(file);
        let made = self.directory()?.disk().create(&name)?;
        if let Some(memory) = &place.memory {
            let bytes = memory.bytes();
            if let Err(error) = made.write_at(bytes, 0) {
                self.directory()?.remove_data_file(&name);
                return Err(error);
            }
            let write = self.sums.begin(file, 0..bytes.len() as u64);
            self.sums.end(file, write, Some(bytes));
        }
        let on_disk = DataFile {
            memory: None,
            is_made: true,
            open: Some(Arc::clone(&made)),
            is_named: false,
            is_synced: false,
        };
        let before = std::mem::replace(place, on_disk);
        drop(files);
        // Memory that is given back wakes who waits for it.
        drop(before);
        Ok(made)
    }
}

fn len_of(range: &Range<u64>) -> io::Result<usize> {
    usize::try_from(range.end - range.start)
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

impl Drop for DataFiles {
    fn drop(&mut self) {
        let Some(directory) = self.directory.take() else {
            return;
        };
        if self.is_recorded() {
            return;
        }
        let files = self.files.get_mut();
        for file in DataFileNo::ALL {
            if files[index(file)].is_made {
                directory.remove_data_file(&self.name.of(file));
            }
        }
        if self.is_described.load(Ordering::Acquire) {
            for number in 0..2 {
                let name = self.name.description(number);
                directory.remove_data_file(&name);
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
pub(in crate::file) fn disk_error(directory: &StagingDirectory, error: &io::Error) -> FsError {
    let place = directory.path().display();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FsError::NoSpace(format!(
            "the disk of --staging has no room, {place}: {error}"
        )),
        _ => FsError::Local(format!("the disk of --staging failed, {place}: {error}")),
    }
}
