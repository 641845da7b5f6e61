//! The bytes of a checkpoint: an unfinished upload, and the parts that S3 has of it.
//!
//! ```text
//! 16 digits CRC64NVME of the rest, a space, JSON, a line feed: the upload, with the format
//! the same for each part, in the order in which S3 got them
//! ```
//!
//! A line that is cut or damaged ends the file. A part without a line is sent again, so no sync
//! keeps an order.

use mountpoint_client::types::{
    Checksum, ChecksumAlgorithm, ETag, Key, Part, PartNumber, Upload as OpenUpload,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::file::commit::{HeadersRecord, sum};
use crate::write::{BegunUpload, FinishedPart, PartContent};

/// A checkpoint that an earlier process has left.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::file) struct FoundCheckpoint {
    pub(in crate::file) begun: BegunUpload,
    pub(super) parts: Vec<FinishedPart>,
    /// Bytes of the file that are whole lines.
    pub(super) len: u64,
}

#[derive(Deserialize, Serialize)]
struct UploadLine {
    /// [`FORMAT`]; a checkpoint of another one is not used.
    format: u32,
    key: String,
    upload_id: String,
    headers: HeadersRecord,
    checksum: Option<AlgorithmName>,
}

#[derive(Deserialize, Serialize)]
struct PartLine {
    number: u16,
    size: u64,
    etag: String,
    checksum: Option<(AlgorithmName, u64)>,
    content: ContentLine,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum AlgorithmName {
    Crc32c,
    Crc64Nvme,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum ContentLine {
    /// CRC64NVME of the bytes.
    Bytes(u64),
    /// A range of a version of an object.
    Copy {
        key: String,
        etag: String,
        start: u64,
        end: u64,
    },
}

/// The line of a new upload.
pub(super) fn begun(begun: &BegunUpload) -> Vec<u8> {
    line(&UploadLine {
        format: FORMAT,
        key: begun.upload.key.to_string(),
        upload_id: begun.upload.upload_id.clone(),
        headers: HeadersRecord::from(begun.headers.clone()),
        checksum: begun.checksum.map(|algorithm| match algorithm {
            ChecksumAlgorithm::Crc32c => AlgorithmName::Crc32c,
            ChecksumAlgorithm::Crc64Nvme => AlgorithmName::Crc64Nvme,
        }),
    })
}

/// The line of a part.
pub(super) fn finished(finished: &FinishedPart) -> Vec<u8> {
    let part = &finished.part;
    line(&PartLine {
        number: part.number.0,
        size: part.size,
        etag: part.etag.as_str().to_owned(),
        checksum: part.checksum.map(|checksum| match checksum {
            Checksum::Crc32c(sum) => (AlgorithmName::Crc32c, u64::from(sum)),
            Checksum::Crc64Nvme(sum) => (AlgorithmName::Crc64Nvme, sum),
        }),
        content: match &finished.content {
            PartContent::Bytes(sum) => ContentLine::Bytes(*sum),
            PartContent::Copy { key, etag, range } => ContentLine::Copy {
                key: key.to_string(),
                etag: etag.as_str().to_owned(),
                start: range.start,
                end: range.end,
            },
        },
    })
}

/// The upload in `text`, with its parts; `None` if the first line is not whole.
pub(super) fn decode(text: &[u8]) -> Option<FoundCheckpoint> {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next()?;
    let upload: UploadLine = parse(first)?;
    if upload.format != FORMAT {
        return None;
    }
    let begun = BegunUpload {
        upload: OpenUpload {
            key: Key::parse(&upload.key)?,
            upload_id: upload.upload_id,
        },
        headers: upload.headers.into(),
        checksum: upload.checksum.map(|name| match name {
            AlgorithmName::Crc32c => ChecksumAlgorithm::Crc32c,
            AlgorithmName::Crc64Nvme => ChecksumAlgorithm::Crc64Nvme,
        }),
    };
    let mut len = first.len() as u64;
    let parts = lines.map_while(|line| {
        let part = part(parse(line)?)?;
        len += line.len() as u64;
        Some(part)
    });
    Some(FoundCheckpoint {
        begun,
        parts: parts.collect(),
        len,
    })
}

fn part(line: PartLine) -> Option<FinishedPart> {
    let checksum = match line.checksum {
        None => None,
        Some((AlgorithmName::Crc32c, sum)) => Some(Checksum::Crc32c(u32::try_from(sum).ok()?)),
        Some((AlgorithmName::Crc64Nvme, sum)) => Some(Checksum::Crc64Nvme(sum)),
    };
    Some(FinishedPart {
        part: Part {
            number: PartNumber(line.number),
            etag: ETag::from_header(&line.etag),
            size: line.size,
            checksum,
        },
        content: match line.content {
            ContentLine::Bytes(sum) => PartContent::Bytes(sum),
            ContentLine::Copy {
                key,
                etag,
                start,
                end,
            } => PartContent::Copy {
                key: Key::parse(&key)?,
                etag: ETag::from_header(&etag),
                range: start..end,
            },
        },
    })
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let json = serde_json::to_string(value).unwrap_or_default();
    format!("{:016x} {json}\n", sum(json.as_bytes())).into_bytes()
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (digits, json) = line.split_once(' ')?;
    let is_whole = u64::from_str_radix(digits, 16).ok()? == sum(json.as_bytes());
    is_whole.then(|| serde_json::from_str(json).ok()).flatten()
}

/// The format that is written, and the only one that is read.
const FORMAT: u32 = 1;

#[cfg(test)]
mod tests {
    use mountpoint_client::types::ObjectHeaders;

    use super::*;

    fn sample() -> (BegunUpload, Vec<FinishedPart>) {
        let key = Key::parse("a/b").unwrap();
        let begun = BegunUpload {
            upload: OpenUpload {
                key: key.clone(),
                upload_id: "id\n\"1\"".to_owned(),
            },
            headers: ObjectHeaders {
                content_type: Some("text/plain".to_owned()),
                ..ObjectHeaders::default()
            },
            checksum: Some(ChecksumAlgorithm::Crc64Nvme),
        };
        let part = |number, checksum, content| FinishedPart {
            part: Part {
                number: PartNumber(number),
                etag: ETag::from_header("\"tag\""),
                size: 5 << 20,
                checksum,
            },
            content,
        };
        let copy = PartContent::Copy {
            key,
            etag: ETag::from_header("\"base\""),
            range: 7..u64::MAX,
        };
        let crc32c = Some(Checksum::Crc32c(9));
        let crc64 = Some(Checksum::Crc64Nvme(u64::MAX));
        let parts = vec![
            part(1, crc64, PartContent::Bytes(u64::MAX)),
            part(10_000, None, copy),
            part(3, crc32c, PartContent::Bytes(0)),
        ];
        (begun, parts)
    }

    #[test]
    fn a_checkpoint_comes_back_up_to_the_line_that_was_cut_or_damaged() {
        let (upload, parts) = sample();
        let lines: Vec<_> = std::iter::once(begun(&upload))
            .chain(parts.iter().map(finished))
            .collect();
        let text = lines.concat();
        let whole_lines = |len: usize| {
            let ends = lines.iter().scan(0, |end, line| {
                *end += line.len();
                Some(*end)
            });
            ends.take_while(|end| *end <= len).count()
        };
        for len in 0..=text.len() {
            let whole = whole_lines(len);
            let expected = whole.checked_sub(1).map(|count| FoundCheckpoint {
                begun: upload.clone(),
                parts: parts[..count].to_vec(),
                len: lines[..whole].concat().len() as u64,
            });
            assert_eq!(decode(&text[..len]), expected, "{len}");
            if let Some(byte) = text.get(len) {
                let mut damaged = text.clone();
                damaged[len] = byte ^ 1;
                assert_eq!(decode(&damaged), expected, "{len}");
            }
        }
    }

    #[test]
    fn another_format_is_not_used() {
        let (upload, _) = sample();
        let text = String::from_utf8(begun(&upload)).unwrap();
        let json = text[17..]
            .trim_end()
            .replace("\"format\":1", "\"format\":2");
        let other = format!("{:016x} {json}\n", sum(json.as_bytes()));
        assert_eq!(decode(other.as_bytes()), None);
    }
}
