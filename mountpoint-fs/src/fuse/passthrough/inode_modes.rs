//! How the open inodes are open: served by this process, or read by the kernel itself.
//!
//! Pure. Linux fails an `open` with EIO that mixes both at one inode, or that names a second
//! backing file of it (`fs/fuse/iomode.c`). Invariant: all opens of an inode are of one mode and,
//! where the kernel reads by itself, of one version and one backing file. An open counts from its
//! reply to its RELEASE, which the kernel sends when it has forgotten the open itself.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;

use crate::operation::{InodeNo, LocalVersion};

/// The modes of all open inodes. `B` is the kernel's hold of a backing file.
#[derive(Debug)]
pub(super) struct InodeModes<B>(HashMap<InodeNo, InodeMode<B>>);

#[derive(Debug)]
enum InodeMode<B> {
    /// Reads and writes come to this process, or were answered from the page cache.
    Served { opens: usize },
    /// The kernel reads `backing`, which has the bytes of `version`.
    PassedThrough {
        opens: usize,
        version: LocalVersion,
        backing: B,
    },
}

/// A file whose last open has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Closed<B> {
    pub(super) backing: B,
    /// Its size in bytes.
    pub(super) size: u64,
}

/// An open that cannot go with the other opens of its inode.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unlike;

impl<B> Default for InodeModes<B> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<B> InodeModes<B> {
    /// Counts an open of `ino`. Returns its backing file, or `None` if this process serves it.
    ///
    /// `local` is what the open reads, if it does nothing else; the first open of an inode decides
    /// by that, and `back` gives the local file to the kernel.
    pub(super) fn open(
        &mut self,
        ino: InodeNo,
        local: Option<&LocalVersion>,
        back: impl FnOnce(&File) -> Option<B>,
    ) -> Result<Option<&B>, Unlike> {
        let mode = match self.0.entry(ino) {
            Entry::Vacant(vacant) => vacant.insert(InodeMode::first(local, back)),
            Entry::Occupied(occupied) => {
                let mode = occupied.into_mut();
                mode.join(local)?;
                mode
            }
        };
        Ok(match mode {
            InodeMode::Served { .. } => None,
            InodeMode::PassedThrough { backing, .. } => Some(backing),
        })
    }

    /// Counts the RELEASE of an open of `ino`. Returns the backing file after the last one.
    pub(super) fn close(&mut self, ino: InodeNo) -> Option<Closed<B>> {
        let Entry::Occupied(mut occupied) = self.0.entry(ino) else {
            return None;
        };
        let (InodeMode::Served { opens } | InodeMode::PassedThrough { opens, .. }) =
            occupied.get_mut();
        *opens -= 1;
        if *opens > 0 {
            return None;
        }
        match occupied.remove() {
            InodeMode::Served { .. } => None,
            InodeMode::PassedThrough {
                backing, version, ..
            } => Some(Closed {
                backing,
                size: version.size,
            }),
        }
    }

    /// Whether the kernel reads the open inode `ino` by itself.
    pub(super) fn is_passed_through(&self, ino: InodeNo) -> bool {
        matches!(self.0.get(&ino), Some(InodeMode::PassedThrough { .. }))
    }
}

impl<B> InodeMode<B> {
    /// The mode of an inode that was not open.
    fn first(local: Option<&LocalVersion>, back: impl FnOnce(&File) -> Option<B>) -> Self {
        let with_file = local.and_then(|local| Some((local, local.file.as_ref()?)));
        let backed = with_file.and_then(|(local, file)| Some((local, back(file)?)));
        match backed {
            None => Self::Served { opens: 1 },
            Some((local, backing)) => Self::PassedThrough {
                opens: 1,
                // The kernel holds the file from now on.
                version: LocalVersion {
                    file: None,
                    ..local.clone()
                },
                backing,
            },
        }
    }

    /// One more open of the inode.
    fn join(&mut self, local: Option<&LocalVersion>) -> Result<(), Unlike> {
        match self {
            Self::Served { opens } => *opens += 1,
            Self::PassedThrough { opens, version, .. } => {
                // The local file may be gone by now: the kernel still has it.
                local.filter(|local| local.is_same(version)).ok_or(Unlike)?;
                *opens += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mountpoint_client::types::ETag;

    use super::*;

    const INO: InodeNo = InodeNo(7);

    fn version(etag: &str, has_file: bool) -> LocalVersion {
        let file = || Arc::new(tempfile::tempfile().unwrap());
        LocalVersion {
            etag: ETag::from_header(etag),
            size: 5,
            file: has_file.then(file),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "what a close returns")]
    fn closed(backing: i32) -> Option<Closed<i32>> {
        Some(Closed { backing, size: 5 })
    }

    /// Modes whose backing files are numbered.
    #[derive(Default)]
    struct Modes {
        modes: InodeModes<i32>,
        last: i32,
    }

    impl Modes {
        fn open(&mut self, local: Option<&LocalVersion>) -> Result<Option<i32>, Unlike> {
            let last = &mut self.last;
            let back = |_: &File| {
                *last += 1;
                Some(*last)
            };
            self.modes
                .open(INO, local, back)
                .map(Option::<&i32>::copied)
        }
    }

    #[test]
    fn the_first_open_decides_and_the_last_close_ends_it() {
        let mut modes = Modes::default();
        let (whole, not_whole) = (version("1", true), version("1", false));
        for number in 1..=2 {
            assert_eq!(modes.open(Some(&whole)), Ok(Some(number)));
            assert!(modes.modes.is_passed_through(INO));
            assert_eq!(modes.open(Some(&whole)), Ok(Some(number)), "one file");
            assert_eq!(modes.open(Some(&not_whole)), Ok(Some(number)), "evicted");
            assert_eq!(modes.modes.close(INO), None);
            assert_eq!(modes.modes.close(INO), None);
            assert_eq!(modes.modes.close(INO), closed(number));
            assert!(!modes.modes.is_passed_through(INO));
        }
        assert_eq!(modes.open(Some(&not_whole)), Ok(None));
        assert_eq!(modes.open(Some(&whole)), Ok(None), "it became whole later");
        assert_eq!(modes.open(None), Ok(None));
        for _ in 0..3 {
            assert!(!modes.modes.is_passed_through(INO));
            assert_eq!(modes.modes.close(INO), None);
        }
        assert_eq!(modes.open(Some(&whole)), Ok(Some(3)));
    }

    #[test]
    fn opens_that_could_change_the_file_or_see_another_version_are_refused() {
        let mut modes = Modes::default();
        assert_eq!(modes.open(Some(&version("1", true))), Ok(Some(1)));
        assert_eq!(modes.open(None), Err(Unlike));
        assert_eq!(modes.open(Some(&version("2", true))), Err(Unlike));
        let shorter = LocalVersion {
            size: 4,
            ..version("1", true)
        };
        assert_eq!(modes.open(Some(&shorter)), Err(Unlike));
        assert_eq!(modes.open(Some(&version("\"1\"", true))), Ok(Some(1)));
        assert_eq!(modes.modes.close(INO), None);
        assert_eq!(
            modes.modes.close(INO),
            closed(1),
            "refused opens do not count"
        );
    }

    #[test]
    fn a_file_that_the_kernel_does_not_take_is_served() {
        let mut modes = InodeModes::<i32>::default();
        let whole = version("1", true);
        assert_eq!(modes.open(INO, Some(&whole), |_| None), Ok(None));
        assert_eq!(modes.open(INO, Some(&whole), |_| Some(1)), Ok(None));
        assert_eq!((modes.close(INO), modes.close(INO)), (None, None));
        assert_eq!(modes.close(INO), None, "never opened");
    }
}
