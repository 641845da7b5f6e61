//! A mount's record of reads, and the choice at each open.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};

use super::history::{FileId, FilePast, ProgramId, Recent};
use super::policy::{DIRECT_FILE_MIN, Known, ReadSize, choose, is_reread};
use super::program::program_of;
use super::watch::ReadWatch;
use crate::config::ReadMode;
use crate::config::limits::READAHEAD_DEFAULT;
use crate::operation::OpenOptions;
use crate::sync::Mutex;

/// Chooses between the page cache and direct replies, and learns from the reads.
#[derive(Debug)]
pub struct ReadModes {
    mode: ReadMode,
    /// Memory that the page cache may take, in bytes.
    memory: u64,
    /// The kernel's read-ahead, in bytes.
    readahead: AtomicU32,
    past: Mutex<Past>,
}

#[derive(Debug)]
struct Past {
    files: Recent<FileId, FilePast>,
    programs: Recent<ProgramId, Option<ReadSize>>,
    rereads: Rereads,
}

/// How many of the last opens were of files that the page cache could still hold.
#[derive(Debug, Default)]
struct Rereads {
    opens: u32,
    again: u32,
}

impl Rereads {
    fn count(&mut self, is_reread: bool) {
        if self.opens >= OPENS_COUNTED {
            self.opens /= 2;
            self.again /= 2;
        }
        self.opens += 1;
        self.again += u32::from(is_reread);
    }

    /// Whether so many files are read again that new files probably will be, too.
    fn are_many(&self) -> bool {
        self.again >= REREADS_MIN && self.again * REREADS_SHARE >= self.opens
    }
}

impl ReadModes {
    pub fn new(mode: ReadMode, memory: u64) -> Self {
        Self {
            mode,
            memory,
            readahead: AtomicU32::new(READAHEAD_DEFAULT),
            past: Mutex::new(Past {
                files: Recent::new(DIRECT_FILES_REMEMBERED),
                programs: Recent::new(DIRECT_PROGRAMS_REMEMBERED),
                rereads: Rereads::default(),
            }),
        }
    }

    /// Chooses whether an open has direct replies. Returns a watch of its reads if they matter for
    /// later choices. `consumed` counts the bytes that the mount has read so far.
    pub fn open(
        &self,
        version: (&str, &str),
        size: u64,
        options: OpenOptions,
        consumed: u64,
    ) -> (bool, Option<ReadWatch>) {
        let is_watched = self.mode == ReadMode::Auto && size >= DIRECT_FILE_MIN && !options.direct;
        if !is_watched {
            let nothing = || unreachable!("asked for files that are watched only");
            return (choose(self.mode, options.direct, size, nothing), None);
        }
        let file = file_id(version);
        let program = program_of(options.process);
        let is_direct = choose(self.mode, options.direct, size, || {
            self.open_known(file, program, consumed)
        });
        let watch = ReadWatch::new(file, program, is_direct);
        (is_direct, Some(watch))
    }

    /// Chooses whether an open has direct replies if the kernel could read a local file instead.
    /// Its reads are not watched, because the kernel then sends none.
    pub fn open_local(&self) -> bool {
        self.mode == ReadMode::Direct
    }

    /// Records the end of an open that `watch` observed.
    pub fn close(&self, watch: &ReadWatch, consumed: u64) {
        let mut past = self.past.lock();
        let file = past.files.touch(watch.file);
        file.opens = file.opens.saturating_sub(1);
        file.read_at = Some(consumed);
    }

    /// Sets the kernel's read-ahead, in bytes.
    pub fn set_readahead(&self, bytes: u32) {
        self.readahead.store(bytes, Ordering::Relaxed);
    }

    /// Learns the size of a file's and a program's reads from a read of a watched open.
    /// `fills_cache` tells that the kernel reads for its page cache, not the application itself.
    pub fn observe(&self, watch: &ReadWatch, offset: u64, size: u32, fills_cache: bool) {
        let readahead = self.readahead.load(Ordering::Relaxed);
        if let Some(seen) = watch.observe(offset, size, fills_cache, readahead) {
            let mut past = self.past.lock();
            past.files.touch(watch.file).read_size = Some(seen);
            *past.programs.touch(watch.program) = Some(seen);
        }
    }

    /// Records of a file and its program. Counts the file as open from now on.
    fn open_known(&self, file: FileId, program: ProgramId, consumed: u64) -> Known {
        let mut past = self.past.lock();
        let since = |then: Option<u64>| then.map(|then| consumed.saturating_sub(then));
        let of_program = past.programs.get(program).copied().flatten();
        let rereads = past.rereads.are_many();
        let entry = past.files.touch(file);
        let known = Known {
            file: entry.read_size,
            program: of_program,
            opens: entry.opens,
            since_read: since(entry.read_at),
            rereads,
            consumed,
            memory: self.memory,
        };
        entry.opens += 1;
        past.rereads.count(is_reread(known.since_read, self.memory));
        known
    }
}

fn file_id(version: (&str, &str)) -> FileId {
    let mut hasher = DefaultHasher::new();
    version.hash(&mut hasher);
    FileId(hasher.finish())
}

/// Opens among which reads of known files are counted; older ones count half.
const OPENS_COUNTED: u32 = 64;

/// Files read again that are needed for a conclusion.
const REREADS_MIN: u32 = 4;

/// Opens for each file read again, at most, that make many.
const REREADS_SHARE: u32 = 4;

/// Large files whose last read is remembered; about 50 bytes each.
const DIRECT_FILES_REMEMBERED: usize = 8192;

/// Programs whose way of reading is remembered.
const DIRECT_PROGRAMS_REMEMBERED: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::mode::watch::READS_WATCHED;

    const GIB: u64 = 1 << 30;
    const KIB: u32 = 1 << 10;

    /// Opens files of 1 GiB on a mount with a page cache of up to 16 GiB.
    struct Mount(ReadModes);

    impl Mount {
        fn new() -> Self {
            let modes = ReadModes::new(ReadMode::Auto, 16 * GIB);
            modes.set_readahead(512 * KIB);
            Self(modes)
        }

        fn open(&self, key: &str, consumed: u64) -> (bool, ReadWatch) {
            let options = OpenOptions {
                process: std::process::id(),
                ..OpenOptions::default()
            };
            let (is_direct, watch) = self.0.open((key, "etag"), GIB, options, consumed);
            (is_direct, watch.unwrap())
        }

        /// Opens a file, reads from it and closes it. Returns whether replies were direct.
        fn read(&self, key: &str, size: u32, consumed: u64) -> bool {
            let (is_direct, watch) = self.open(key, consumed);
            for read in 0..20_u32 {
                let offset = u64::from(read) * u64::from(size);
                self.0.observe(&watch, offset, size, !is_direct);
            }
            self.0.close(&watch, consumed + GIB);
            is_direct
        }
    }

    #[test]
    fn a_program_that_reads_large_pieces_is_answered_directly_from_its_second_file_on() {
        let mount = Mount::new();
        assert!(!mount.read("a", 512 * KIB, 0));
        assert!(mount.read("b", 256 * KIB, GIB));
        assert!(mount.read("c", 256 * KIB, 2 * GIB));
    }

    #[test]
    fn a_program_that_turns_to_small_reads_is_cached_again() {
        let mount = Mount::new();
        assert!(!mount.read("a", 512 * KIB, 0));
        assert!(mount.read("b", 4 * KIB, GIB));
        assert!(!mount.read("c", 16 * KIB, 2 * GIB));
        assert!(!mount.read("d", 512 * KIB, 3 * GIB));
        assert!(mount.read("e", 512 * KIB, 4 * GIB));
    }

    #[test]
    fn a_few_small_reads_of_a_direct_file_say_nothing_yet() {
        let mount = Mount::new();
        assert!(!mount.read("a", 512 * KIB, 0));
        let (is_direct, watch) = mount.open("b", GIB);
        assert!(is_direct);
        for read in 1..READS_WATCHED {
            mount.0.observe(&watch, u64::from(read), 4 * KIB, false);
        }
        assert!(mount.open("c", GIB).0);
        mount.0.observe(&watch, 0, 4 * KIB, false);
        assert!(!mount.open("d", GIB).0);
    }

    #[test]
    fn only_large_files_of_a_mount_that_chooses_are_watched() {
        let is_watched = |mode, size, direct| {
            let modes = ReadModes::new(mode, 16 * GIB);
            let options = OpenOptions {
                direct,
                ..OpenOptions::default()
            };
            modes.open(("a", "etag"), size, options, 0).1.is_some()
        };
        assert!(is_watched(ReadMode::Auto, DIRECT_FILE_MIN, false));
        assert!(!is_watched(ReadMode::Auto, DIRECT_FILE_MIN - 1, false));
        assert!(!is_watched(ReadMode::Auto, DIRECT_FILE_MIN, true));
        assert!(!is_watched(ReadMode::Cached, DIRECT_FILE_MIN, false));
        assert!(!is_watched(ReadMode::Direct, DIRECT_FILE_MIN, false));
    }

    #[test]
    fn files_that_are_read_again_are_cached_and_so_are_the_others_then() {
        let mount = Mount::new();
        let files = ["a", "b", "c", "d"];
        for (at, key) in (0..).zip(files) {
            assert_eq!(mount.read(key, 512 * KIB, at * GIB), at > 0, "first epoch");
        }
        for (at, key) in (4..).zip(files) {
            assert!(!mount.read(key, 512 * KIB, at * GIB), "second epoch");
        }
        assert!(!mount.read("e", 512 * KIB, 8 * GIB), "read again here");
        for file in 0..8_u64 {
            mount.read(&format!("new {file}"), 512 * KIB, (9 + file) * GIB);
        }
        assert!(mount.read("f", 512 * KIB, 17 * GIB), "not any more");
    }

    #[test]
    fn a_map_of_a_direct_file_is_noticed() {
        let mount = Mount::new();
        assert!(!mount.read("a", 512 * KIB, 0));
        let (is_direct, watch) = mount.open("b", GIB);
        assert!(is_direct);
        mount.0.observe(&watch, 0, 512 * KIB, true);
        assert!(!mount.open("c", GIB).0);
    }

    #[test]
    fn two_readers_of_one_file_share_the_page_cache() {
        let mount = Mount::new();
        assert!(!mount.read("a", 512 * KIB, 0));
        let (first, _watch) = mount.open("b", GIB);
        let (second, _watch) = mount.open("b", GIB);
        assert_eq!((first, second), (true, false));
    }
}
