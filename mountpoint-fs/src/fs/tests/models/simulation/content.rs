//! What a file has.

use std::fmt;

/// Bytes of a file: runs of versions, each from the end of the one before on.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Content(Vec<(usize, u16)>);

impl Content {
    /// `len` bytes of version `number`.
    pub(super) fn whole(number: u16, len: usize) -> Self {
        Self::default().written(0, len, number)
    }

    pub(super) fn len(&self) -> usize {
        self.0.last().map_or(0, |(end, _)| *end)
    }

    /// With `len` bytes of version `number` from `at` on; zeros before them, if it is shorter.
    pub(super) fn written(&self, at: usize, len: usize, number: u16) -> Self {
        let mut written = self.cut(at);
        written.push(at + len, number);
        let mut begin = 0;
        for (end, number) in &self.0 {
            if *end > at + len {
                written.push(*end, *number);
            }
            begin = *end;
        }
        debug_assert_eq!(begin, self.len());
        written
    }

    /// The first `len` bytes; with zeros behind them, if there are fewer.
    pub(super) fn cut(&self, len: usize) -> Self {
        let mut cut = Self::default();
        for (end, number) in &self.0 {
            cut.push((*end).min(len), *number);
        }
        cut.push(len, 0);
        cut
    }

    /// The first bytes, `most` at most.
    pub(super) fn bytes(&self, most: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (end, number) in &self.0 {
            let digits = number.to_be_bytes();
            bytes.extend((bytes.len()..(*end).min(most)).map(|at| digits[at % 2]));
        }
        bytes
    }

    /// Whether `bytes`, read from the front on, may be those of the file.
    pub(super) fn begins_as(&self, bytes: &[u8]) -> bool {
        self.len().min(READ) == bytes.len() && self.bytes(READ) == bytes
    }

    fn push(&mut self, end: usize, number: u16) {
        if end <= self.len() {
            return;
        }
        match self.0.last_mut() {
            Some((last, its)) if *its == number => *last = end,
            _ => self.0.push((end, number)),
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().copied()).finish()
    }
}

/// Bytes that a program reads of a file, from its front on.
pub(super) const READ: usize = 4096;

#[test]
fn a_content_is_written_and_cut() {
    let content = Content::whole(0x0102, 5);
    assert_eq!(content.bytes(99), [1, 2, 1, 2, 1]);
    let edited = content.written(2, 2, 0x0304);
    assert_eq!(edited.bytes(99), [1, 2, 3, 4, 1]);
    assert_eq!(edited.cut(3).bytes(99), [1, 2, 3]);
    assert_eq!(edited.cut(7).bytes(6), [1, 2, 3, 4, 1, 0]);
    assert_eq!(
        content.written(7, 1, 0x0506).bytes(99),
        [1, 2, 1, 2, 1, 0, 0, 6]
    );
    assert!(edited.begins_as(&edited.bytes(READ)));
}
