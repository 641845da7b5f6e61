//! Writing a version that the bucket lacks to a file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use super::description::{Description, KeptPlace};

/// Returns bytes of the base, or a text for the user.
pub(crate) type BaseFetch<'a> = dyn FnMut(Range<u64>) -> Result<Vec<u8>, String> + 'a;

/// Returns local bytes of a version.
pub(crate) type LocalRead<'a> = dyn FnMut(KeptPlace, &Range<u64>) -> io::Result<Vec<u8>> + 'a;

/// Writes the bytes of `version`, of which `read` returns the local ones, to `target`, an empty
/// file. `fetch` returns bytes of the base, which are written as zeros without it.
///
/// # Errors
/// The text of `fetch`, or of the disk.
pub(crate) fn export(
    version: &Description,
    read: &mut LocalRead<'_>,
    target: &File,
    mut fetch: Option<&mut BaseFetch<'_>>,
) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    target.set_len(version.size).map_err(text)?;
    for range in &version.ranges {
        let is_zeros = match range.place {
            KeptPlace::First | KeptPlace::Second => false,
            KeptPlace::Zeros => true,
            KeptPlace::Base => fetch.is_none(),
        };
        // The new file has zeros there, however many they are.
        let mut at = if is_zeros { range.end } else { range.start };
        while at < range.end {
            let piece = at..range.end.min(at.saturating_add(PIECE_LEN));
            at = piece.end;
            let bytes = match (range.place, &mut fetch) {
                (KeptPlace::Base, Some(fetch)) => fetch(piece.clone())?,
                _ => read(range.place, &piece).map_err(text)?,
            };
            target.write_all_at(&bytes, piece.start).map_err(text)?;
        }
    }
    target.sync_all().map_err(text)
}

/// Reads from the data files of a version, where they are.
pub(crate) fn read_files(
    files: &[Option<File>; 2],
    place: KeptPlace,
    range: &Range<u64>,
) -> io::Result<Vec<u8>> {
    let file = match place {
        KeptPlace::First => &files[0],
        KeptPlace::Second => &files[1],
        KeptPlace::Zeros | KeptPlace::Base => &None,
    };
    let missing = || io::Error::new(io::ErrorKind::NotFound, "a data file is missing");
    let len = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
    let mut bytes = vec![0; len];
    file.as_ref()
        .ok_or_else(missing)?
        .read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}

/// Bytes that are in memory at once: those of one READ.
const PIECE_LEN: u64 = 1 << 20;
