//! Opening the cache of a mount, and emptying it at the end.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::cache::{Cache, CacheParts};
use super::directory::CacheDirectory;
use super::eviction::{Room, RoomLimits};
use super::identity::StoreId;
use super::storage::Storage;
use crate::clock::Clock;
use crate::config::CacheConfig;

impl Cache {
    /// Opens the cache that `config` describes, for the objects of `store`. At most `memory_max`
    /// bytes of memory hold what is to be stored. `is_inside` tells whether a path is in the mount
    /// itself.
    ///
    /// # Errors
    /// A text for the user.
    pub fn open(
        config: &CacheConfig,
        store: StoreId,
        memory_max: u64,
        is_inside: &dyn Fn(&Path) -> bool,
        clock: Clock,
    ) -> Result<Arc<Self>, String> {
        let directory = CacheDirectory::open(&config.directory, config.key.as_deref(), is_inside)?;
        let listings = match directory.listings() {
            Ok(folder) => Some(folder),
            Err(error) => {
                tracing::warn!("the cache keeps no listings of directories: {error}");
                None
            }
        };
        let storage = Arc::new(Storage::new(Arc::new(directory)));
        let limits = RoomLimits {
            bytes_max: config.bytes_max,
            ..RoomLimits::default()
        };
        let parts = CacheParts {
            store,
            boot: boot_id(),
            clear_at_exit: config.clear_at_exit,
            listings,
            fill_bytes_max: (memory_max / FILL_MEMORY_SHARE).min(FILL_BYTES_MAX),
        };
        let room = Room::start(Arc::clone(&storage), limits, clock.clone());
        Self::over(storage, room, parts, clock)
            .map_err(|error| format!("cannot start a thread: {error}"))
    }
}

/// Names this boot of the machine. Where the kernel does not tell, each process is a boot of its
/// own, so that nothing counts as compared that another one compared.
fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.unwrap_or_else(|_| format!("process {}", std::process::id()))
}

/// Bytes that wait to be stored are at most this share of the memory for reads.
const FILL_MEMORY_SHARE: u64 = 8;

/// Most bytes that wait to be stored: 25 ms of a disk that writes 2.5 GB/s. More only delays what
/// is dropped where the disk is slower than S3, and is memory that readers lack.
const FILL_BYTES_MAX: u64 = 64 << 20;
