//! Journals of other processes, which others may have written.

use std::time::{Duration, SystemTime};

use super::file::Content;
use super::line::Line;
use super::state::RENAMES_REMEMBERED_MAX;

/// A file: its entries come back from the lines that a new file gets.
pub(crate) fn lines(data: &[u8]) {
    let content = Content::of(data);
    assert!(content.renames.len() <= RENAMES_REMEMBERED_MAX);
    let mut again = Vec::new();
    if let Some(header) = &content.header {
        header.origin.is_same_host(&header.origin);
        assert!(header.origin.file_name().len() <= 64);
        let line = Line::Journal(header.clone());
        line.append_to(&mut again).unwrap();
    }
    for upload in &content.uploads {
        Line::begun(upload).append_to(&mut again).unwrap();
    }
    for renaming in &content.renames {
        for now in [0, renaming.newest, renaming.begun, u64::MAX] {
            let after = Duration::from_millis(now);
            renaming.is_fresh(SystemTime::UNIX_EPOCH + after);
        }
        assert!(renaming.concerns(&renaming.from));
        let line = Line::Renaming(renaming.clone());
        line.append_to(&mut again).unwrap();
    }
    let read = Content::of(&again);
    assert_eq!(read.header, content.header);
    assert_eq!(read.uploads, content.uploads);
    assert_eq!(
        format!("{:?}", read.renames),
        format!("{:?}", content.renames)
    );
    for upload in &content.uploads {
        let id = upload.upload_id.clone();
        Line::Ended { id }.append_to(&mut again).unwrap();
    }
    for renaming in content.renames {
        renaming.ended().append_to(&mut again).unwrap();
    }
    let ended = Content::of(&again);
    assert!(ended.uploads.is_empty() && ended.renames.is_empty());
}
