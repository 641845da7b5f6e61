//! The bounds of the process, each with the reason for its value.

use std::time::Duration;

/// Largest READ that the kernel sends: `max_pages` 256.
///
/// 1 MiB is the kernel's default ceiling (`fs.fuse.max_pages_limit`).
pub const READ_SIZE_MAX: u32 = 1 << 20;

/// Longest name of one directory entry, in bytes. Linux refuses longer ones itself (`NAME_MAX`).
pub const NAME_LEN_MAX: usize = 255;

/// How long names and attributes may be stale by default (`--metadata-ttl minimal`).
///
/// mountpoint-s3 promises at most 1 s for changed objects.
pub const FILE_TTL: Duration = Duration::from_secs(1);

/// Memory of one inode with a name of 29 bytes, in bytes. All tables are included; a test counts
/// it.
pub const INODE_BYTES_MAX: usize = 256;

/// How long SIGTERM waits for operations in progress before it unmounts lazily.
pub const SHUTDOWN_DRAIN: Duration = Duration::from_secs(5);

/// How long an unmount waits for the session's threads after the connection was aborted.
pub const SHUTDOWN_ABORT: Duration = Duration::from_secs(2);

/// How long an unmount after a signal continues to store files that were closed.
///
/// With [`UPLOAD_ABORT`], [`CACHE_DRAIN`], [`SHUTDOWN_RUNTIME`] and 5 s for the client's threads,
/// the process ends within 25 s, whatever S3 does: Kubernetes kills it after 30. Longer uploads
/// need an unmount instead of a signal, see [`UPLOAD_DRAIN`].
pub const SIGNAL_DRAIN: Duration = Duration::from_secs(15);

/// How long the process waits at its end for requests that are still in flight.
pub const SHUTDOWN_RUNTIME: Duration = Duration::from_secs(1);

/// How long a start may take; mountpoint-s3's bound. `MOUNTPOINT_START_TIMEOUT` changes it.
pub const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How much before [`START_TIMEOUT`] a start gives up its requests, as a divisor.
///
/// The process that sent the requests can name them; the terminal that waits for the process
/// cannot.
pub const START_RESERVE_SHARE: u32 = 10;

/// How long a background process may take to end before it is killed.
pub const START_END_MAX: Duration = Duration::from_secs(2);

/// FUSE's `max_background` on up to 8 cores.
///
/// The value bounds asynchronous direct reads, too: 4 KiB reads 128 deep from a store 20 ms away
/// came to 2,600 a second with 64, mountpoint-s3's value, and to 4,600 with 128; 256 measured no
/// faster on two cores, and streams through the page cache are as fast with either.
pub const MAX_BACKGROUND_MIN: u16 = 128;

/// FUSE's `max_background` on 64 cores and more.
pub const MAX_BACKGROUND_MAX: u16 = 1024;

/// Session threads on up to 24 cores. They never wait for S3; four measured as fast as sixteen on
/// two cores.
pub const SESSION_THREADS_MIN: usize = 4;

/// Default of `--max-threads` for FUSE over io_uring: one thread for each core up to that.
pub const RING_THREADS_DEFAULT: usize = 16;

/// Cores up to which FUSE over io_uring is used. Each costs 64 entries of 1 MiB of address space.
pub const RING_QUEUES_MAX: usize = 64;

/// Entries of all io_uring queues together, and so requests in progress.
///
/// With 2 cores they serve 1,000 waiting readers, with 64 cores each has 64. An unused entry costs
/// about 1 KiB, in the kernel.
pub const RING_ENTRIES_MAX: usize = 4096;

/// Entries of one io_uring queue. While so many requests of one core wait for S3, its next one
/// waits as well.
pub const RING_DEPTH_MAX: usize = 512;

/// Memory for replies in transit to the kernel over io_uring, shared by the queue threads.
pub const RING_MEMORY_MAX: usize = 32 << 20;

/// Least such memory of a queue thread. The largest reply in transit, and the next one.
pub const RING_MEMORY_MIN: usize = 2 * READ_SIZE_MAX as usize;

/// Time without a request after which an io_uring queue frees its replies' memory.
pub const RING_IDLE: Duration = Duration::from_secs(1);

/// Least memory for reads by default, on machines with twice as much.
pub const READ_MEMORY_DEFAULT_MIN: u64 = 256 << 20;

/// Most memory for reads by default on machines of up to 128 GiB.
///
/// `--memory-target` may ask for more.
pub const READ_MEMORY_DEFAULT_MAX: u64 = 8 << 30;

/// Most memory for reads by default on machines of 512 GiB and more.
pub const READ_MEMORY_LARGE_MAX: u64 = 32 << 30;

/// The client's planned throughput in Gbit/s, where neither a flag nor the instance type tells.
pub const THROUGHPUT_DEFAULT_GBPS: f64 = 10.0;

/// Largest WRITE that the kernel sends, in bytes.
///
/// Each thread that writes may have one WRITE waiting, so [`WRITE_SIZE_SHARE`] bounds it by the
/// memory. One writer, `dd` of 1 GiB of zeros with `bs=` 1 MiB, 512, 256 and 128 KiB, came to 0.74,
/// 0.82, 0.73 and 0.77 GB/s (medians of four in turns, a store on the same machine).
pub const WRITE_SIZE_MAX: usize = 1 << 20;

/// Largest WRITE as a share of the memory: one in so many bytes.
pub const WRITE_SIZE_SHARE: u64 = 2048;

/// Least value of the largest WRITE, in bytes: the largest extended attribute.
pub const WRITE_SIZE_MIN: usize = 64 << 10;

/// How long a WRITE beyond a file's end waits for each WRITE before it.
///
/// The earlier WRITE may be in flight: the kernel has sent it, and a session thread is handling it.
/// That takes microseconds, and longer on a starved machine.
pub const REORDER_WAIT: Duration = Duration::from_secs(1);

/// How far beyond the end of a file a WRITE may overtake others, in bytes.
///
/// That is the limit of the bytes that the kernel has in flight.
pub const REORDER_DISTANCE_MAX: u64 = MAX_BACKGROUND_MAX as u64 * WRITE_SIZE_MAX as u64;

/// Threads whose last WRITE is remembered. The count includes only these.
pub const WRITERS_SEEN: usize = 1024;

/// Time without a WRITE after which a thread is expected to have none waiting.
pub const WRITER_RECENT: Duration = Duration::from_secs(5);

/// Buffer sizes of a written file, in bytes, before the one for a whole part.
///
/// A small file takes a page, and growing a buffer copies an eighth of the first part at most.
pub const WRITE_STAGES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];

/// Descriptors that are searched for another one of an empty file that a process closes.
///
/// The search takes about 5 ms.
pub const DESCRIPTORS_SEEN_MAX: usize = 1024;

/// Initial part size of an upload; mountpoint-s3's size.
pub const WRITE_PART_DEFAULT: u64 = 8 << 20;

/// Parts of one file that are being appended to its object or wait for that. One in flight, one
/// behind it.
///
/// Appends are sequential, so more parts would only hold memory.
pub const GROWTH_PARTS_MAX: usize = 2;

/// Zeros that one file may have stored for its gaps, in bytes.
///
/// S3 has no holes, so each zero is sent and paid for. The limit admits the disk image of a virtual
/// machine, about a minute of a fast network, and stops a wrong offset.
pub const GAP_BYTES_MAX: u64 = 64 << 30;

/// Parts that one upload may have; S3's limit.
pub const UPLOAD_PARTS_MAX: u16 = 10_000;

/// Largest part; S3's limit.
pub const UPLOAD_PART_MAX: u64 = 5 << 30;

/// Smallest part that is not the last; S3's limit.
pub const UPLOAD_PART_MIN: u64 = 5 << 20;

/// Parts of the first size. The first 7.8 GiB are sent in parts of 8 MiB, many of them in parallel.
pub const UPLOAD_PARTS_FIRST: u16 = 1000;

/// After those parts the size doubles every so many parts. Most of the 10,000 may then have the
/// largest size.
pub const UPLOAD_PARTS_STEP: u16 = 250;

/// Share of the mount's memory that parts of written files may hold. One in so many bytes.
pub const WRITE_MEMORY_SHARE: u64 = 2;

/// Memory that is always left to reads: one in so many bytes.
///
/// Incomplete first parts may exceed the write share, because an application with hundreds of open
/// files cannot be made to wait.
pub const READ_KEPT_SHARE: u64 = 8;

/// Least memory that is left to reads, in bytes: several reads of the largest size.
pub const READ_KEPT_MIN: u64 = 8 * READ_SIZE_MAX as u64;

/// Memory that incomplete first parts leave to whole parts. One in so many bytes, and one part at
/// least.
pub const WRITE_PART_KEPT_SHARE: u64 = 8;

/// Largest part, as a share of the mount's memory: one in so many bytes.
///
/// One part can be filled while another is sent.
pub const WRITE_PART_MAX_SHARE: u64 = 4;

/// Share of the mount's memory above which buffers take no more than they need. One in so many
/// bytes.
pub const WRITE_PLENTY_SHARE: u64 = 16;

/// Share of writers' memory above which a file gets no whole first part at once. One in so many
/// bytes.
///
/// A file that has outgrown the small buffers may end soon, and others may be many.
pub const WRITE_EAGER_SHARE: u64 = 8;

/// How often the mount checks whether it can serve writers that wait for memory.
pub const PRESSURE_TICK: Duration = Duration::from_millis(20);

/// How long a writer waits for memory without any progress of writes and uploads.
///
/// By then the application that holds the memory has stopped: it wrote to many files in turn, and
/// now waits for the next.
pub const MEMORY_WAIT_MAX: Duration = Duration::from_secs(60);

/// Progress below so many bytes in [`MEMORY_WAIT_MAX`] counts as none. An occasional line of a log
/// frees no memory.
pub const MEMORY_PROGRESS_MIN: u64 = 64 << 10;

/// How long writers wait for memory of a failed one before the next one fails.
pub const MEMORY_FAILURE_GAP: Duration = Duration::from_secs(1);

/// Idle time after which a file gives back its unfilled memory to waiting writers.
///
/// A program that fills one file writes far more often, and a later write reserves memory again.
pub const BUFFER_IDLE: Duration = Duration::from_secs(1);

/// Time after which a file with an unfilled part gives way to waiting writers.
///
/// The rule applies while no upload is in flight: the file may be a log with an occasional line.
pub const BUFFER_FILL_MAX: Duration = Duration::from_secs(5);

/// How long an unmount waits for uploads in progress. It aborts the rest.
pub const UPLOAD_DRAIN: Duration = Duration::from_secs(30);

/// Wait before the upload of a closed file with `--write-back`: programs write and rename, or write
/// and remove, within it.
pub const WRITE_BACK_DELAY: Duration = Duration::from_secs(1);

/// How long the end of a mount with `--write-back` waits for uploads, from the signal or the
/// unmount on.
///
/// With [`UPLOAD_ABORT`], [`CACHE_DRAIN`], [`SHUTDOWN_RUNTIME`] and 5 s for the client's threads,
/// the process ends within 30 s, when Kubernetes kills it. A kill loses nothing.
pub const WRITE_BACK_DRAIN: Duration = Duration::from_secs(20);

/// How long an unmount waits for the cache to store what was read last.
pub const CACHE_DRAIN: Duration = Duration::from_secs(1);

/// How long an unmount then waits for the aborts.
pub const UPLOAD_ABORT: Duration = Duration::from_secs(3);

/// File size above which a journal may be rewritten, in bytes. It must also have doubled.
pub const JOURNAL_LEN_MAX: u64 = 64 << 10;

/// Unfinished renames of directories that are remembered; the oldest are forgotten.
pub const RENAMES_REMEMBERED_MAX: usize = 100;

/// How long an interrupted rename may be resumed. Later the keys may belong to other objects.
pub const RENAME_REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// Journals in the state directory that are read. One for each killed mount of this user.
pub const JOURNAL_FILES_MAX: usize = 1000;

/// Bytes of lines that wait to be written to a journal. Beyond that, all open entries are written
/// instead.
pub const JOURNAL_QUEUE_MAX: usize = 64 << 10;

/// How long an upload waits until the journal names it. A slower disk must not delay uploads.
pub const JOURNAL_WAIT_MAX: Duration = Duration::from_secs(5);

/// How long an unmount waits for the journal's last lines.
pub const JOURNAL_END_MAX: Duration = Duration::from_secs(2);

/// Journals of other hosts that the log names. A home that many hosts share may have one for each.
pub const JOURNAL_HOSTS_NAMED_MAX: usize = 8;

/// Names in one LIST: S3's largest page.
pub const LIST_PAGE_KEYS: u16 = 1000;

/// Entries that one page of a listing may have.
///
/// The entry's number is the lower part of a directory offset; a server that sends more than a
/// thousand times the requested number is refused.
pub const LIST_PAGE_ENTRIES_MAX: usize = (1 << 20) - 2;

/// LISTs in flight for one listing of a large directory.
///
/// At 50 ms a request, 16 bring 320,000 names a second, about the limit of readdirplus; S3 does not
/// throttle them.
pub const LIST_REQUESTS_MAX: usize = 16;

/// Pages of one listing ahead of its reader, or in flight: three for each request.
///
/// A page of short names takes about 0.2 MB.
pub const LIST_AHEAD_PAGES_MAX: usize = 3 * LIST_REQUESTS_MAX;

/// Pages of all listings of a mount ahead of their readers, about 40 MB.
///
/// Where that is too few, each listing fetches only the page that its reader waits for.
pub const LIST_AHEAD_MOUNT_MAX: usize = 4 * LIST_AHEAD_PAGES_MAX;

/// Pages that one listing holds behind its reader. Two readers of one descriptor have two each.
pub const LIST_HELD_PAGES_MAX: usize = 4;

/// How long a `lookup`'s answer may serve the `open` in the same system call.
///
/// The bound in force is shorter: the duration of that lookup. See `namespace::Namespace::open`.
pub const OPEN_FRESH_MAX: Duration = Duration::from_millis(100);

/// Names on listing pages that answer lookups while they are valid.
///
/// `du` and `find` read a whole directory before they look at its first entry; 32 full pages are
/// the names that S3 lists in one validity at 30 ms a page, and about 6 MB.
pub const RECENT_NAMES_MAX: usize = 32_000;

/// Listing pages that answer lookups. The entries below a name take a page for each directory.
pub const RECENT_PAGES_MAX: usize = 4_096;

/// Keys that the LIST of a lookup asks for. The name itself and the keys below it.
///
/// The keys below answer the next lookups. 100 keys are 30 KB, and take S3 no longer than one.
pub const LOOKUP_KEYS: u16 = 100;

/// First bytes of a file that come with the lookup: the kernel's first read.
pub const FIRST_BYTES_LEN: u32 = 128 << 10;

/// Files whose first bytes wait for their open: 1 MiB in all.
pub const FIRST_BYTES_FILES_MAX: usize = 8;

/// How long the first bytes wait. Longer than any system call takes from lookup to open.
pub const FIRST_BYTES_AGE_MAX: Duration = Duration::from_secs(1);

/// Lookups of a new mount that fetch first bytes before the first open.
pub const FIRST_BYTES_CREDIT: u8 = 2;

/// Largest number of lookups that fetch first bytes without an open, after many opens.
pub const FIRST_BYTES_CREDIT_MAX: u8 = 8;

/// How long lookups fetch no first bytes after a failure.
///
/// A server without support is asked once a minute, and a chance failure costs no more than that.
pub const FIRST_BYTES_FAILED_AGE: Duration = Duration::from_secs(60);

/// Largest age of a listing made before its directory was opened; less where names may be old for
/// less time. How long a walk is remembered.
pub const WALK_AGE_MAX: Duration = Duration::from_secs(10);

/// How soon after the end of a directory its first subdirectory is opened by a program that walks.
///
/// People who look around take longer.
pub const WALK_BEGIN_MAX: Duration = Duration::from_secs(1);

/// LISTs ahead of walks in flight: a quarter of the connections for control requests.
pub const WALK_REQUESTS_MAX: usize = 32;

/// LISTs ahead of walks of which nothing was used yet: at the beginning, and at most.
pub const WALK_WINDOW: usize = 4;
/// See [`WALK_WINDOW`].
pub const WALK_UNUSED_MAX: usize = 64;

/// Directories that were listed ahead and used for each LIST that may be wasted: requests are at
/// most a fifth more than directories.
pub const WALK_USES_PER_WASTE: i32 = 5;

/// What may be wasted without any use, in uses: 8 requests.
pub const WALK_CREDIT: i32 = 8 * WALK_USES_PER_WASTE;

/// How often one more LIST may be wasted.
pub const WALK_CREDIT_PERIOD: Duration = Duration::from_secs(10);

/// Directories to list ahead of a walk, whatever its pace: few of a slow one, and no more than
/// 16 answers of small directories of a fast one.
pub const WALK_DIRECTORIES_AHEAD_MIN: usize = 2;
/// See [`WALK_DIRECTORIES_AHEAD_MIN`].
pub const WALK_DIRECTORIES_AHEAD_MAX: usize = 512;

/// Names in directories that are listed before they are opened, and subdirectories that walks
/// remember. About 6 MB.
pub const WALK_NAMES_MAX: usize = 32_000;

/// Directories of walks that are remembered, whether listed to their end or to be opened.
pub const WALK_DIRECTORIES_MAX: usize = 4_096;

/// Directories that a LIST without a delimiter has to show in full to be better than one LIST for
/// each.
pub const WALK_SUBTREE_LEAST: usize = 3;

/// Poor LISTs without a delimiter after which they do not become rarer: one for each 1,024
/// directories.
pub const WALK_SKIP_MAX: u32 = 10;

/// Lookups in one directory, sequential or parallel, that each ask S3 for one name.
///
/// The next lookup lists the directory: a program that knows its files' names looks at many of
/// them.
pub const BATCH_LOOKUPS: u32 = 8;

/// Most lookups between two listings that proved useless to a directory's lookups.
pub const BATCH_LOOKUPS_MAX: u32 = 1 << 20;

/// Directories whose lookups are counted.
pub const BATCH_DIRECTORIES_MAX: usize = 1_024;

/// Least limit of inodes, above which the mount asks the kernel to forget unused files.
///
/// The limit applies to machines of up to 61 GiB. The kernel holds about 1 KB for each inode,
/// besides our [`INODE_BYTES_MAX`], and frees it when memory is short.
pub const INODES_MAX_LEAST: usize = 1_000_000;

/// Memory of the machine or its control group, in bytes, per inode that is kept.
///
/// Inodes take 2 % of it, where that is more than the least limit.
pub const INODE_MEMORY_SHARE: u64 = 64 << 10;

/// Longest pause between two checks of the number of inodes.
pub const EVICTION_PERIOD: Duration = Duration::from_secs(1);

/// Shortest pause between two checks. Meanwhile the fastest walk makes 1 % of [`INODES_MAX_LEAST`].
pub const EVICTION_PAUSE_MIN: Duration = Duration::from_millis(20);

/// Inodes that the fastest walk makes in a second; 180,000 to 350,000 were measured.
pub const INODES_PER_SECOND_MAX: usize = 500_000;

/// Slots of the inode table that are examined while its lock is held. 0.1 to 0.6 ms.
///
/// All other operations on names wait meanwhile.
pub const EVICTION_LOOK: usize = 1_024;

/// Names of replaced objects that the kernel has not yet been told to forget.
///
/// Further names expire in the kernel when their validity ends.
pub const STALE_NAMES_MAX: usize = 1_024;

/// Directories with a log line about keys that cannot be shown.
pub const HIDDEN_DIRECTORIES_MAX: usize = 1_024;

/// Objects whose details, the source of extended attributes, are remembered.
pub const DETAILS_MAX: usize = 32;

/// Largest file that `open` fetches instead of asking for its version: one request brings both.
///
/// The kernel would read these bytes first; an application that does not read the file wastes no
/// more.
pub const OPEN_FETCH_MAX: u64 = 128 << 10;

/// Largest age of a listing page whose attributes are returned as valid.
///
/// A reader that pauses longer between two pages still gets the names, and the kernel looks up the
/// attributes that it needs.
pub const LISTING_AGE_MAX: Duration = Duration::from_secs(10);

/// Share of the read memory that read-ahead may hold, in quarters. The rest always serves reads
/// that wait.
pub const READ_AHEAD_QUARTERS: u64 = 3;

/// First range of a file that is read from its beginning: Linux's default read-ahead.
pub const FIRST_RANGE: u64 = 128 << 10;

/// Largest file that a read from its beginning fetches whole.
///
/// One request takes less than the 10 ms that a second one would cost at 90 MB/s.
pub const SMALL_FILE_MAX: u64 = 1 << 20;

/// Files of one run that are fetched before they are opened.
///
/// At 20 ms a request they serve one worker that takes 0.3 ms for each.
pub const SIBLINGS_AHEAD_MAX: usize = 64;

/// Files of all runs of the mount that are fetched before they are opened.
pub const SIBLINGS_AHEAD_MOUNT_MAX: usize = 256;

/// Runs that are tracked: places in directories where files are opened in order.
///
/// Several workers with files of their own have a run each.
pub const SIBLING_RUNS_MAX: usize = 256;

/// Initial number of bytes of siblings that may be fetched in vain.
///
/// The number allows [`SIBLINGS_AHEAD_MAX`] files of 128 KiB.
pub const SIBLING_BUDGET: u64 = 8 << 20;

/// Largest number of such bytes, however many files were opened in order before.
pub const SIBLING_BUDGET_MAX: u64 = 64 << 20;

/// Bytes of files opened in order for each byte that may be fetched in vain.
pub const SIBLING_WASTE_SHARE: u64 = 8;

/// Smallest range of read-ahead. Below it a request costs more CPU than its bytes.
pub const PART_MIN: u64 = 128 << 10;

/// Largest range of one GET; `--read-part-size` may raise it.
///
/// One connection takes seconds for it, and no reader is faster for a longer one: its window is cut
/// into parts.
pub const PART_MAX: u64 = 256 << 20;

/// Largest file of trusted certificates; the system's own is about 0.2 MB.
pub const CA_BUNDLE_MAX: u64 = 16 << 20;

/// Largest file that may hold a customer's key: its base64 is 44 bytes.
pub const KEY_FILE_MAX: u64 = 1 << 10;

/// Parts of a window: one being read, one complete, two in flight.
pub const PARTS_PER_WINDOW: u64 = 4;

/// Parts of a window where several streams keep the store busy.
///
/// One is being read, one is in flight.
pub const PARTS_PER_WINDOW_OF_SEVERAL: u64 = 2;

/// Longest part that only saves requests: mountpoint-s3's part size.
pub const PART_LONG_MAX: u64 = 8 << 20;

/// Bytes of such parts over all streams of a mount: eight have 4 MiB each.
pub const PARTS_LONG_MAX: u64 = 32 << 20;

/// Bytes of such parts over all streams near the store: four have 2 MiB each.
///
/// Parts of twice the length are as fast, take up to a fifth more CPU, because they leave its
/// caches, and twice the memory.
pub const PARTS_LONG_NEAR_MAX: u64 = 8 << 20;

/// Largest initial window of a stream, and the smallest that it shrinks to by itself.
///
/// Small enough to stay in the caches of the CPU, large enough for a near store.
pub const WINDOW_INITIAL_MAX: u64 = 4 << 20;

/// Remembered ends of reads of one open file.
///
/// Linux has at most 64 readahead requests in flight per file system by default, few of them out of
/// order.
pub const EXTENTS_MAX: usize = 32;

/// Streams of one open file that are read ahead at the same time.
pub const STREAMS_MAX: usize = 16;

/// Runs of a strided or backward reader that are fetched ahead.
///
/// At 20 ms a request, that is the rate of a machine that takes 1 ms for each.
pub const STRIDE_RUNS_MAX: usize = 16;

/// Longest read that belongs to a file's layout: a table, a group, an attribute, not data.
pub const LAYOUT_READ_MAX: u64 = 64 << 10;

/// Largest number of reads of a file's layout; a file with more is a database.
///
/// Each open file that is read so takes 16 bytes for each.
pub const LAYOUT_READS_MAX: usize = 512;

/// Kinds of files whose layouts are remembered: 256 KiB together at most.
pub const LAYOUTS_MAX: usize = 32;

/// Ranges fetched ahead because the file before was read there.
///
/// At 20 ms a request, the heads of most files have fewer.
pub const LAYOUT_AHEAD_MAX: usize = 32;

/// Bytes of such ranges that one open file holds.
pub const LAYOUT_AHEAD_BYTES_MAX: u64 = 256 << 10;

/// Shortest run of bytes, read out of order, that read-ahead leaves out.
///
/// Shorter ones would splinter requests.
pub const READ_RANGE_MIN: u64 = 64 << 10;

/// Blocks that one reply may be made of; far below the kernel's `IOV_MAX` of 1024.
pub const SLICES_MAX: usize = 256;

/// Smallest file whose replies may bypass the page cache by the mount's choice. A smaller one gains
/// nothing.
pub const DIRECT_FILE_MIN: u64 = 8 << 20;

/// Share of the memory above which a file gets direct replies at its first read. One in so many
/// bytes.
pub const DIRECT_MEMORY_SHARE: u64 = 32;

/// Size from which direct reads are as fast as cached ones. Measured: 64 KiB.
pub const DIRECT_READ_MIN: u32 = 64 << 10;

/// Large files whose last read is remembered; about 50 bytes each.
pub const DIRECT_FILES_REMEMBERED: usize = 8192;

/// Programs whose way of reading is remembered.
pub const DIRECT_PROGRAMS_REMEMBERED: usize = 256;

/// The kernel's read-ahead where it cannot be raised: Linux's default, in bytes.
pub const READAHEAD_DEFAULT: u32 = 128 << 10;

/// Time without a read after which a file's blocks are given back.
pub const READER_IDLE: Duration = Duration::from_secs(10);

/// Unused memory that the block pool keeps, as a share of the read memory. One in so many bytes.
pub const POOL_IDLE_SHARE: u64 = 8;

/// Time without a read after which a file's blocks are evicted before others.
pub const READER_QUIET: Duration = Duration::from_millis(500);

/// Open files of one version that share their blocks; further ones share with each other.
///
/// Each release of blocks examines the read-ahead of all of them.
pub const SHARERS_MAX: usize = 64;

/// Largest distance between readers for which blocks stay that the first has read.
///
/// That is half a second at 500 MB/s, so that a reader that began so much later catches up. A
/// reader farther behind fetches again.
pub const SHARE_BEHIND_MAX: u64 = 256 << 20;

/// The largest such distance as a share of the mount's memory. One in so many bytes.
pub const SHARE_BEHIND_SHARE: u64 = 4;

/// Share of memory in use up to which blocks stay for slower readers. One in so many bytes.
///
/// Such blocks never keep other readers from reading ahead.
pub const SHARE_USED_SHARE: u64 = 2;

/// First GETs for each second one that is sent because the first is late. 2 % more requests at
/// most.
pub const HEDGE_SHARE: u32 = 50;

/// Second GETs that may be saved up. As many as stall at once when a server or network interface
/// dies.
pub const HEDGE_BURST: u32 = 64;

/// No GET is late before this. A busy machine takes as long to notice arrived bytes.
pub const HEDGE_DELAY_MIN: Duration = Duration::from_millis(10);

/// How often late GETs are looked for while readers wait.
pub const HEDGE_TICK: Duration = Duration::from_millis(5);

/// GETs that are watched at once. A finished GET counts until the next check.
///
/// 16,384 are as many as 400,000 reads a second leave behind in four times the least delay.
pub const HEDGE_WATCHED_MAX: usize = 16 << 10;

/// Least read memory: a quarter is kept for demand and must serve the largest READ.
pub const READ_MEMORY_MIN: u64 = 4 * READ_SIZE_MAX as u64;

/// How long a process whose connection has ended examines its mount point.
///
/// The mount point shows a dead mount, which answers at once, or a newer mount.
pub const MOUNT_LOOK: Duration = Duration::from_secs(1);

/// How long the doctor waits for a local resource that may hang. A directory, a helper program.
pub const DOCTOR_LOCAL: Duration = Duration::from_secs(2);

/// How long the doctor waits for region and credentials. An SSO or assume-role provider makes a few
/// requests.
pub const DOCTOR_CONNECT: Duration = Duration::from_secs(8);

/// How long the doctor waits for one answer of the server.
pub const DOCTOR_STEP: Duration = Duration::from_secs(5);

/// How long the doctor waits for the server in all. A dead endpoint then takes less than 20 s
/// altogether.
pub const DOCTOR_SERVER: Duration = Duration::from_secs(15);

/// How long the doctor tries writes. 20 requests, one of them with 5 MiB.
pub const DOCTOR_WRITES: Duration = Duration::from_secs(20);

/// How long the doctor removes what it wrote. 10 requests.
pub const DOCTOR_REMOVAL: Duration = Duration::from_secs(10);

/// Attempts of one request of the doctor: more would hide failures that a mount meets.
pub const DOCTOR_ATTEMPTS: u32 = 3;

/// Names changed by this mount about which answers in flight may be wrong. 100 bytes each.
pub const CHANGED_NAMES_MAX: usize = 16 << 10;

/// How long a changed name is remembered at least. Longer where names are valid for longer.
pub const CHANGED_NAMES_AGE_MIN: Duration = Duration::from_secs(15);

/// Largest age of an absence for a program that creates a file of that name.
///
/// The age may be as high as that of names and attributes: the file is stored on the condition that
/// the name is still absent.
pub const CREATE_ABSENCE_AGE_MAX: Duration = Duration::from_secs(1);

/// Files created in succession before S3 is asked for more than the next name.
pub const CREATE_RUN: u32 = 2;

/// Absent names that are remembered singly. As many as threads may look up at once; 200 bytes each.
pub const ABSENT_NAMES_MAX: usize = 1_024;

/// Largest file that is sent once more to see whether the server refuses it then. One round trip,
/// few bytes.
pub const CONDITION_PROBE_LEN_MAX: usize = 128 << 10;

/// How often the mount checks whether a thread sleeps in its system call. Between the checks the
/// mount yields the processor.
///
/// The thread has sent its request, so it is about to sleep.
pub const SYSTEM_CALL_LOOKS_MAX: u32 = 16;

/// Threads that read the path of a system call at a time. Each takes some microseconds.
///
/// Few mounts have more parallel lookups. Where memory makes them wait, S3 is asked instead.
pub const SYSTEM_CALL_READERS_MAX: usize = 32;

/// Directories that exist although no key shows them: created or emptied here. About 250 bytes
/// each.
pub const IMPLICIT_DIRECTORIES_MAX: usize = 1 << 18;

/// Largest object that S3 copies in one request.
pub const COPY_SIZE_MAX: u64 = 5 << 30;

/// Part size of an object that is copied in parts.
///
/// S3 copies some 100 MB/s within one request, so smaller parts are faster; 512 MiB times S3's
/// 10,000 parts is more than an object of 5 TiB needs, and larger objects get larger parts.
pub const COPY_PART_SIZE: u64 = 512 << 20;

/// Parts of a copy above which parts exceed [`COPY_PART_SIZE`]. Other parts may then follow in the
/// same upload.
pub const COPY_PARTS_MANY: u64 = 1000;

/// Bytes that one `copy_file_range` copies at most, so that it takes seconds.
///
/// Between two calls the program receives signals and may show its progress.
pub const COPY_CALL_MAX: u64 = 5 << 30;

/// Requests in flight of one rename, or of all files that are copied into.
///
/// The requests are a directory's copies, or the parts of a copy.
pub const COPIES_IN_FLIGHT_MAX: usize = 32;

/// Attempts to rename a file whose object is replaced meanwhile.
pub const RENAME_ATTEMPTS_MAX: u32 = 3;

/// Keys of one DeleteObjects: S3's own bound.
pub const DELETE_KEYS_MAX: usize = 1000;

/// How long a rename waits for operations below its names before it fails with `EBUSY`.
///
/// Normal requests take less. Meanwhile the kernel locks both parent directories, which blocks
/// lookups in them. The rename checks the time whenever an operation ends, and every
/// [`READER_IDLE`].
pub const RENAME_WAIT_MAX: Duration = Duration::from_secs(10);

/// How often the log shows the progress of a directory's rename.
pub const RENAME_PROGRESS: Duration = Duration::from_secs(10);

/// Names that one rename of a directory may move.
///
/// Each name takes about 200 bytes of memory while the rename lasts, so that no object is deleted
/// without a copy.
pub const RENAME_KEYS_MAX: usize = 1 << 20;

/// User metadata that S3 stores with an object, in bytes of names and values.
pub const METADATA_LEN_MAX: usize = 2048;

/// Longest target of a symbolic link, in bytes: Linux's `PATH_MAX`.
pub const LINK_LEN_MAX: u32 = 4096;

/// Tries of a read during which another process stores new versions of the file.
pub const FOLLOW_TRIES_MAX: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_waits_for_the_end_of_a_mount_that_is_told_to_end() {
        let files_end = SHUTDOWN_DRAIN + SHUTDOWN_ABORT;
        assert!(files_end < SIGNAL_DRAIN, "no time is left to store files");
        let threads_end = Duration::from_secs(5);
        let taken = SIGNAL_DRAIN + UPLOAD_ABORT + SHUTDOWN_RUNTIME + threads_end;
        assert!(taken < Duration::from_secs(25), "{taken:?}");
        let rest = UPLOAD_ABORT + CACHE_DRAIN + SHUTDOWN_RUNTIME + threads_end;
        let taken = WRITE_BACK_DRAIN + rest;
        assert!(taken <= Duration::from_secs(30), "{taken:?}");
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
