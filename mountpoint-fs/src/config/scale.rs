//! Settings that grow with the machine's cores and memory.
//!
//! Pure. Measured on 2 cores, and threads on 16; above that, extrapolated from the measured work of
//! one thread, and bounded.

use super::limits::{MAX_BACKGROUND_MAX, WINDOW_MAX, WRITE_SIZE_MAX, WRITE_SIZE_MIN};

/// Session threads of a machine with so many cores, `threads_max` at most.
///
/// The threads only take requests and send finished replies, so few are enough: on 2 cores, 4
/// threads instead of 1 raise one stream from 2.9 to 4.3 GB/s, because one can wait in `read` while
/// another copies, and 16 are no faster than 4. But one thread copies 4 to 8 GB a second at most,
/// and 2.5 to 4 where files are written: 16 are for 400 Gbit/s.
#[must_use]
pub fn session_threads(cores: usize, threads_max: usize) -> usize {
    threads_max.min((cores / 6).max(SESSION_THREADS_MIN)).max(1)
}

/// Threads of timers and control requests. Each task is short, but a listing of 1,000 names takes a
/// thread one millisecond.
#[must_use]
pub fn runtime_threads(cores: usize) -> usize {
    (cores / 16).clamp(2, 8)
}

/// FUSE's `max_background`: an unused slot costs nothing, and many cores have many readers.
#[must_use]
pub fn max_background(cores: usize) -> u16 {
    let wanted = u16::try_from(cores.saturating_mul(16)).unwrap_or(u16::MAX);
    wanted.clamp(MAX_BACKGROUND_MIN, MAX_BACKGROUND_MAX)
}

/// Largest WRITE of a mount with `memory` bytes. Each of hundreds of threads may have one waiting.
#[must_use]
pub fn write_max(memory: u64) -> u32 {
    let share = usize::try_from(memory / WRITE_SIZE_SHARE).unwrap_or(usize::MAX);
    let size = share.clamp(WRITE_SIZE_MIN, WRITE_SIZE_MAX);
    // A power of two is a multiple of any page size.
    1 << size.ilog2()
}

/// Largest prefetch window of one stream: what a far store sends while a part is on its way, at the
/// rate that the cores carry.
#[must_use]
pub fn window_max(cores: usize) -> u64 {
    let cores = u64::try_from(cores).unwrap_or(u64::MAX);
    let carried = cores.saturating_mul(WINDOW_PER_CORE);
    carried.clamp(WINDOW_MAX_LEAST, WINDOW_MAX)
}

/// Bytes of a window for each core.
///
/// Mount and reader cost 0.8 CPU s/GB, so one core carries 140 MB in the 113 ms that S3 takes for a
/// part.
const WINDOW_PER_CORE: u64 = 128 << 20;

/// Largest prefetch window of one stream on one and two cores.
///
/// A store 20 ms away that sends 90 MB/s on each connection, on the same two cores: 1.45 GB/s at
/// 0.55 CPU s/GB with 345 MiB; with windows of 512 MiB, which leave the caches, 1.26 GB/s at 0.67
/// with 610 MiB.
const WINDOW_MAX_LEAST: u64 = 256 << 20;

/// Largest WRITE as a share of the memory: one in so many bytes.
const WRITE_SIZE_SHARE: u64 = 2048;

/// FUSE's `max_background` on up to 8 cores.
///
/// The value bounds asynchronous direct reads, too: 4 KiB reads 128 deep from a store 20 ms away
/// came to 2,600 a second with 64, mountpoint-s3's value, and to 4,600 with 128; 256 measured no
/// faster on two cores, and streams through the page cache are as fast with either.
pub const MAX_BACKGROUND_MIN: u16 = 128;

/// Session threads on up to 24 cores. They never wait for S3; four measured as fast as sixteen on 2
/// and on 16 cores.
pub const SESSION_THREADS_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_machines_have_more_up_to_a_bound() {
        for (cores, threads, workers, background, window_mib) in [
            (1, 4, 2, 128, 256),
            (2, 4, 2, 128, 256),
            (3, 4, 2, 128, 384),
            (8, 4, 2, 128, 512),
            (16, 4, 2, 256, 512),
            (32, 5, 2, 512, 512),
            (96, 16, 6, 1024, 512),
            (192, 16, 8, 1024, 512),
            (usize::MAX, 16, 8, 1024, 512),
        ] {
            assert_eq!(window_max(cores), window_mib << 20, "{cores}");
            assert_eq!(session_threads(cores, 16), threads, "{cores}");
            assert_eq!(runtime_threads(cores), workers, "{cores}");
            assert_eq!(max_background(cores), background, "{cores}");
        }
        assert_eq!(session_threads(96, 1), 1);
        assert_eq!(session_threads(96, 0), 1);
        assert_eq!(session_threads(96, 32), 16);
    }

    #[test]
    fn writes_are_small_where_memory_is() {
        for (mib, kib) in [
            (0, 64),
            (128, 64),
            (256, 128),
            (512, 256),
            (1000, 256),
            (2048, 1024),
            (1 << 20, 1024),
        ] {
            assert_eq!(write_max(mib << 20), kib << 10, "{mib}");
        }
    }
}
