//! Listings of the bucket, from an index.
//!
//! Pure but for the reads of blocks. As S3 does it: keys behind a place, in order, of which those
//! that share a prefix up to the delimiter are one entry.

use mountpoint_client::types::{ListOutput, ListRequest};

use super::file::DiskWait;
use super::{IndexError, IndexFile};

impl IndexFile {
    /// The answer to `request`.
    ///
    /// # Errors
    /// A block is damaged, cannot be read, or is not in memory.
    pub fn list(&self, request: &ListRequest, wait: DiskWait) -> Result<ListOutput, IndexError> {
        let ListRequest {
            prefix,
            delimiter,
            start_after,
            continuation_token,
            max_keys,
        } = request;
        let max_keys = usize::from(max_keys.unwrap_or(PAGE_KEYS).min(PAGE_KEYS));
        let mut output = ListOutput::default();
        let start = match (continuation_token, start_after) {
            (Some(token), _) => token.as_bytes().to_vec(),
            (None, Some(key)) => behind(key),
            (None, None) => Vec::new(),
        };
        let mut cursor = self.cursor(wait);
        let mut is_there = max_keys > 0 && cursor.seek(prefix.as_bytes().max(&start))?;
        while is_there && cursor.key_bytes().starts_with(prefix.as_bytes()) {
            let key = cursor.key()?;
            let is_full = output.objects.len() + output.common_prefixes.len() == max_keys;
            if is_full {
                output.continuation_token = Some(key.to_owned());
                break;
            }
            let common = delimiter.as_deref().and_then(|delimiter| {
                let at = key[prefix.len()..].find(delimiter)?;
                Some(key[..prefix.len() + at + delimiter.len()].to_owned())
            });
            match common {
                None => {
                    output.objects.push(cursor.object()?);
                    is_there = cursor.advance()?;
                }
                Some(common) => {
                    is_there = match behind_all(&common) {
                        Some(next) => cursor.seek(&next)?,
                        None => false,
                    };
                    output.common_prefixes.push(common);
                }
            }
        }
        Ok(output)
    }
}

/// The first key behind `key`.
fn behind(key: &str) -> Vec<u8> {
    [key.as_bytes(), b"\0"].concat()
}

/// Where the keys end that begin with `prefix`; `None` for nowhere.
fn behind_all(prefix: &str) -> Option<Vec<u8>> {
    let mut bytes = prefix.as_bytes().to_vec();
    while let Some(last) = bytes.pop() {
        if let Some(next) = last.checked_add(1) {
            bytes.push(next);
            return Some(bytes);
        }
    }
    None
}

/// Entries of a page, as S3 has them.
const PAGE_KEYS: u16 = 1000;
