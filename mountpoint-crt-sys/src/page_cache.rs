//! Reads of files that never wait for a disk.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// Reads from `offset` on what the page cache has, up to `buffer.len()` bytes. Returns how many;
/// `None` if the first byte is not there, or the file system cannot tell.
///
/// # Errors
/// Those of `preadv2`.
pub fn read_if_cached(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
    let offset =
        libc::off_t::try_from(offset).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let slice = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: the one slice is `buffer`, which is borrowed for the call.
    let read = unsafe {
        libc::preadv2(
            file.as_raw_fd(),
            &raw const slice,
            1,
            offset,
            libc::RWF_NOWAIT,
        )
    };
    match usize::try_from(read) {
        Ok(read) => Ok(Some(read)),
        Err(_) => {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EOPNOTSUPP | libc::EINTR) => Ok(None),
                _ => Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::read_if_cached;

    #[test]
    fn what_was_just_written_is_there_or_cannot_be_told() {
        let path = std::env::temp_dir().join(format!("page-cache-{}", std::process::id()));
        let mut file = std::fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(b"0123456789").unwrap();
        let mut buffer = [0; 4];
        if let Some(read) = read_if_cached(&file, &mut buffer, 3).unwrap() {
            assert_eq!(&buffer[..read], &b"3456"[..read]);
        }
        let error = read_if_cached(&file, &mut buffer, u64::MAX).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    }
}
