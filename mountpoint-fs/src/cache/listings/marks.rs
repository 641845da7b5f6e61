//! Marks of changes: until when listings of a directory do not count.
//!
//! One file of fixed size that all mounts of a cache share, so that none needs to know the others.
//! A directory's mark is in the slot that its hash gives; two directories that share a slot cost a
//! listing, never a wrong one. Each slot has its own checksum, and the file's generation is written
//! in every listing: without the marks that were there when it was kept, a listing does not count.
//!
//! Every call may wait for a slow disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::format::Generation;
use crate::clock::Clock;
use crate::local_disk::{Disk as _, Fields, Folder, checksum, lock_within};
use crate::sync::Mutex;

/// The marks of a cache. The lock is a leaf.
#[derive(Debug)]
pub(super) struct ChangeMarks {
    folder: Arc<Folder>,
    boot: [u8; 16],
    clock: Clock,
    open: Mutex<Option<MarkFile>>,
}

/// The open file.
///
/// ```text
/// 0   8   magic "MPMARKS\n"
/// 8   16  generation, random
/// 24  16  hash of the boot
/// 40  8   uptime when the file was made, in nanoseconds: older listings never count
/// 48  4   CRC32C of all before
/// 52  4   zero
/// 56  …   slots of 8: milliseconds of uptime (40 bits) and a checksum (24 bits)
/// ```
#[derive(Debug)]
struct MarkFile {
    file: File,
    generation: Generation,
    made: Duration,
}

impl ChangeMarks {
    /// The marks in `folder`, of the boot that `boot` names.
    pub(super) fn new(folder: Arc<Folder>, boot: &str, clock: Clock) -> Self {
        let digest = Sha256::digest(boot.as_bytes());
        let mut boot = [0; 16];
        boot.copy_from_slice(&digest[..16]);
        Self {
            folder,
            boot,
            clock,
            open: Mutex::default(),
        }
    }

    /// The generation of the marks that all processes use now.
    pub(super) fn generation(&self) -> io::Result<Generation> {
        let mut open = self.open.lock();
        Ok(self.current(&mut open)?.generation)
    }

    /// Marks `slots` as changed until [`MARK_TIME`] from now on. Returns that moment.
    pub(super) fn mark(&self, slots: &[u16]) -> io::Result<Duration> {
        let mut open = self.open.lock();
        for _ in 0..ATTEMPTS {
            let current = self.current(&mut open)?;
            if !lock_within(&current.file, LOCK_TIME_MAX)? {
                let text = "another process has locked the marks of changes";
                return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
            }
            // Under the lock: no process replaces a later moment by an earlier one.
            let until = self.clock.uptime() + MARK_TIME;
            let marked = slots
                .iter()
                .try_for_each(|slot| current.write(*slot, millis(until)));
            current.file.unlock()?;
            marked?;
            if current.is_linked()? {
                return Ok(until);
            }
        }
        Err(io::Error::other("the marks of changes are being removed"))
    }

    /// The latest moment until which one of `slots` is marked, or when the marks were made; a
    /// damaged slot is marked for ever. `None` if the marks are of another generation.
    pub(super) fn latest(
        &self,
        generation: Generation,
        slots: &[u16],
    ) -> io::Result<Option<Duration>> {
        let mut open = self.open.lock();
        let current = self.current(&mut open)?;
        if current.generation != generation {
            return Ok(None);
        }
        let mut latest = current.made;
        for slot in slots {
            latest = latest.max(current.read(*slot)?);
        }
        Ok(Some(latest))
    }

    /// Removes the marks, and with them the use of all listings that were kept.
    pub(super) fn remove(&self) -> io::Result<()> {
        *self.open.lock() = None;
        self.folder.remove(MARKS)
    }

    /// The file that has the name now.
    fn current<'a>(&self, open: &'a mut Option<MarkFile>) -> io::Result<&'a MarkFile> {
        let is_there = match open {
            Some(file) => file.is_linked()?,
            None => false,
        };
        if !is_there {
            *open = Some(match self.find()? {
                Some(found) => found,
                None => self.make()?,
            });
        }
        open.as_ref()
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    /// The file, if it is whole and of this boot.
    fn find(&self) -> io::Result<Option<MarkFile>> {
        if self.folder.find_file(MARKS)?.is_none() {
            return Ok(None);
        }
        let file = self.folder.open_file(MARKS)?;
        if file.metadata()?.len() != FILE_LEN {
            return Ok(None);
        }
        let mut front = [0; FRONT_LEN];
        file.read_exact_at(&mut front, 0)?;
        let generation = Fields(&front[8..]).array();
        let made = Fields(&front[40..]).u64();
        let Some((generation, made)) = generation.map(Generation).zip(made) else {
            return Ok(None);
        };
        let made = Duration::from_nanos(made);
        let is_right = front == self.front(generation, made);
        Ok(is_right.then_some(MarkFile {
            file,
            generation,
            made,
        }))
    }

    /// Makes a new file in the place of what has the name. Of several processes that do so at once,
    /// the last one counts.
    fn make(&self) -> io::Result<MarkFile> {
        let generation = Generation(random());
        let name = format!("{MARKS}.{}", hex(generation));
        let file = self.folder.create_file(&name)?;
        let made = self.clock.uptime();
        let mut bytes = self.front(generation, made).to_vec();
        for slot in 0..MARK_SLOTS {
            bytes.extend(encode(0, slot, generation).to_le_bytes());
        }
        let written = file.write_all_at(&bytes, 0);
        let moved = written.and_then(|()| self.folder.move_file(&name, &self.folder, MARKS));
        if let Err(error) = moved {
            self.folder.remove(&name)?;
            return Err(error);
        }
        Ok(MarkFile {
            file,
            generation,
            made,
        })
    }

    fn front(&self, generation: Generation, made: Duration) -> [u8; FRONT_LEN] {
        let mut front = [0; FRONT_LEN];
        front[..8].copy_from_slice(MAGIC);
        front[8..24].copy_from_slice(&generation.0);
        front[24..40].copy_from_slice(&self.boot);
        let made = u64::try_from(made.as_nanos()).unwrap_or(u64::MAX);
        front[40..48].copy_from_slice(&made.to_le_bytes());
        let sum = checksum(&[&front[..48]]);
        front[48..52].copy_from_slice(&sum.to_le_bytes());
        front
    }
}

impl MarkFile {
    /// Whether it still has its name: another process may have removed or replaced it.
    fn is_linked(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.nlink() > 0)
    }

    fn write(&self, slot: u16, millis: u64) -> io::Result<()> {
        let value = encode(millis, slot, self.generation);
        self.file.write_all_at(&value.to_le_bytes(), place(slot))
    }

    fn read(&self, slot: u16) -> io::Result<Duration> {
        let mut value = [0; 8];
        self.file.read_exact_at(&mut value, place(slot))?;
        let value = u64::from_le_bytes(value);
        let millis = value >> SUM_BITS;
        let is_right = value == encode(millis, slot, self.generation);
        Ok(match is_right {
            true => Duration::from_millis(millis),
            false => Duration::MAX,
        })
    }
}

fn encode(millis: u64, slot: u16, generation: Generation) -> u64 {
    let sum = checksum(&[&millis.to_le_bytes(), &slot.to_le_bytes(), &generation.0]);
    millis << SUM_BITS | u64::from(sum >> (u32::BITS - SUM_BITS))
}

fn place(slot: u16) -> u64 {
    (FRONT_LEN as u64) + 8 * u64::from(slot)
}

fn millis(time: Duration) -> u64 {
    let most = (1 << (u64::BITS - SUM_BITS)) - 1;
    let millis = time.as_nanos().div_ceil(1_000_000);
    u64::try_from(millis).unwrap_or(most).min(most)
}

fn random() -> [u8; 16] {
    use std::hash::{BuildHasher as _, RandomState};
    let halves = [0, 1].map(|half| RandomState::new().hash_one((half, std::process::id())));
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&halves[0].to_le_bytes());
    bytes[8..].copy_from_slice(&halves[1].to_le_bytes());
    bytes
}

fn hex(generation: Generation) -> String {
    use std::fmt::Write as _;
    generation.0.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}

/// The file with the marks.
pub(super) const MARKS: &str = "marks";

/// Slots: a power of two. In a mount that changes a thousand directories, one listing in sixteen is
/// asked for in vain.
pub(super) const MARK_SLOTS: u16 = 1 << 14;

/// How long one mark holds: a directory in which one file is made after the other is marked once in
/// that time.
pub(super) const MARK_TIME: Duration = Duration::from_secs(10);

const MAGIC: &[u8; 8] = b"MPMARKS\n";
const FRONT_LEN: usize = 56;
const FILE_LEN: u64 = FRONT_LEN as u64 + 8 * MARK_SLOTS as u64;
const SUM_BITS: u32 = 24;

/// How often marks are written to a file that is replaced meanwhile.
const ATTEMPTS: u32 = 4;

/// A process holds the lock for as long as it takes to write a few slots.
const LOCK_TIME_MAX: Duration = Duration::from_millis(500);
