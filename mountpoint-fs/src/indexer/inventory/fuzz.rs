//! Inventories, which others may have written.

use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use mountpoint_client::types::Key;

use super::manifest::Manifest;
use super::{Columns, parquet, read_csv};
use crate::fuzz::memory_file;

/// The names of columns in a line, and behind it a file, which may be compressed.
pub(crate) fn csv(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let names = parts
        .next()
        .and_then(|names| std::str::from_utf8(names).ok());
    let columns = names.and_then(|names| names.parse::<Columns>().ok());
    let Some((columns, rows)) = columns.zip(parts.next()) else {
        return;
    };
    let file = memory_file(rows);
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let mut taken = 0;
    let read = read_csv(&path, &columns, "a", &mut |entry| {
        assert!(Key::parse(&entry.key).is_some() && entry.key.starts_with('a'));
        taken += 1;
        match taken < ROWS_MAX {
            true => Ok(()),
            false => Err(String::new()),
        }
    });
    drop(read);
}

/// A manifest.
pub(crate) fn manifest(data: &[u8]) {
    let file = memory_file(data);
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    if let Ok(manifest) = Manifest::read(&path) {
        assert!(manifest.files.iter().all(|file| file.is_file()));
    }
}

/// A file in Parquet, whose reader may panic: the panic is caught, and is no fault.
pub(crate) fn parquet(data: &[u8]) {
    let file = memory_file(data);
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let mut taken = 0;
    // A fuzzer ends the process at each panic.
    #[cfg(fuzzing)]
    let hook = {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        hook
    };
    let read = parquet::read(&path, "", &mut |entry| {
        assert!(Key::parse(&entry.key).is_some());
        taken += 1;
        match taken < ROWS_MAX {
            true => Ok(()),
            false => Err(String::new()),
        }
    });
    #[cfg(fuzzing)]
    std::panic::set_hook(hook);
    drop(read);
}

/// Rows that are read: a compressed file may have very many.
const ROWS_MAX: usize = 100;
