//! Checkpoints of uploads, of a disk that others can write.

use super::checkpoint_lines::{begun, decode, finished};
use crate::file::commit::sum;

/// A checkpoint: as it is, then each line with the checksum that it should have.
pub(crate) fn checkpoint(data: &[u8]) {
    check(data);
    let lines = data.split_inclusive(|byte| *byte == b'\n');
    let right = lines.flat_map(|line| {
        let json = line.get(17..).unwrap_or_default();
        let end = json.strip_suffix(b"\n").unwrap_or(json);
        [format!("{:016x} ", sum(end)).as_bytes(), json].concat()
    });
    check(&right.collect::<Vec<_>>());
}

fn check(text: &[u8]) {
    let Some(found) = decode(text) else { return };
    assert!(found.len <= text.len() as u64);
    let whole = &text[..usize::try_from(found.len).unwrap()];
    assert!(whole.ends_with(b"\n"));
    assert_eq!(decode(whole).as_ref(), Some(&found));
    let mut again = begun(&found.begun);
    for part in &found.parts {
        again.extend(finished(part));
    }
    let len = again.len() as u64;
    let mut decoded = decode(&again).unwrap();
    assert_eq!(decoded.len, len);
    decoded.len = found.len;
    assert_eq!(decoded, found);
}
