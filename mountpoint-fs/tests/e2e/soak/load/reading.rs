//! Ways to read a file: from its beginning, at random places, by a mapping.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rand::Rng as _;
use rand::rngs::StdRng;

use super::hot::Seen;

/// A way to read, chosen before the call begins.
#[derive(Clone, Debug)]
pub(in crate::soak) enum Way {
    /// In pieces of this size, to the end.
    Sequential(usize),
    /// Pieces of so many bytes at places that are drawn from this seed.
    Random { seed: u64, count: u64, len: usize },
    /// As a whole, by a mapping of another process, which may be killed by its mount's end.
    Mapped,
}

/// Most bytes that random reads take at once.
const PIECE_MAX: usize = 256 << 10;

impl Way {
    pub(in crate::soak) fn any(numbers: &mut StdRng) -> Self {
        match numbers.random_range(0..100) {
            0..3 => Self::Mapped,
            3..55 => Self::Sequential(1 << numbers.random_range(12..21)),
            _ => Self::Random {
                seed: numbers.random(),
                count: numbers.random_range(1..20),
                len: numbers.random_range(1..PIECE_MAX),
            },
        }
    }

    /// Reads. What came before an error is in `seen`.
    pub(in crate::soak) fn read(&self, path: &Path, seen: &mut Seen) -> io::Result<()> {
        match self {
            Self::Sequential(len) => sequential(path, *len, seen),
            Self::Random { seed, count, len } => random(path, (*seed, *count, *len), seen),
            Self::Mapped => mapped(path, seen),
        }
    }
}

fn sequential(path: &Path, len: usize, seen: &mut Seen) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut at = 0;
    loop {
        let mut piece = vec![0; len];
        let count = file.read(&mut piece)?;
        if count == 0 {
            seen.size = Some(at);
            return Ok(());
        }
        piece.truncate(count);
        seen.pieces.push((at, piece));
        at += count as u64;
    }
}

fn random(path: &Path, (seed, count, len): (u64, u64, usize), seen: &mut Seen) -> io::Result<()> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut place = seed | 1;
    for _ in 0..count.min(size) {
        place ^= place << 13;
        place ^= place >> 7;
        place ^= place << 17;
        let at = place % size;
        let mut piece = vec![0; len.min(usize::try_from(size - at).unwrap())];
        let mut filled = 0;
        while filled < piece.len() {
            match file.read_at(&mut piece[filled..], at + filled as u64)? {
                // The file became shorter: its size was one of before.
                0 => break,
                more => filled += more,
            }
        }
        piece.truncate(filled);
        seen.pieces.push((at, piece));
    }
    Ok(())
}

const MAPPING: &str = "
import mmap, sys
with open(sys.argv[1], 'rb') as file:
    size = file.seek(0, 2)
    if size:
        sys.stdout.buffer.write(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[:])
";

fn mapped(path: &Path, seen: &mut Seen) -> io::Result<()> {
    let mut command = Command::new("python3");
    command.args(["-c", MAPPING]).arg(path).stdin(Stdio::null());
    let output = command.output()?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        // Python tells the number of a call's error; a page that cannot be read is a signal.
        let number = told.rsplit_once("[Errno ").map(|(_, rest)| rest);
        let number = number.and_then(|rest| rest.split(']').next()?.parse().ok());
        return Err(io::Error::from_raw_os_error(number.unwrap_or(libc::EIO)));
    }
    seen.size = Some(output.stdout.len() as u64);
    seen.pieces.push((0, output.stdout));
    Ok(())
}
