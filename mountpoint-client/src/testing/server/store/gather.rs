//! Keeps the bytes of a body as they come.
//!
//! A benchmark writes gigabytes of synthetic data, which would cost the server more to keep than to
//! receive: memory that is touched for the first time, and a copy into it. So each piece is
//! compared with the synthetic block where the first one was found, and as long as all are what the
//! block holds there, a reference to it is kept. Other bodies are copied into one buffer. Knows
//! nothing of checksums or of senders.
//!
//! Invariant: the content that [`Gather::finish`] returns holds exactly the bytes that came.

use bytes::BytesMut;

use super::content::Content;
use super::synthetic;

/// Most memory that is set aside because of a stated length, before any byte has come.
const RESERVE_MAX: u64 = 64 << 20;

/// The bytes that came so far.
#[derive(Debug)]
pub(crate) struct Gather {
    kept: Kept,
    /// The length that the head states.
    stated_len: u64,
}

#[derive(Debug)]
enum Kept {
    Nothing,
    Recognised { place: u64, len: u64 },
    Copied(BytesMut),
}

impl Gather {
    pub(crate) fn new(stated_len: u64) -> Self {
        Self {
            kept: Kept::Nothing,
            stated_len,
        }
    }

    pub(crate) fn len(&self) -> u64 {
        match &self.kept {
            Kept::Nothing => 0,
            Kept::Recognised { len, .. } => *len,
            Kept::Copied(bytes) => bytes.len() as u64,
        }
    }

    pub(crate) fn push(&mut self, piece: &[u8]) {
        let recognised = match &self.kept {
            _ if piece.is_empty() => return,
            Kept::Nothing => synthetic::recognise(piece).map(|place| (place, 0)),
            Kept::Recognised { place, len } => Some((*place, *len)),
            Kept::Copied(_) => None,
        };
        if let Some((place, len)) = recognised
            && synthetic::holds(place + len, piece)
        {
            let len = len + piece.len() as u64;
            self.kept = Kept::Recognised { place, len };
        } else {
            self.copied().extend_from_slice(piece);
        }
    }

    /// The bytes that came so far, in one buffer.
    fn copied(&mut self) -> &mut BytesMut {
        if !matches!(self.kept, Kept::Copied(_)) {
            let reserve = self.stated_len.min(RESERVE_MAX);
            let mut bytes = BytesMut::with_capacity(usize::try_from(reserve).unwrap_or(0));
            if let Kept::Recognised { place, len } = self.kept {
                let before = Content::Recognised { place, len };
                before
                    .pieces()
                    .for_each(|piece| bytes.extend_from_slice(&piece));
            }
            self.kept = Kept::Copied(bytes);
        }
        match &mut self.kept {
            Kept::Copied(bytes) => bytes,
            Kept::Nothing | Kept::Recognised { .. } => unreachable!("it has just been made"),
        }
    }

    pub(crate) fn finish(self) -> Content {
        match self.kept {
            Kept::Nothing => Content::Stored(bytes::Bytes::new()),
            Kept::Recognised { place, len } => Content::Recognised { place, len },
            Kept::Copied(bytes) => Content::Stored(bytes.freeze()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::synthetic::{PERIOD, synthetic_bytes};
    use super::*;

    /// Gathers `bytes` in pieces of some lengths: they come back, as a reference or not.
    #[track_caller]
    fn check(name: &str, bytes: &[u8], recognised: bool) {
        for piece in [64, 1000, 65_536, bytes.len().max(1)] {
            let mut gather = Gather::new(bytes.len() as u64);
            bytes.chunks(piece).for_each(|piece| gather.push(piece));
            assert_eq!(gather.len(), bytes.len() as u64, "{name}");
            let content = gather.finish();
            assert!(content.to_bytes() == bytes, "{name} in pieces of {piece}");
            let is_reference = matches!(content, Content::Recognised { .. });
            assert_eq!(is_reference, recognised, "{name} in pieces of {piece}");
        }
    }

    #[test]
    fn every_body_is_kept_as_it_came() {
        let synthetic = |start, len| synthetic_bytes(7, start..start + len);
        check("nothing", b"", false);
        check("too short to tell", &synthetic(1, 14), false);
        check("text", b"hello world, this is no synthetic content", false);
        check("zeros", &[0; 300_000], false);
        check("from the beginning", &synthetic(0, 300_000), true);
        check("from an odd offset", &synthetic(12_345, 300_001), true);
        check(
            "over the end of the period",
            &synthetic(PERIOD - 1111, 300_000),
            true,
        );
        check(
            "longer than the period",
            &synthetic(3, PERIOD + 99_999),
            true,
        );
        for wrong in [0, 63, 64, 150_000, 299_999] {
            let mut bytes = synthetic(5, 300_000);
            bytes[wrong] ^= 1;
            check("a wrong byte", &bytes, false);
        }
    }
}
