//! Which files are opened next.
//!
//! Pure: sees names, in the order of their directory, and says which to ask for. A *run* is a place
//! in a directory where files are opened one behind the other, by one process or by several that
//! share the work, so nearly in order. A file that is opened where no run is begins one. How far a
//! run is asked ahead grows with what it has shown; where too many files are left out it is not
//! asked ahead at all.
//!
//! Invariant: the files of a run are in order of name, each once; at most [`RUN_MEMORY`] of them
//! lie behind the newest that was opened, and a bounded number before it.

use std::collections::VecDeque;
use std::sync::Arc;

use mountpoint_client::types::{ETag, Key};

use crate::config::limits::{SIBLING_RUNS_MAX, SIBLINGS_AHEAD_MAX, SIBLINGS_AHEAD_MOUNT_MAX};

/// A file that a listing shows.
#[derive(Clone, Debug)]
pub struct Sibling {
    /// Its name in the directory.
    pub name: Arc<str>,
    /// Its object.
    pub key: Key,
    /// Its version.
    pub etag: ETag,
    /// Size of it, in bytes.
    pub size: u64,
    /// Whether it may be asked for before it is opened: it is small, can be read, and the kernel
    /// has no pages of it.
    pub is_wanted: bool,
}

/// What stands for a file that was asked for is a `T`.
#[derive(Debug)]
pub(super) struct Runs<T> {
    /// The one that was used last is the last.
    runs: Vec<Run<T>>,
    /// Files that were asked for and not opened yet, of all runs.
    asked: usize,
}

#[derive(Debug)]
struct Run<T> {
    /// Prefix of its keys.
    directory: Arc<str>,
    files: VecDeque<File<T>>,
    /// Index of the last file, in order of name, that was opened.
    newest: usize,
    /// Whether no listing knows what is behind the last file.
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
    /// May be asked for.
    Wanted(Sibling),
    /// Has to be opened without that.
    Plain,
    Asked(T),
}

/// What a run lacks to be asked ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lack {
    /// The name behind which files are to be told.
    pub(super) behind: Arc<str>,
    /// How many.
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
    /// What was asked for of the file `name` of `directory`, which is being opened.
    pub(super) fn take(&mut self, directory: &str, name: &str) -> Option<T> {
        let found = self.runs.iter_mut().find_map(|run| {
            let index = run.index_of(directory, name)?;
            run.files[index].take()
        });
        self.asked -= usize::from(found.is_some());
        found
    }

    /// The file `name` of `directory` was opened. Returns whether that was in order, and for the
    /// first time. What nobody will come to goes to
    /// `removed`.
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

    /// What the run that was used last lacks.
    pub(super) fn lack(&self) -> Option<Lack> {
        self.runs.last().and_then(Run::lack)
    }

    /// Tells what is behind the last file of the run that was used last, as far as it is known and
    /// was asked for; if that run is still the one.
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

    /// Has `ask` ask for the files that the run that was used last comes to next, until that is
    /// enough or it says no.
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
            // Another run has been there, or will be.
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

    /// Forgets all that nobody uses any more.
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

    /// How many files may be asked ahead: as many as were opened of those that are remembered,
    /// unless every fourth of these was left out.
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
            // A few more, so that not every open asks for one.
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

    /// What it was asked with; it is not asked for again.
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

/// Files of a run that are remembered behind the newest.
const RUN_MEMORY: usize = 64;
/// Files in front of the newest up to which an open belongs to a run: as many workers may share
/// one.
const RUN_STEP_MAX: usize = 16;
/// Files that are opened in order before the next ones are asked for.
const RUN_MIN: usize = 4;
