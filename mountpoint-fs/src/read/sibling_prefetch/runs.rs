//! Predicts which files of a directory will be opened next.
//!
//! Pure: sees the opened names and returns files to fetch. A *run* is a place in a directory where
//! files are opened one after the other, by one process or by several that share the work, so
//! nearly in order. An open outside all runs begins a new one. The prefetch of a run grows with the
//! number of opened files, and stops if too many files are skipped.
//!
//! Invariant: a run has its files in order of name, each once. At most [`RUN_MEMORY`] files lie
//! behind the newest opened one, and a bounded number in front of it.

use std::collections::VecDeque;
use std::sync::Arc;

use mountpoint_client::types::{ETag, Key};

/// A file in a listing.
#[derive(Clone, Debug)]
pub struct Sibling {
    /// The name in the directory.
    pub name: Arc<str>,
    /// The key of the object.
    pub key: Key,
    /// The version of the object.
    pub etag: ETag,
    /// The size in bytes.
    pub size: u64,
    /// Whether the file may be prefetched: it is small and readable, and the kernel has no pages of
    /// it.
    pub is_wanted: bool,
}

/// The runs of a mount. `T` represents a prefetched file.
#[derive(Debug)]
pub(super) struct Runs<T> {
    /// Runs in order of use; the latest is the last.
    runs: Vec<Run<T>>,
    /// Number of files in all runs that were prefetched and not opened yet.
    asked: usize,
}

#[derive(Debug)]
struct Run<T> {
    /// Prefix of the directory's keys.
    directory: Arc<str>,
    files: VecDeque<File<T>>,
    /// Index of the last opened file, in order of name.
    newest: usize,
    /// Whether no listing knows further files.
    is_at_end: bool,
}

#[derive(Debug)]
struct File<T> {
    name: Arc<str>,
    state: FileState<T>,
}

#[derive(Debug)]
enum FileState<T> {
    Opened,
    /// The file may be prefetched.
    Wanted(Sibling),
    /// The file must not be prefetched.
    Plain,
    Asked(T),
}

/// Files that a run needs for its prefetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lack {
    /// The name behind which the files lie.
    pub(super) behind: Arc<str>,
    /// The number of files.
    pub(super) count: usize,
}

impl<T> Default for Runs<T> {
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            asked: 0,
        }
    }
}

impl<T> Runs<T> {
    /// Takes the prefetched file `name` of `directory`, which is being opened.
    pub(super) fn take(&mut self, directory: &str, name: &str) -> Option<T> {
        let found = self.runs.iter_mut().find_map(|run| {
            let index = run.index_of(directory, name)?;
            run.files[index].take()
        });
        self.asked -= usize::from(found.is_some());
        found
    }

    /// Records an open of the file `name` of `directory`. Returns whether it was in order and the
    /// file's first. Moves prefetched files that will not be opened to `removed`.
    pub(super) fn opened(&mut self, directory: &str, name: &str, removed: &mut Vec<T>) -> bool {
        let before = removed.len();
        let nearest = self.runs.iter().enumerate().filter_map(|(place, run)| {
            let index = run.index_of(directory, name)?;
            let distance = index.saturating_sub(run.newest);
            (distance <= RUN_STEP_MAX).then_some((distance, place, index))
        });
        let in_order = match nearest.min() {
            Some((_, place, index)) => {
                let mut run = self.runs.remove(place);
                let is_new = !run.files[index].is_opened();
                run.open(index, removed);
                self.runs.push(run);
                is_new
            }
            None => {
                self.begin(directory, name, removed);
                false
            }
        };
        self.asked -= removed.len() - before;
        in_order
    }

    /// Files that the latest run needs.
    pub(super) fn lack(&self) -> Option<Lack> {
        self.runs.last().and_then(Run::lack)
    }

    /// Adds the `files` behind the last one of the latest run, if they still fit there.
    pub(super) fn extend(&mut self, directory: &str, lack: &Lack, files: Vec<Sibling>) {
        let Some(run) = self.runs.last_mut() else {
            return;
        };
        let is_last = run
            .files
            .back()
            .is_some_and(|last| last.name == lack.behind);
        if is_last && *run.directory == *directory {
            run.is_at_end = files.len() < lack.count;
            run.files.extend(files.into_iter().map(File::listed));
        }
    }

    /// Calls `ask` for the next files of the latest run, until they suffice or `ask` returns
    /// `None`.
    pub(super) fn ask(&mut self, mut ask: impl FnMut(&Sibling) -> Option<T>) {
        let Some((run, others)) = self.runs.split_last_mut() else {
            return;
        };
        let mut room = run.window().saturating_sub(run.asked());
        room = room.min(SIBLINGS_AHEAD_MOUNT_MAX.saturating_sub(self.asked));
        let directory = &run.directory;
        for file in run.files.iter_mut().skip(run.newest + 1) {
            if room == 0 {
                return;
            }
            let FileState::Wanted(next) = &file.state else {
                continue;
            };
            // Another run has opened or prefetched this file.
            let is_others = others
                .iter()
                .any(|other| other.has_dealt_with(directory, &file.name));
            if is_others {
                file.state = FileState::Plain;
                continue;
            }
            let Some(asked) = ask(next) else { return };
            file.state = FileState::Asked(asked);
            self.asked += 1;
            room -= 1;
        }
    }

    /// Drops prefetched files for which `is_used` returns `false`.
    pub(super) fn retain(&mut self, is_used: impl Fn(&T) -> bool, removed: &mut Vec<T>) {
        for run in &mut self.runs {
            for file in &mut run.files {
                if matches!(&file.state, FileState::Asked(asked) if !is_used(asked)) {
                    removed.extend(file.take());
                    self.asked -= 1;
                }
            }
        }
    }

    fn begin(&mut self, directory: &str, name: &str, removed: &mut Vec<T>) {
        if self.runs.len() == SIBLING_RUNS_MAX {
            let oldest = self.runs.remove(0);
            removed.extend(oldest.files.into_iter().filter_map(|mut file| file.take()));
        }
        let known = self.runs.iter().find(|run| *run.directory == *directory);
        let directory =
            known.map_or_else(|| Arc::from(directory), |run| Arc::clone(&run.directory));
        let first = File {
            name: Arc::from(name),
            state: FileState::Opened,
        };
        self.runs.push(Run {
            directory,
            files: VecDeque::from([first]),
            newest: 0,
            is_at_end: false,
        });
    }
}

impl<T> Run<T> {
    fn index_of(&self, directory: &str, name: &str) -> Option<usize> {
        if *self.directory != *directory {
            return None;
        }
        let index = self.files.binary_search_by(|file| (*file.name).cmp(name));
        index.ok()
    }

    fn open(&mut self, index: usize, removed: &mut Vec<T>) {
        removed.extend(self.files[index].take());
        self.files[index].state = FileState::Opened;
        self.newest = self.newest.max(index);
        while self.newest > RUN_MEMORY {
            removed.extend(self.files.pop_front().and_then(|mut file| file.take()));
            self.newest -= 1;
        }
    }

    /// Number of files to prefetch: as many as the remembered opened ones. 0 after too few opens,
    /// or if more than a quarter of the files were skipped.
    fn window(&self) -> usize {
        let seen = self.newest + 1;
        let opened = self.files.iter().take(seen).filter(|file| file.is_opened());
        let opened = opened.count();
        if opened < RUN_MIN || (seen - opened) * 4 > seen {
            return 0;
        }
        opened.min(SIBLINGS_AHEAD_MAX)
    }

    fn asked(&self) -> usize {
        let is_asked = |file: &&File<T>| matches!(file.state, FileState::Asked(_));
        self.files.iter().filter(is_asked).count()
    }

    fn lack(&self) -> Option<Lack> {
        let known = self.files.len() - 1 - self.newest;
        let wanted = self.window() + RUN_STEP_MAX;
        if known >= wanted || self.is_at_end {
            return None;
        }
        Some(Lack {
            behind: Arc::clone(&self.files.back()?.name),
            // Twice as many, so that not every open needs more.
            count: (wanted - known) * 2,
        })
    }

    fn has_dealt_with(&self, directory: &Arc<str>, name: &str) -> bool {
        let is_dealt_with = |index: usize| {
            matches!(
                self.files[index].state,
                FileState::Opened | FileState::Asked(_)
            )
        };
        Arc::ptr_eq(&self.directory, directory)
            && self.index_of(directory, name).is_some_and(is_dealt_with)
    }
}

impl<T> File<T> {
    fn listed(next: Sibling) -> Self {
        Self {
            name: Arc::clone(&next.name),
            state: if next.is_wanted {
                FileState::Wanted(next)
            } else {
                FileState::Plain
            },
        }
    }

    fn is_opened(&self) -> bool {
        matches!(self.state, FileState::Opened)
    }

    /// Takes the prefetched file; it will not be prefetched again.
    fn take(&mut self) -> Option<T> {
        match std::mem::replace(&mut self.state, FileState::Plain) {
            FileState::Asked(asked) => Some(asked),
            other => {
                self.state = other;
                None
            }
        }
    }
}

/// Files of a run to remember behind the newest opened one.
const RUN_MEMORY: usize = 64;
/// Files in front of the newest one within which an open belongs to a run: that many workers may
/// share one.
const RUN_STEP_MAX: usize = 16;
/// Files opened in order before a prefetch begins.
const RUN_MIN: usize = 4;

/// Files of all runs of the mount that are fetched before they are opened.
pub(super) const SIBLINGS_AHEAD_MOUNT_MAX: usize = 256;

/// Runs that are tracked: places in directories where files are opened in order.
///
/// Several workers with files of their own have a run each.
pub(super) const SIBLING_RUNS_MAX: usize = 256;

/// Files of one run that are fetched before they are opened.
///
/// At 20 ms a request they serve one worker that takes 0.3 ms for each.
pub const SIBLINGS_AHEAD_MAX: usize = 64;
