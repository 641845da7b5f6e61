//! Every bound of the process, with the reason for its value.

use std::time::Duration;

/// Largest READ the kernel sends: `max_pages` 256. 1 MiB is the kernel's default ceiling (`fs.fuse.max_pages_limit`).
pub const READ_SIZE_MAX: u32 = 1 << 20;

/// Longest name of one directory entry, in bytes. Linux refuses longer ones before it asks us (`NAME_MAX`).
pub const NAME_LEN_MAX: usize = 255;

/// How long names and attributes may be stale by default (`--metadata-ttl minimal`); the reference promises at most 1 s
/// for changed objects.
pub const FILE_TTL: Duration = Duration::from_secs(1);

/// Memory of one inode with a name of 29 bytes, all tables included, in bytes; a test counts it.
pub const INODE_BYTES_MAX: usize = 256;

/// How long SIGTERM waits for operations in progress before it unmounts lazily.
pub const SHUTDOWN_DRAIN: Duration = Duration::from_secs(5);

/// How long the end of a mount waits for the session's threads after the connection was aborted.
pub const SHUTDOWN_ABORT: Duration = Duration::from_secs(2);

/// How long after a signal the end of a mount goes on to store what was closed. With [`UPLOAD_ABORT`], [`SHUTDOWN_RUNTIME`]
/// and 5 s in which the client's threads end, the process is gone after 24 s at most, whatever S3 does: Kubernetes kills it
/// after 30. What takes longer has to be unmounted instead, see [`UPLOAD_DRAIN`].
pub const SIGNAL_DRAIN: Duration = Duration::from_secs(15);

/// How long the end of the process waits for requests that are still in progress.
pub const SHUTDOWN_RUNTIME: Duration = Duration::from_secs(1);

/// How long a start may take; the reference's bound. `MOUNTPOINT_START_TIMEOUT` changes it.
pub const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How much earlier than [`START_TIMEOUT`] the requests of a start are given up, as a divisor of it: the process that
/// made them tells better than the terminal that waits for it what they were.
pub const START_RESERVE_SHARE: u32 = 10;

/// How long a background process that is told to end may take before it is killed.
pub const START_END_MAX: Duration = Duration::from_secs(2);

/// FUSE's `max_background` on up to 8 cores. It bounds asynchronous direct reads, too: 4 KiB reads 128 deep from a store
/// 20 ms away came to 2,600 a second with 64, the reference's value, and to 4,600 with 128; 256 measured no faster on two
/// cores, and streams through the page cache are as fast with either.
pub const MAX_BACKGROUND_MIN: u16 = 128;

/// The same on 64 cores and more.
pub const MAX_BACKGROUND_MAX: u16 = 1024;

/// Session threads on up to 24 cores. They never wait for S3; four measured as fast as sixteen on two cores.
pub const SESSION_THREADS_MIN: usize = 4;

/// Threads that serve FUSE over io_uring, at most: what `--max-threads` is by default. One for each core up to that.
pub const RING_THREADS_DEFAULT: usize = 16;

/// Cores up to which FUSE over io_uring is used: each costs 64 entries of a megabyte of address space.
pub const RING_QUEUES_MAX: usize = 64;

/// Entries of all io_uring queues together, and so requests that may be in progress: with 2 cores as many as 1,000
/// waiting readers need, with 64 cores 64 for each. An entry that nobody used costs about 1 KiB, in the kernel.
pub const RING_ENTRIES_MAX: usize = 4096;

/// Entries of one io_uring queue. While so many requests of one core wait for S3, its next one waits as well.
pub const RING_DEPTH_MAX: usize = 512;

/// Memory for replies on their way to the kernel over io_uring, shared by the queue threads.
pub const RING_MEMORY_MAX: usize = 32 << 20;

/// Least such memory of a queue thread: one reply of the largest size that is being taken, and the next one.
pub const RING_MEMORY_MIN: usize = 2 * READ_SIZE_MAX as usize;

/// After this time without a request, an io_uring queue gives back the memory of its replies.
pub const RING_IDLE: Duration = Duration::from_secs(1);

/// Least memory for reads by default, where that is at most half of what there is.
pub const READ_MEMORY_DEFAULT_MIN: u64 = 256 << 20;

/// Most memory for reads by default on machines of up to 128 GiB; `--memory-target` may ask for more.
pub const READ_MEMORY_DEFAULT_MAX: u64 = 8 << 30;

/// The same on machines of 512 GiB and more.
pub const READ_MEMORY_LARGE_MAX: u64 = 32 << 30;

/// Largest WRITE the kernel sends, in bytes, and how much that is of the memory at most, one in so many bytes: each thread
/// that writes may have one waiting. One writer, `dd` of 1 GiB of zeros with `bs=` 1 MiB, 512, 256 and 128 KiB, came to 0.74,
/// 0.82, 0.73 and 0.77 GB/s (medians of four in turns, a store on the same machine).
pub const WRITE_SIZE_MAX: usize = 1 << 20;

/// See [`WRITE_SIZE_MAX`].
pub const WRITE_SIZE_SHARE: u64 = 2048;

/// Not less than that, in bytes: the largest extended attribute.
pub const WRITE_SIZE_MIN: usize = 64 << 10;

/// How long a WRITE ahead of a file's end waits for the one before it, each time, where that may be on its way: the kernel
/// has sent it, and a session thread has it in hand. That takes microseconds, and longer on a machine that is starved.
pub const AHEAD_WAIT: Duration = Duration::from_secs(1);

/// How far ahead of a file's end bytes are that others may still come before, in bytes: all that the kernel has in flight.
pub const AHEAD_MAX: u64 = MAX_BACKGROUND_MAX as u64 * WRITE_SIZE_MAX as u64;

/// Threads whose last WRITE is known. More than that count as fewer.
pub const WRITERS_SEEN: usize = 1024;

/// A thread that wrote nothing for so long is not expected to have a WRITE waiting.
pub const WRITER_RECENT: Duration = Duration::from_secs(5);

/// Buffers of a file that is being written, in bytes, before it gets one for a whole part: a small file takes a page,
/// and what is copied while a buffer grows is an eighth of the first part at most.
pub const WRITE_STAGES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];

/// Descriptors of a process that are looked through for another one of an empty file that it closes: about 5 ms.
pub const DESCRIPTORS_SEEN_MAX: usize = 1024;

/// Parts of an upload, to begin with; the reference's size.
pub const WRITE_PART_DEFAULT: u64 = 8 << 20;

/// Parts of one file that are sent to the end of its object or wait for that: one on its way, one behind it. They go
/// one after the other, so more would only hold memory.
pub const GROWTH_PARTS_MAX: usize = 2;

/// Zeros that one file may have stored for its gaps, in bytes. S3 has no holes, so each is sent and paid for: this is the
/// disk image of a virtual machine, and a minute or so of a fast network; a slip in an offset ends here.
pub const GAP_BYTES_MAX: u64 = 64 << 30;

/// Parts that one upload may have; S3's limit.
pub const UPLOAD_PARTS_MAX: u16 = 10_000;

/// Largest part; S3's limit.
pub const UPLOAD_PART_MAX: u64 = 5 << 30;

/// Smallest part that is not the last; S3's limit.
pub const UPLOAD_PART_MIN: u64 = 5 << 20;

/// Parts of the first size: the first 7.8 GiB go out in parts of 8 MiB, many of which may be on their way at once.
pub const UPLOAD_PARTS_FIRST: u16 = 1000;

/// Behind them the size doubles after so many parts, so that most of the 10,000 may have the largest size.
pub const UPLOAD_PARTS_STEP: u16 = 250;

/// Parts of all uploads that are sent at once, to begin with, where the connections allow so many. One writer to a store
/// on the same machine came to 0.72, 0.83, 1.03, 1.12, 1.13 and 1.18 GB/s with 2, 3, 4, 8, 12 and 25 of them; with 8 it
/// holds 60 to 110 MiB less than with 16. See `write::pace`.
pub const PACE_START: usize = 8;

/// The same for a store that takes [`PACE_FAR`] or longer to answer.
pub const PACE_START_FAR: usize = 16;

/// A store is far that takes so long to begin an upload. On the same machine or in the same rack it takes less, S3 20 ms
/// and more.
pub const PACE_FAR: Duration = Duration::from_millis(5);

/// A near store's measurement takes at least so long: what a busy machine gives to the mount differs from one tenth of a
/// second to the next by more than a number of parts does.
pub const PACE_STRETCH_MIN: Duration = Duration::from_millis(400);

/// Fewer parts at once are not tried.
pub const PACE_MIN: usize = 4;

/// A larger number of parts at once is kept if it brings this many times the bytes a second. Twice the parts bring twice
/// the bytes to a far store, and what differs between two measurements on a busy machine is below a quarter.
pub const PACE_GAIN: f64 = 1.25;

/// A smaller one, three quarters, is kept if it brings this share: less memory for the same speed.
pub const PACE_LOSS: f64 = 0.95;

/// Times as many parts as are sent at once that one measurement takes: on a busy machine shorter ones differ too much.
pub const PACE_WAVES: usize = 2;

/// Measurements between two trials. A trial costs a far store a quarter of
/// its speed for one of them.
pub const PACE_REST_MIN: u32 = 4;

/// The most of them, after trials that changed nothing.
pub const PACE_REST_MAX: u32 = 16;

/// Share of the mount's memory that parts of files that are written may hold: one in so many bytes.
pub const WRITE_MEMORY_SHARE: u64 = 2;

/// What is always left to reads, one in so many bytes: beginnings of files may take more than the half, because an
/// application that holds hundreds of them open cannot be made to wait.
pub const READ_KEPT_SHARE: u64 = 8;

/// The least of that, in bytes: some reads of the largest length at once.
pub const READ_KEPT_MIN: u64 = 8 * READ_SIZE_MAX as u64;

/// What beginnings of files leave to whole parts, one in so many bytes, and one part at least.
pub const WRITE_PART_KEPT_SHARE: u64 = 8;

/// Largest part, as a share of the mount's memory: one in so many bytes. One can be filled while another is sent.
pub const WRITE_PART_MAX_SHARE: u64 = 4;

/// When beginnings hold more than this share of the mount's memory, one in so many bytes, buffers take no more than they
/// need.
pub const WRITE_PLENTY_SHARE: u64 = 16;

/// When writers hold more than this share of the mount's memory, one in so many bytes, a file that has outgrown the small
/// buffers does not get room for its whole first part at once: it may end soon, and others may be many.
pub const WRITE_EAGER_SHARE: u64 = 8;

/// How often it is looked whether writers that wait for memory can be helped.
pub const SHORTAGE_TICK: Duration = Duration::from_millis(20);

/// How long a writer waits for memory while nothing at all is written or sent. By then whoever holds it has stopped: an
/// application that wrote to many files in turn, and now waits for the next.
pub const SHORTAGE_MAX: Duration = Duration::from_secs(60);

/// Less than that, in bytes, written in [`SHORTAGE_MAX`] is nothing: a log that gets a line now and then brings nobody memory.
pub const SHORTAGE_PROGRESS: u64 = 64 << 10;

/// How long the others wait to be helped by the end of one that failed so, before the next one fails.
pub const SHORTAGE_NEXT: Duration = Duration::from_secs(1);

/// A file that is not written to for so long holds no more than it has, where others wait: a program that fills one file
/// writes far more often, and one that comes back later asks again.
pub const SHORTAGE_IDLE: Duration = Duration::from_secs(1);

/// A file that has not filled its part within that time leaves the room to others that wait, as long as nothing is on its
/// way to the bucket: it may be a log that gets a line now and then.
pub const SHORTAGE_FILL: Duration = Duration::from_secs(5);

/// How long the end of a mount that was unmounted waits for uploads that were begun. What is not done by then is aborted.
pub const UPLOAD_DRAIN: Duration = Duration::from_secs(30);

/// How long it then waits for the aborts.
pub const UPLOAD_ABORT: Duration = Duration::from_secs(3);

/// A journal of uploads is begun anew when it is larger than this, in bytes, and twice as large as when it was begun.
pub const JOURNAL_LEN_MAX: u64 = 64 << 10;

/// Renames of directories that are remembered because they came to no end; the oldest are forgotten.
pub const RENAMES_REMEMBERED_MAX: usize = 100;

/// How long such a rename may be gone on with: whoever wanted it is still there, and what has the names is what had them.
pub const RENAME_REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// Journals in the state directory that are looked at: one for each mount of this user that was killed.
pub const JOURNAL_FILES_MAX: usize = 1000;

/// Bytes of lines that wait to be written to a journal. Where there are more, all that is open is written instead.
pub const JOURNAL_QUEUE_MAX: usize = 64 << 10;

/// How long an upload waits until the journal names it. A disk that takes longer must not stop what goes to the bucket.
pub const JOURNAL_WAIT_MAX: Duration = Duration::from_secs(5);

/// How long the end of a mount waits for the journal's last lines.
pub const JOURNAL_END_MAX: Duration = Duration::from_secs(2);

/// Journals of other hosts that the log names: in a home that many hosts share there may be one for each.
pub const JOURNAL_HOSTS_NAMED_MAX: usize = 8;

/// Names that one LIST asks for: the most that S3 returns in a page.
pub const LIST_PAGE_KEYS: u16 = 1000;

/// Entries that one page of a listing may have. Its bits are the lower part of a directory offset; a server that
/// sends more than a thousand times what was asked for is refused.
pub const LIST_PAGE_ENTRIES_MAX: usize = (1 << 20) - 2;

/// LISTs that one listing of a large directory has in the air. At 50 ms a request, 16 bring 320,000 names a second,
/// about what readdirplus takes; S3 slows nobody down for it.
pub const LIST_REQUESTS_MAX: usize = 16;

/// Pages that one listing holds ahead of its reader, or has in the air: three for each request. A page of short names
/// takes about 0.2 MB.
pub const LIST_AHEAD_PAGES_MAX: usize = 3 * LIST_REQUESTS_MAX;

/// Pages that all listings of a mount hold ahead of their readers, about 40 MB. Where that is too few, each goes on
/// with the page that its reader waits for.
pub const LIST_AHEAD_MOUNT_MAX: usize = 4 * LIST_AHEAD_PAGES_MAX;

/// Pages that one listing holds behind its reader: two readers of one descriptor have two each.
pub const LIST_HELD_PAGES_MAX: usize = 4;

/// How long an answer of `lookup` is at most good enough for the `open` that follows it in the same system call.
/// The bound in force is shorter: what that lookup itself took. See `namespace::Namespace::open`.
pub const OPEN_FRESH_MAX: Duration = Duration::from_millis(100);

/// Names on pages of listings that answer lookups while they are valid. `du` and `find` read a whole directory before
/// they look at its first entry; 32 full pages are what S3 lists in one validity at 30 ms a page, and about 6 MB.
pub const RECENT_NAMES_MAX: usize = 32_000;

/// Pages of listings that answer lookups: what is found below a name is a page for each directory.
pub const RECENT_PAGES_MAX: usize = 4_096;

/// Keys that the LIST of a lookup asks for: the name itself, and what is below it as far as it goes, which answers the
/// lookups that come next. 100 keys are 30 KB, and cost S3 no more time than one does.
pub const LOOKUP_KEYS: u16 = 100;

/// First bytes of a file that come along with the request that finds it: what the kernel reads first.
pub const FRONT_LEN: u32 = 128 << 10;

/// Files whose first bytes came along and wait for their open: 1 MiB in all.
pub const FRONTS_MAX: usize = 8;

/// How long they wait: longer than any system call takes from look-up to open.
pub const FRONT_AGE_MAX: Duration = Duration::from_secs(1);

/// Look-ups of a new mount whose first bytes come along before it is known whether opens follow look-ups.
pub const FRONT_CREDIT: u8 = 2;

/// Most of them that none has followed, after many that opens did.
pub const FRONT_CREDIT_MAX: u8 = 8;

/// How long look-ups ask for no first bytes after they could not be had: a server that does not know how is asked once
/// a minute, and one that failed by chance loses no more than that.
pub const FRONT_FAILED_AGE: Duration = Duration::from_secs(60);

/// How old the listing of a directory may be that was made before the directory was opened, where names may be old.
pub const WALK_AGE_MAX: Duration = Duration::from_secs(10);

/// Names in directories that were listed before they are opened: those of 16 LISTs, about 3 MB.
pub const WALK_NAMES_MAX: usize = 16_000;

/// Directories of walks that are remembered: listed to their end, and listed ahead.
pub const WALK_DIRECTORIES_MAX: usize = 4_096;

/// LISTs ahead of no use after which they do not become rarer: one for each 1,024 directories.
pub const WALK_WASTE_MAX: u32 = 10;

/// Lookups of one directory's names, one after the other or at once, that ask for a name each. The next one asks for
/// the directory: a program that knows its files' names looks at many of them.
pub const CROWD_LOOKUPS: u32 = 8;

/// Most lookups between two listings that turned out to be of no use to a directory's lookups.
pub const CROWD_LOOKUPS_MAX: u32 = 1 << 20;

/// Directories whose lookups are counted.
pub const CROWDS_MAX: usize = 1_024;

/// Inodes that a mount keeps before it asks the kernel to forget files that nobody uses, on a machine of up to 61 GiB.
/// The kernel holds about 1 KB for each, besides our [`INODE_BYTES_MAX`], and gives it back when it is short of memory.
pub const INODES_MAX_LEAST: usize = 1_000_000;

/// Memory of the machine or its control group, in bytes, for each inode that is kept where that allows for more: they
/// take 2 % of it.
pub const INODE_MEMORY_SHARE: u64 = 64 << 10;

/// How often it is looked whether there are more inodes, at least.
pub const SURPLUS_PERIOD: Duration = Duration::from_secs(1);

/// The same at most. What the fastest walk makes meanwhile is 1 % of [`INODES_MAX_LEAST`].
pub const SURPLUS_PAUSE_MIN: Duration = Duration::from_millis(20);

/// Inodes that the fastest walk makes in a second; 180,000 to 350,000 were measured (FACTS.md).
pub const INODES_PER_SECOND_MAX: usize = 500_000;

/// Places of the inode table that are looked at while its lock is held: 0.1 to 0.6 ms. Everything else that is asked of
/// names waits for as long.
pub const SURPLUS_LOOK: usize = 1_024;

/// Names that the kernel is still to be told to forget, because their objects were replaced. More are not told: the
/// kernel forgets by itself when their validity ends.
pub const STALE_NAMES_MAX: usize = 1_024;

/// Directories that the log has a line about because some of their keys cannot be shown.
pub const HIDDEN_DIRECTORIES_MAX: usize = 1_024;

/// Objects whose details, which extended attributes are made of, are remembered.
pub const DETAILS_MAX: usize = 32;

/// Largest file that `open` fetches instead of asking for its version: one request that brings both. It is what the
/// kernel would read first; an application that opens a file and does not read it wastes no more.
pub const OPEN_FETCH_MAX: u64 = 128 << 10;

/// How old a page of a listing may be when its attributes are handed out as valid. A reader that pauses longer
/// between two pages still gets the names, and the kernel asks again for what it wants to know of them.
pub const LISTING_AGE_MAX: Duration = Duration::from_secs(10);

/// Share of the read memory that read-ahead may hold, in quarters; the rest always serves reads that wait.
pub const READ_AHEAD_QUARTERS: u64 = 3;

/// First range of a file that is read from its beginning: what Linux asks for when it reads ahead by default.
pub const FIRST_RANGE: u64 = 128 << 10;

/// A file up to this size that is read from its beginning is fetched whole: one request, less than the 10 ms that
/// a second one would cost at 90 MB/s.
pub const SMALL_FILE_MAX: u64 = 1 << 20;

/// Files of one run that are asked for before they are opened: at 20 ms a request they serve one worker that takes 0.3 ms
/// for each.
pub const SIBLINGS_AHEAD_MAX: usize = 64;

/// The same of the whole mount.
pub const SIBLINGS_AHEAD_MOUNT_MAX: usize = 256;

/// Places in directories where files are opened in order: one for each of some workers that have files of their own.
pub const SIBLING_RUNS_MAX: usize = 256;

/// Bytes that may be fetched in vain before files are opened, to begin with; [`SIBLINGS_AHEAD_MAX`] files of 128 KiB.
pub const SIBLING_BUDGET: u64 = 8 << 20;

/// Most such bytes, however many files were opened in order before.
pub const SIBLING_BUDGET_MAX: u64 = 64 << 20;

/// Bytes of files that are opened in order, for each that may be fetched in vain.
pub const SIBLING_WASTE_SHARE: u64 = 8;

/// Smallest range asked for ahead of a reader; below it a request costs more CPU than its bytes (FACTS.md).
pub const PART_MIN: u64 = 128 << 10;

/// Largest range of one GET; `--read-part-size` may ask for more. One connection takes seconds for it, and no reader
/// is faster for a longer one: its window is cut into parts.
pub const PART_MAX: u64 = 256 << 20;

/// Largest file of trusted certificates; the system's own is about 0.2 MB.
pub const CA_BUNDLE_MAX: u64 = 16 << 20;

/// Largest file that may hold a customer's key: its base64 is 44 bytes.
pub const KEY_FILE_MAX: u64 = 1 << 10;

/// Parts a window is cut into: one being read, one complete, two in the air.
pub const PARTS_PER_WINDOW: u64 = 4;

/// The same where several streams keep the store busy between them: one being read, one in the air.
pub const PARTS_PER_WINDOW_OF_SEVERAL: u64 = 2;

/// Longest part that is asked for only because requests cost: the reference's size.
pub const PART_LONG_MAX: u64 = 8 << 20;

/// The same for all streams of a mount together: eight have 4 MiB each.
pub const PARTS_LONG_MAX: u64 = 32 << 20;

/// The same where the store is near: four have 2 MiB each. Twice as long parts are as fast, take up to a fifth more CPU,
/// because they leave its caches, and twice the memory.
pub const PARTS_LONG_NEAR_MAX: u64 = 8 << 20;

/// Largest window a stream starts with, and the smallest that one shrinks to by itself: small enough to stay in the
/// caches of the CPU, large enough for a near store.
pub const WINDOW_INITIAL_MAX: u64 = 4 << 20;

/// Remembered places of one open file where a read ended. Linux has at most 64 readahead requests in the air per
/// file system by default, few of them out of order.
pub const EXTENTS_MAX: usize = 32;

/// Streams of one open file that are read ahead at the same time.
pub const STREAMS_MAX: usize = 16;

/// Runs of a strided or backward reader that are asked for ahead: at 20 ms a request, as many a second as a machine
/// that takes 1 ms for each can use.
pub const STRIDE_RUNS_MAX: usize = 16;

/// Longest read that is noted as one of a file's layout: a table, a group, an attribute, not data.
pub const LAYOUT_READ_MAX: u64 = 64 << 10;

/// Fewer places than this are a file's layout; more are a database. 16 bytes each, for each open file that is read so.
pub const LAYOUT_READS_MAX: usize = 512;

/// Kinds of files whose layouts are remembered: 256 KiB together at most.
pub const LAYOUTS_MAX: usize = 32;

/// Ranges that are asked for because the file before was read there: at 20 ms a request, as many as the heads of most
/// files have.
pub const LAYOUT_AHEAD_MAX: usize = 32;

/// Bytes of those that one open file holds.
pub const LAYOUT_AHEAD_BYTES_MAX: u64 = 256 << 10;

/// Shortest run of bytes, read out of order, that read-ahead leaves out; shorter ones would splinter requests.
pub const READ_RANGE_MIN: u64 = 64 << 10;

/// Blocks that one reply may be made of; far below the kernel's `IOV_MAX` of 1024.
pub const SLICES_MAX: usize = 256;

/// Smallest file whose replies may bypass the page cache by choice of ours: below it nothing is to be gained.
pub const DIRECT_FILE_MIN: u64 = 8 << 20;

/// A file that would take more than this share of the memory is worth a direct reply the first time it is read: one
/// in so many bytes.
pub const DIRECT_MEMORY_SHARE: u64 = 32;

/// Reads from this size on are as fast directly as through the page cache, measured: 64 KiB.
pub const DIRECT_READ_MIN: u32 = 64 << 10;

/// Large files whose last read is remembered; about 50 bytes each.
pub const DIRECT_FILES_REMEMBERED: usize = 8192;

/// Programs whose habit of reading is remembered.
pub const DIRECT_PROGRAMS_REMEMBERED: usize = 256;

/// The kernel's read-ahead where it cannot be raised: Linux's default, in bytes.
pub const READAHEAD_DEFAULT: u32 = 128 << 10;

/// After this time without a read, a file's blocks are given back.
pub const READER_IDLE: Duration = Duration::from_secs(10);

/// Unused memory that the block pool keeps, as a share of the read memory: one in so many bytes.
pub const POOL_IDLE_SHARE: u64 = 8;

/// After this time without a read, a file's blocks go first when another file needs memory.
pub const READER_QUIET: Duration = Duration::from_millis(500);

/// Open files of one version that share what they fetch; those beyond begin anew. What each of them asks ahead is looked
/// at when blocks are let go, by whoever reads.
pub const SHARERS_MAX: usize = 64;

/// How far one reader of a file may be behind another for blocks to stay that the other has read: half a second at
/// 500 MB/s, so that who began that much later still catches up. Who is farther behind fetches again.
pub const SHARE_BEHIND_MAX: u64 = 256 << 20;

/// The same as a share of the mount's memory, one in so many bytes.
pub const SHARE_BEHIND_SHARE: u64 = 4;

/// Blocks stay for readers that are behind while no more than one in so many bytes of the mount's memory is in use: they
/// never keep others from reading ahead.
pub const SHARE_USED_SHARE: u64 = 2;

/// First GETs for each second one that is sent because the first is late: 2 % more requests at most.
pub const HEDGE_SHARE: u32 = 50;

/// Second GETs that may be saved up: as many as stall at once when one of several servers or network interfaces dies.
pub const HEDGE_BURST: u32 = 64;

/// No GET is late before this: a busy machine takes as long to notice that bytes have come.
pub const HEDGE_DELAY_MIN: Duration = Duration::from_millis(10);

/// How often late GETs are looked for while readers wait.
pub const HEDGE_TICK: Duration = Duration::from_millis(5);

/// GETs that are watched at once. Those that are over count until they are looked at; 16,384 are as many as 400,000
/// reads a second leave behind in four times the least delay.
pub const HEDGE_WATCHED_MAX: usize = 16 << 10;

/// Least read memory that is worth having: a quarter is kept for demand and must serve the largest READ.
pub const READ_MEMORY_MIN: u64 = 4 * READ_SIZE_MAX as u64;

/// How long a process whose connection has ended looks whether its directory shows a dead mount, which answers at once, or
/// one that somebody made since.
pub const MOUNT_LOOK: Duration = Duration::from_secs(1);

/// How long the doctor looks at something on this machine that may hang: a directory, a helper program.
pub const DOCTOR_LOCAL: Duration = Duration::from_secs(2);

/// How long the doctor waits for region and credentials: an SSO or assume-role provider makes a few requests.
pub const DOCTOR_CONNECT: Duration = Duration::from_secs(8);

/// How long the doctor waits for one answer of the server.
pub const DOCTOR_STEP: Duration = Duration::from_secs(5);

/// How long the doctor asks the server in all. With the rest of it, a dead endpoint takes less than 20 s.
pub const DOCTOR_SERVER: Duration = Duration::from_secs(15);

/// Attempts of one request of the doctor's: more would hide what a mount meets.
pub const DOCTOR_ATTEMPTS: u32 = 3;

/// Names that this mount changed and that answers still in the air may be wrong about; 100 bytes each.
pub const CHANGED_NAMES_MAX: usize = 16 << 10;

/// How long a changed name is remembered at least; as long as names are answered for where that is longer.
pub const CHANGED_NAMES_AGE_MIN: Duration = Duration::from_secs(15);

/// How old it may be that a name is absent, for a program that makes a file of it without asking first: as old as names and
/// attributes may be. What is made so is stored on the condition that it is still absent.
pub const MAKER_ABSENCE_AGE_MAX: Duration = Duration::from_secs(1);

/// Names of a directory that files are made of one after the other before S3 is asked for more than the next name.
pub const MAKER_RUN: u32 = 2;

/// Names that were said to be absent a moment ago, each by itself: as many as threads may be looking up at once; 200 bytes
/// each.
pub const ABSENT_NAMES_MAX: usize = 1_024;

/// Largest file that is sent once more to see whether the server refuses it then: it is one round trip, and few bytes.
pub const CONDITION_PROOF_LEN_MAX: usize = 128 << 10;

/// How often it is looked whether a thread has fallen asleep in its system call, with the processor given away in between. It
/// has sent its request, so it is about to.
pub const SYSTEM_CALL_LOOKS_MAX: u32 = 16;

/// Threads that read the path of a system call at a time, each for some microseconds: more than look names up at once in most
/// mounts. Where memory makes them wait, S3 is asked instead.
pub const SYSTEM_CALL_READERS_MAX: usize = 32;

/// Directories that are there although no key says so: made here or emptied here. About 250 bytes each.
pub const KEPT_DIRECTORIES_MAX: usize = 1 << 18;

/// Largest object that S3 copies in one request.
pub const COPY_SIZE_MAX: u64 = 5 << 30;

/// Part of an object that is copied in parts. S3 copies some 100 MB/s within one request, so smaller parts are faster;
/// 512 MiB times S3's 10,000 parts is more than an object of 5 TiB needs, and larger ones get larger parts.
pub const COPY_PART_SIZE: u64 = 512 << 20;

/// Parts of an object's copy that are enough: above that they are larger than [`COPY_PART_SIZE`], so that others may
/// follow them in the same upload.
pub const COPY_PARTS_MANY: u64 = 1000;

/// Bytes that one `copy_file_range` copies at most, so that it takes seconds: between two calls the program hears signals
/// and may say how far it is.
pub const COPY_CALL_MAX: u64 = 5 << 30;

/// Requests of one rename, or of all files that are copied into, that are in the air at once: a directory's copies, or
/// the parts of a copy.
pub const COPIES_IN_FLIGHT_MAX: usize = 32;

/// Attempts to rename a file whose object is replaced meanwhile.
pub const RENAME_ATTEMPTS_MAX: u32 = 3;

/// Keys of one DeleteObjects: S3's own bound.
pub const DELETE_KEYS_MAX: usize = 1000;

/// How long a rename waits for what was begun below its names before it says `EBUSY`: requests that go well take less. The
/// kernel holds both parents meanwhile, and nothing else is looked up in them. It looks at the time whenever something
/// ends, and every [`READER_IDLE`].
pub const RENAME_WAIT_MAX: Duration = Duration::from_secs(10);

/// How often the log says how far the renaming of a directory has come.
pub const RENAME_PROGRESS: Duration = Duration::from_secs(10);

/// Names that one rename of a directory may move. What is known of each is held in memory (about 200 bytes) while the
/// rename lasts, so that nothing is deleted that was not copied.
pub const RENAME_KEYS_MAX: usize = 1 << 20;

/// User metadata that S3 stores with an object, in bytes of names and values.
pub const METADATA_LEN_MAX: usize = 2048;

/// Longest target of a symbolic link, in bytes: Linux's `PATH_MAX`.
pub const LINK_LEN_MAX: u32 = 4096;

/// How often a read of a file that somebody goes on writing is tried, if another version is stored each time meanwhile.
pub const FOLLOW_TRIES_MAX: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_waits_for_the_end_of_a_mount_that_is_told_to_end() {
        let files_end = SHUTDOWN_DRAIN + SHUTDOWN_ABORT;
        assert!(files_end < SIGNAL_DRAIN, "nothing is left to store files");
        let threads_end = Duration::from_secs(5);
        let taken = SIGNAL_DRAIN + UPLOAD_ABORT + SHUTDOWN_RUNTIME + threads_end;
        assert!(taken < Duration::from_secs(25), "{taken:?}");
    }

    #[test]
    fn systemd_waits_for_the_end_of_a_mount() {
        let unit = include_str!("../../packaging/mount-s3@.service");
        let mut lines = unit.lines();
        let seconds = lines.find_map(|line| line.strip_prefix("TimeoutStopSec="));
        let given = Duration::from_secs(seconds.unwrap().parse().unwrap());
        let taken = SHUTDOWN_DRAIN + SHUTDOWN_ABORT + UPLOAD_DRAIN + UPLOAD_ABORT;
        assert!(given > taken + SHUTDOWN_RUNTIME, "{given:?}");
    }
}
