//! Changes of the files that a writer owns.
//!
//! Each tells which worlds there are between its beginning and its end: a kill, or a failure, may
//! leave any of them, and nothing else.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use mountpoint_client::testing::server::synthetic_bytes;
use rand::Rng as _;
use rand::rngs::StdRng;

use super::model::{Content, Files, World};
use super::{any_size, pick};

/// A change of a file or two.
pub(in crate::soak) enum Change {
    /// All bytes, in pieces of some size; a synchronisation behind so many of them.
    Write {
        name: String,
        content: Content,
        piece: usize,
        synced: Option<usize>,
    },
    /// A file beside it that is renamed over it, as editors do.
    Save {
        name: String,
        content: Content,
    },
    Append {
        name: String,
        bytes: Vec<u8>,
    },
    Cut {
        name: String,
        len: usize,
    },
    /// Bytes in the midst of a file, or behind its end.
    Patch {
        name: String,
        at: usize,
        bytes: Vec<u8>,
    },
    Rename {
        from: String,
        to: String,
    },
    Link {
        from: String,
        to: String,
    },
    Copy {
        from: String,
        to: String,
    },
    /// Mode and time, which leave the bytes.
    Dress {
        name: String,
        mode: u32,
    },
    Remove {
        name: String,
    },
}

/// Files of a writer, and the bytes beyond which it rather removes some.
const NAMES: u32 = 30;
const BYTES_MAX: usize = 48 << 20;

/// Largest object that is copied, linked and renamed often.
const MODERATE: usize = 4 << 20;

impl Change {
    /// A change of the files as they are; `version` makes its bytes.
    pub(in crate::soak) fn any(numbers: &mut StdRng, files: &Files, version: u64) -> Self {
        let other = format!("f{}", numbers.random_range(0..NAMES));
        let names = files.names();
        let bytes = |len: u64| synthetic_bytes(version, 0..len);
        if names.is_empty() {
            return Self::any_write(numbers, other, version);
        }
        let name = pick(numbers, &names).clone();
        let content = files.get(&name).unwrap();
        let is_other = name != other;
        if files.len() > BYTES_MAX {
            return Self::Remove { name };
        }
        match numbers.random_range(0..100) {
            0..30 => Self::any_write(numbers, other, version),
            30..40 => Self::Save {
                name: other,
                content: Arc::new(bytes(any_size(numbers))),
            },
            40..50 => Self::Append {
                name,
                bytes: bytes(numbers.random_range(1..200_000)),
            },
            50..56 => Self::Cut {
                name,
                len: numbers.random_range(0..=content.len() + 10_000),
            },
            56..66 => {
                let at = numbers.random_range(0..=content.len() + 5_000);
                Self::Patch {
                    name,
                    at,
                    bytes: bytes(numbers.random_range(1..100_000)),
                }
            }
            66..75 if is_other => Self::Rename {
                from: name,
                to: other,
            },
            75..78 if files.get(&other).is_none() => Self::Link {
                from: name,
                to: other,
            },
            78..84 if is_other && content.len() < MODERATE => Self::Copy {
                from: name,
                to: other,
            },
            84..88 => Self::Dress {
                name,
                mode: *pick(numbers, &[0o600, 0o644, 0o755]),
            },
            _ => Self::Remove { name },
        }
    }

    fn any_write(numbers: &mut StdRng, name: String, version: u64) -> Self {
        let content = Arc::new(synthetic_bytes(version, 0..any_size(numbers)));
        let synced = numbers.random_ratio(1, 8);
        let synced = synced.then(|| numbers.random_range(0..=content.len()));
        let piece = 1 << numbers.random_range(12..21);
        Self::Write {
            name,
            content,
            piece,
            synced,
        }
    }

    pub(in crate::soak) fn text(&self) -> String {
        match self {
            Self::Write {
                name,
                content,
                piece,
                synced,
            } => {
                format!(
                    "writes {name}, {} bytes by {piece}, synced {synced:?}",
                    content.len()
                )
            }
            Self::Save { name, content } => format!("saves {name}, {} bytes", content.len()),
            Self::Append { name, bytes } => format!("appends {} bytes to {name}", bytes.len()),
            Self::Cut { name, len } => format!("cuts {name} to {len} bytes"),
            Self::Patch { name, at, bytes } => {
                format!("writes {} bytes at {at} of {name}", bytes.len())
            }
            Self::Rename { from, to } => format!("renames {from} to {to}"),
            Self::Link { from, to } => format!("links {from} to {to}"),
            Self::Copy { from, to } => format!("copies {from} to {to}"),
            Self::Dress { name, mode } => format!("changes the mode of {name} to {mode:o}"),
            Self::Remove { name } => format!("removes {name}"),
        }
    }

    /// What its names may have in the course of it: the first is the beginning, the last the end.
    pub(in crate::soak) fn worlds(&self, files: &Files) -> Vec<World> {
        let one = |name: &str, content: Content| vec![(name.to_owned(), Some(content))];
        let of = |name: &str| files.get(name).unwrap();
        match self {
            Self::Write {
                name,
                content,
                synced,
                ..
            } => {
                let between = synced.map(|len| one(name, Arc::new(content[..len].to_vec())));
                let mut worlds = vec![files.world(&[name])];
                worlds.extend(between);
                worlds.push(one(name, Arc::clone(content)));
                worlds
            }
            Self::Save { name, content } => {
                let beside = beside(name);
                let (old, new) = (files.get(name), Some(Arc::clone(content)));
                let world = |aside: &Option<Content>, file: &Option<Content>| {
                    vec![
                        (beside.clone(), aside.clone()),
                        (name.clone(), file.clone()),
                    ]
                };
                vec![
                    world(&None, &old),
                    world(&new, &old),
                    world(&new, &new),
                    world(&None, &new),
                ]
            }
            Self::Append { name, bytes } => {
                let all = [of(name).as_slice(), bytes].concat();
                vec![files.world(&[name]), one(name, Arc::new(all))]
            }
            Self::Cut { name, len } => {
                let mut all = of(name).to_vec();
                all.resize(*len, 0);
                vec![files.world(&[name]), one(name, Arc::new(all))]
            }
            Self::Patch { name, at, bytes } => {
                let mut all = of(name).to_vec();
                all.resize(all.len().max(at + bytes.len()), 0);
                all[*at..at + bytes.len()].copy_from_slice(bytes);
                vec![files.world(&[name]), one(name, Arc::new(all))]
            }
            Self::Rename { from, to } => {
                let both = [one(from, of(from)), one(to, of(from))].concat();
                let done = vec![(from.clone(), None), (to.clone(), Some(of(from)))];
                vec![files.world(&[from, to]), both, done]
            }
            Self::Link { from, to } | Self::Copy { from, to } => {
                vec![files.world(&[to]), one(to, of(from))]
            }
            Self::Dress { name, .. } => vec![files.world(&[name])],
            Self::Remove { name } => vec![files.world(&[name]), vec![(name.clone(), None)]],
        }
    }

    pub(in crate::soak) fn make(&self, directory: &Path) -> io::Result<()> {
        let at = |name: &str| directory.join(name);
        match self {
            Self::Write {
                name,
                content,
                piece,
                synced,
            } => {
                let file = File::create(at(name))?;
                write(file, content, *piece, *synced)
            }
            Self::Save { name, content } => {
                let beside = at(&beside(name));
                write(File::create(&beside)?, content, 1 << 16, None)?;
                fs::rename(beside, at(name))
            }
            Self::Append { name, bytes } => {
                let file = OpenOptions::new().append(true).open(at(name))?;
                write(file, bytes, 1 << 16, None)
            }
            Self::Cut { name, len } => {
                let file = OpenOptions::new().write(true).open(at(name))?;
                file.set_len(*len as u64)?;
                close(file)
            }
            Self::Patch {
                name,
                at: place,
                bytes,
            } => {
                let file = OpenOptions::new().read(true).write(true).open(at(name))?;
                file.write_all_at(bytes, *place as u64)?;
                close(file)
            }
            Self::Rename { from, to } => fs::rename(at(from), at(to)),
            Self::Link { from, to } => fs::hard_link(at(from), at(to)),
            Self::Copy { from, to } => {
                let (mut source, mut target) = (File::open(at(from))?, File::create(at(to))?);
                io::copy(&mut source, &mut target)?;
                close(target)
            }
            Self::Dress { name, mode } => {
                use std::os::unix::fs::PermissionsExt as _;
                fs::set_permissions(at(name), fs::Permissions::from_mode(*mode))?;
                File::open(at(name))?.set_modified(std::time::SystemTime::now())
            }
            Self::Remove { name } => fs::remove_file(at(name)),
        }
    }
}

/// The name of a file that is to replace another.
pub(super) fn beside(name: &str) -> String {
    format!(".{name}.new")
}

fn write(mut file: File, bytes: &[u8], piece: usize, synced: Option<usize>) -> io::Result<()> {
    let (first, rest) = bytes.split_at(synced.unwrap_or(0));
    for piece in first.chunks(piece) {
        file.write_all(piece)?;
    }
    if synced.is_some() {
        file.sync_all()?;
    }
    for piece in rest.chunks(piece) {
        file.write_all(piece)?;
    }
    close(file)
}

fn close(file: File) -> io::Result<()> {
    nix::unistd::close(file).map_err(io::Error::from)
}
