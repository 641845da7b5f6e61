//! The bytes of an object, and how a range of them is served without a copy.
//!
//! Content is immutable and cheap to clone: replacing an object never disturbs a body that is being
//! sent.

use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use s3s::StdError;
use s3s::dto::StreamingBlob;
use s3s::stream::{ByteStream, RemainingLength};

use super::synthetic::{self, PIECE_SIZE};

/// Bytes of an object.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// Stored bytes.
    Stored(Bytes),
    /// Bytes that were received and are those of the repeated synthetic block from `place` on.
    Recognised { place: u64, len: u64 },
    /// Bytes `start..start + len` of the synthetic object of `seed`.
    Synthetic { seed: u64, start: u64, len: u64 },
    /// The parts of a multipart upload, one after the other.
    Joined(Box<Joined>),
}

/// Contents in a row.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    contents: Vec<Content>,
    /// Where each of `contents` ends.
    ends: Vec<u64>,
}

impl Content {
    /// `contents`, one after the other.
    pub(crate) fn join(contents: Vec<Self>) -> Self {
        let ends = contents.iter().scan(0, |end, content| {
            *end += content.size();
            Some(*end)
        });
        let ends = ends.collect();
        Self::Joined(Box::new(Joined { contents, ends }))
    }

    /// This and `more` behind it.
    pub(crate) fn with(&self, more: Self) -> Self {
        let mut contents = match self {
            Self::Joined(joined) => joined.contents.clone(),
            _ => vec![self.clone()],
        };
        contents.push(more);
        Self::join(contents)
    }

    /// Size in bytes.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Stored(bytes) => bytes.len() as u64,
            Self::Recognised { len, .. } | Self::Synthetic { len, .. } => *len,
            Self::Joined(joined) => joined.ends.last().copied().unwrap_or(0),
        }
    }

    /// A part of it. The range must lie within.
    pub(crate) fn slice(&self, range: Range<u64>) -> Self {
        assert!(range.start <= range.end);
        assert!(range.end <= self.size());
        match self {
            Self::Stored(bytes) => Self::Stored(bytes.slice(index(range.start)..index(range.end))),
            Self::Recognised { place, .. } => Self::Recognised {
                place: place + range.start,
                len: range.end - range.start,
            },
            Self::Synthetic { seed, start, .. } => Self::Synthetic {
                seed: *seed,
                start: start + range.start,
                len: range.end - range.start,
            },
            Self::Joined(joined) => joined.slice(range),
        }
    }

    /// The first piece of the bytes from `offset`: not empty unless `offset` is the end, at most
    /// [`PIECE_SIZE`] long.
    pub(crate) fn piece(&self, offset: u64) -> Bytes {
        match self {
            Self::Stored(bytes) => {
                let start = index(offset);
                bytes.slice(start..bytes.len().min(start + PIECE_SIZE))
            }
            Self::Recognised { place, len } => synthetic::piece_at(place + offset, len - offset),
            Self::Synthetic { seed, start, len } => {
                synthetic::piece(*seed, start + offset, len - offset)
            }
            Self::Joined(joined) => {
                let at = joined.ends.partition_point(|&end| end <= offset);
                match joined.contents.get(at) {
                    Some(content) => content.piece(offset - joined.start_of(at)),
                    None => Bytes::new(),
                }
            }
        }
    }

    /// All of it, piece by piece.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Bytes> {
        let mut offset = 0;
        std::iter::from_fn(move || {
            let piece = self.piece(offset);
            offset += piece.len() as u64;
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// All of it in one buffer, copied unless it is stored in one.
    pub(crate) fn to_bytes(&self) -> Bytes {
        match self {
            Self::Stored(bytes) => bytes.clone(),
            Self::Recognised { .. } | Self::Synthetic { .. } | Self::Joined(_) => {
                let mut bytes = Vec::with_capacity(index(self.size()));
                self.pieces()
                    .for_each(|piece| bytes.extend_from_slice(&piece));
                Bytes::from(bytes)
            }
        }
    }

    /// A body that sends it.
    pub(crate) fn into_body(self) -> StreamingBlob {
        let remaining = self.size();
        StreamingBlob::new(ContentStream {
            content: self,
            offset: 0,
            remaining,
        })
    }
}

impl Joined {
    fn start_of(&self, at: usize) -> u64 {
        at.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    fn slice(&self, range: Range<u64>) -> Content {
        let mut contents = Vec::new();
        for (at, content) in self.contents.iter().enumerate() {
            let start = self.start_of(at);
            let from = range.start.max(start);
            let to = range.end.min(self.ends[at]);
            if from < to {
                contents.push(content.slice(from - start..to - start));
            }
        }
        if contents.len() == 1 {
            contents.remove(0)
        } else {
            Content::join(contents)
        }
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("stored content is in memory")
}

struct ContentStream {
    content: Content,
    offset: u64,
    remaining: u64,
}

impl Stream for ContentStream {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.remaining == 0 {
            return Poll::Ready(None);
        }
        let piece = self.content.piece(self.offset);
        self.offset += piece.len() as u64;
        self.remaining -= piece.len() as u64;
        Poll::Ready(Some(Ok(piece)))
    }
}

impl ByteStream for ContentStream {
    fn remaining_length(&self) -> RemainingLength {
        usize::try_from(self.remaining)
            .map_or_else(|_| RemainingLength::unknown(), RemainingLength::new_exact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slice_of_joined_content_is_the_slice_of_its_bytes() {
        let joined = Content::join(vec![
            Content::Stored(Bytes::from_static(b"hello ")),
            Content::Stored(Bytes::new()),
            Content::Synthetic {
                seed: 3,
                start: 5,
                len: 11,
            },
            Content::Recognised { place: 9, len: 3 },
            Content::Stored(Bytes::from_static(b"!")),
        ]);
        let whole = joined.to_bytes();
        assert_eq!(whole.len(), 21);
        for start in 0..=21 {
            for end in start..=21 {
                let slice = joined.slice(start as u64..end as u64);
                assert_eq!(slice.to_bytes(), whole.slice(start..end), "{start}..{end}");
                assert_eq!(slice.size(), (end - start) as u64);
            }
        }
    }
}
