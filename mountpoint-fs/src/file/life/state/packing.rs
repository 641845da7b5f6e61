//! Numbers and texts one behind the other, in as few bytes as they need. Pure.
//!
//! For the memory of one process: what is taken out is what was put in, in that order.

/// Bytes to which values are added.
#[derive(Default)]
pub(super) struct Packer(Vec<u8>);

impl Packer {
    /// Adds a number: seven bits a byte.
    pub(super) fn number(&mut self, mut number: u64) {
        while number > 0x7f {
            self.0.push(low_bits(number) | 0x80);
            number >>= 7;
        }
        self.0.push(low_bits(number));
    }

    /// Adds bytes.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// The values.
    pub(super) fn packed(self) -> Box<[u8]> {
        self.0.into_boxed_slice()
    }
}

/// Values that are taken out.
pub(super) struct Unpacker<'a>(pub(super) &'a [u8]);

impl<'a> Unpacker<'a> {
    /// Takes a number.
    pub(super) fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let (byte, rest) = self.0.split_first().expect("a number was packed");
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return number;
            }
            shift += 7;
        }
    }

    /// Takes bytes.
    pub(super) fn bytes(&mut self) -> &'a [u8] {
        let len = usize::try_from(self.number()).expect("it was the length of bytes");
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        bytes
    }

    /// Takes bytes that are text.
    pub(super) fn text(&mut self) -> &'a str {
        std::str::from_utf8(self.bytes()).expect("a text was packed")
    }
}

fn low_bits(number: u64) -> u8 {
    u8::try_from(number & 0x7f).expect("seven bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_out_as_they_went_in() {
        let numbers = [
            0,
            1,
            127,
            128,
            16_383,
            16_384,
            u64::from(u32::MAX),
            u64::MAX,
        ];
        let texts = ["", "key", &"ü".repeat(300)];
        let mut packer = Packer::default();
        for (number, text) in numbers.iter().zip(texts.iter().cycle()) {
            packer.number(*number);
            packer.bytes(text.as_bytes());
        }
        let packed = packer.packed();
        let mut unpacker = Unpacker(&packed);
        for (number, text) in numbers.iter().zip(texts.iter().cycle()) {
            assert_eq!((unpacker.number(), unpacker.text()), (*number, *text));
        }
        assert!(unpacker.0.is_empty());
    }
}
