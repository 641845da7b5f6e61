//! Index files, which others may have written.

use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use mountpoint_client::types::{ETag, ListRequest};

use super::coding::{self, pack_hex, put_bytes, put_number, unpack_hex, unzigzag, zigzag};
use super::file::DiskWait;
use super::footer::Footer;
use super::header::FIXED_LEN;
use super::writer::IndexWriter;
use super::{IndexEntry, IndexFile, IndexHeader};
use crate::fuzz::memory_file;
use crate::local_disk::{CHECKSUM_LEN, checksum};

/// A file: its first byte tells which of two, and each three after it a byte that is changed. All
/// checksums are right.
pub(crate) fn file(data: &[u8]) {
    let Some((which, changes)) = data.split_first() else {
        return;
    };
    static FILES: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| [12, 300].map(written));
    let mut bytes = FILES[usize::from(*which % 2)].clone();
    let changes = changes.as_chunks::<3>().0;
    for [low, high, change] in changes {
        let at = usize::from(u16::from_le_bytes([*low, *high]));
        // Changes count from the end, too: the footer and the directory are there.
        let at = match at < bytes.len() {
            true => at,
            false => bytes.len() - 1 - at % bytes.len().min(400),
        };
        bytes[at] ^= change;
    }
    set_right(&mut bytes);
    let found = read(&bytes);
    assert!(!changes.is_empty() || found.is_some());
}

/// The entries of an index with these keys, one a line, come back.
pub(crate) fn entries(data: &[u8]) {
    let lines = data.split(|byte| *byte == b'\n');
    let lines = lines.filter_map(|line| std::str::from_utf8(line).ok());
    let mut keys: Vec<_> = lines
        .filter(|key| (1..=1024).contains(&key.len()))
        .collect();
    keys.sort_unstable();
    keys.dedup();
    let keys = keys.iter().map(|key| (*key).to_owned());
    let entries: Vec<_> = keys
        .enumerate()
        .map(|(at, key)| entry(key, at as u64))
        .collect();
    let found = read(&bytes_of(&entries)).unwrap();
    assert_eq!(found, entries);
}

/// Numbers and texts.
pub(crate) fn coding(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let mut back = Vec::new();
        unpack_hex(&pack_hex(text.as_bytes()), &mut back).unwrap();
        assert_eq!(back, text.as_bytes());
    }
    let mut unpacked = Vec::new();
    unpack_hex(data, &mut unpacked);
    assert!(unpacked.len() <= 2 * data.len());
    let mut at = 0;
    while let Some(number) = coding::number(data, &mut at) {
        let mut bytes = Vec::new();
        put_number(&mut bytes, number);
        assert_eq!(coding::number(&bytes, &mut 0), Some(number));
        assert_eq!(zigzag(unzigzag(number)), number);
    }
    let mut at = 0;
    while let Some(text) = coding::bytes(data, &mut at) {
        let mut bytes = Vec::new();
        put_bytes(&mut bytes, text);
        assert_eq!(coding::bytes(&bytes, &mut 0), Some(text));
    }
}

/// The entries of an index, which are in order and found in each way; `None` if it is damaged.
fn read(bytes: &[u8]) -> Option<Vec<IndexEntry>> {
    let index = IndexFile::of(memory_file(bytes), Path::new("index")).ok()?;
    let mut cursor = index.cursor(DiskWait::Allowed);
    let mut entries: Vec<IndexEntry> = Vec::new();
    while cursor.advance().ok()? {
        let entry = cursor.entry().ok()?;
        cursor.object().ok()?;
        assert!(entries.last().is_none_or(|last| last.key < entry.key));
        entries.push(entry);
    }
    for entry in entries.iter().step_by(entries.len() / 4 + 1) {
        let found = index.find(&entry.key, DiskWait::Allowed).unwrap().unwrap();
        assert_eq!((found.key.as_str(), found.size), (&*entry.key, entry.size));
    }
    let keys: Vec<_> = entries.iter().map(|entry| &*entry.key).collect();
    assert_eq!(list(&index, None), keys);
    let common = |key: &&str| key[..key.find('/').map_or(key.len(), |at| at + 1)].to_owned();
    let mut names: Vec<_> = keys.iter().map(common).collect();
    names.dedup();
    let mut listed = list(&index, Some("/"));
    listed.sort_unstable();
    assert_eq!(listed, names);
    Some(entries)
}

/// All names, page by page.
fn list(index: &IndexFile, delimiter: Option<&str>) -> Vec<String> {
    let mut request = ListRequest {
        delimiter: delimiter.map(str::to_owned),
        max_keys: Some(PAGE_KEYS),
        ..ListRequest::default()
    };
    let mut names = Vec::new();
    loop {
        let page = index.list(&request, DiskWait::Allowed).unwrap();
        let objects = page.objects.iter().map(|it| it.key.as_str().to_owned());
        names.extend(objects);
        names.extend(page.common_prefixes);
        let Some(token) = page.continuation_token else {
            return names;
        };
        let before = request.continuation_token.replace(token);
        assert!(before < request.continuation_token, "a listing goes on");
    }
}

/// The bytes of an index with so many entries.
fn written(count: u64) -> Vec<u8> {
    let key = |number: u64| match number % 3 {
        0 => format!("a/{number:05}/0123456789abcdef{number:016x}.jpg"),
        1 => format!("b{number:05}/some name that is longer"),
        _ => format!("c{number:05}"),
    };
    let mut keys: Vec<_> = (0..count).map(key).collect();
    keys.sort_unstable();
    let entries: Vec<_> = (0..).zip(keys).map(|(at, key)| entry(key, at)).collect();
    bytes_of(&entries)
}

fn entry(key: String, number: u64) -> IndexEntry {
    let etag = match number % 3 {
        0 => format!("\"{:032x}\"", number * 7),
        1 => format!("\"{:032x}-{number}\"", number * 7),
        _ => format!("W/\"{number}\""),
    };
    let mtime = match number % 5 {
        0 => UNIX_EPOCH - Duration::from_secs(number),
        _ => UNIX_EPOCH + Duration::from_secs(1_700_000_000 + number % 1000),
    };
    let is_archived = number.is_multiple_of(3);
    let size = number * 1000;
    IndexEntry::new(key, size, mtime, &ETag::from_header(&etag), is_archived)
}

fn bytes_of(entries: &[IndexEntry]) -> Vec<u8> {
    let header = IndexHeader {
        bucket: "bucket".to_owned(),
        ..IndexHeader::default()
    };
    let mut writer = IndexWriter::new(memory_file(&[]), &header).unwrap();
    for entry in entries {
        writer.push(entry).unwrap();
    }
    let file = writer.finish().unwrap();
    let len = usize::try_from(file.metadata().unwrap().len()).unwrap();
    let mut bytes = vec![0; len];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).unwrap();
    bytes
}

/// Gives all parts of a file the checksums that they should have, as far as they are in the file.
fn set_right(bytes: &mut [u8]) {
    let number = |bytes: &[u8], at: usize| {
        let number = bytes.get(at..).and_then(<[u8]>::first_chunk);
        usize::try_from(number.map_or(0, |it| u64::from_le_bytes(*it))).unwrap()
    };
    let header = u32::from_le_bytes(*bytes[12..].first_chunk().unwrap()) as usize;
    let header = FIXED_LEN + header + CHECKSUM_LEN;
    let footer = bytes.len() - Footer::LEN;
    let (at, len) = (number(bytes, footer), number(bytes, footer + 8));
    let end = at.saturating_add(len);
    if let Some(directory) = bytes.get(at..end.saturating_sub(CHECKSUM_LEN)) {
        let directory = directory.to_vec();
        let (mut place, mut block) = (0, header);
        while let Some(len) = coding::number(&directory, &mut place) {
            let next = block.saturating_add(usize::try_from(len).unwrap());
            seal(bytes, block, next);
            block = next;
            if coding::bytes(&directory, &mut place).is_none() {
                break;
            }
        }
    }
    seal(bytes, at, end);
    seal(bytes, 0, header);
    seal(bytes, footer, footer + 4 * 8 + CHECKSUM_LEN);
}

/// Gives the bytes from `start` on the checksum that they should have before `end`.
fn seal(bytes: &mut [u8], start: usize, end: usize) {
    let part = bytes.get_mut(start..end);
    if let Some((covered, sum)) = part.and_then(|it| it.split_last_chunk_mut::<CHECKSUM_LEN>()) {
        *sum = checksum(&[covered]).to_le_bytes();
    }
}

const PAGE_KEYS: u16 = 100;
