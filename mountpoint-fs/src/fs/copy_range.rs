//! `copy_file_range`: the server copies bytes of one open file to another.

use super::FileSystem;
use crate::operation::{FsError, HandleNo};
use crate::write::CopiedRange;

impl FileSystem {
    /// Copies up to `len` bytes between two places, each a handle and an offset. Returns the number
    /// copied.
    ///
    /// The number is 0 only at the end of the source. [`FsError::Unsupported`] where reads and
    /// writes are better; the kernel then does these by itself.
    pub async fn copy_range(
        &self,
        from: (HandleNo, u64),
        to: (HandleNo, u64),
        len: u64,
    ) -> Result<u64, FsError> {
        let (source, target) = (self.files.get(from.0)?, self.files.get(to.0)?);
        if self.staged.is_some() {
            return Err(FsError::Unsupported(
                "a file that is written in place is copied through this machine",
            ));
        }
        let (ino, (reader, _), _) = source.reading()?;
        let moved = self.moved(ino, reader).await;
        let reader = moved.as_deref().unwrap_or(reader);
        let (key, etag, size) = reader.version();
        let start = from.1.min(size);
        let end = start.saturating_add(len).min(size);
        if start == end {
            return Ok(0);
        }
        let copied = CopiedRange {
            key: key.clone(),
            etag: etag.clone(),
            object_size: size,
            range: start..end,
        };
        let open = self.writer_at(&target, to.1).await?;
        open.written();
        open.writer.copy(to.1, copied).await
    }
}
