//! Reads of files, and changes of names.

use super::*;

impl Model {
    /// Opens a file for reading, and reads it.
    pub(super) fn hold(&mut self, mount: usize, name: &'static str) -> Option<Held> {
        let fs = Arc::clone(&self.mounts[mount].fs);
        for attempt in 0..2 {
            let ino = match self.lookup(mount, name) {
                Ok(ino) => ino,
                Err(FsError::NotFound) => {
                    assert!(
                        self.has_fault || !self.truth.contains_key(name),
                        "{name} is there"
                    );
                    return None;
                }
                Err(error) => {
                    assert!(self.has_fault, "{name}: {error}");
                    return None;
                }
            };
            let opened = now(fs.open(ino, READ));
            self.settle("an open for reading");
            match opened {
                Ok(opened) => {
                    if !opened.direct_io && !opened.keep_cache {
                        self.pages.remove(&(mount, ino));
                    }
                    let there = self.truth.get(name).cloned();
                    let mut held = Held {
                        mount,
                        ino,
                        opened,
                        content: there.unwrap_or_default(),
                        was_cut: false,
                        is_written: self.writes(mount, name),
                    };
                    let is_there = self.truth.contains_key(name);
                    let read = self.read_held(&mut held);
                    assert!(!read || is_there || held.is_written, "{name} is not there");
                    return Some(held);
                }
                Err(FsError::Stale(_)) if attempt == 0 => {}
                Err(error) => {
                    // A file that is being written may have been renamed since it was stored.
                    let is_open = self.open.iter().any(|open| open.mount == mount);
                    let is_gone = !self.truth.contains_key(name);
                    assert!(is_open || is_gone || self.has_fault, "{name}: {error}");
                    return None;
                }
            }
        }
        None
    }

    /// Reads a whole open file, through the kernel's pages. Returns whether that succeeded.
    pub(super) fn read_held(&mut self, held: &mut Held) -> bool {
        if held.is_written {
            return true;
        }
        let fs = Arc::clone(&self.mounts[held.mount].fs);
        let page = (held.mount, held.ino);
        let is_cached = !held.opened.direct_io;
        let data = match self.pages.get(&page).filter(|_| is_cached) {
            // A reader of an empty file does not fail its writer: the kernel has the new bytes for
            // both, once they were read.
            Some(pages) if held.content.is_empty() && !pages.is_empty() => return true,
            Some(pages) => pages.clone(),
            None => {
                let mut all = Vec::new();
                loop {
                    let read = fs.read(held.opened.handle, all.len() as u64, PIECE_LEN, is_cached);
                    match now(read) {
                        Ok(data) if data.is_empty() => break,
                        Ok(data) => all.extend_from_slice(&data.to_vec()),
                        Err(_) => return false,
                    }
                }
                if is_cached {
                    self.pages.insert(page, all.clone());
                }
                all
            }
        };
        if held.was_cut {
            let (one, two) = (&data, &held.content);
            assert!(one.starts_with(two) || two.starts_with(one));
        } else {
            assert!(
                data == held.content,
                "{} bytes that begin with {:?}, not {} with {:?}",
                data.len(),
                data.first(),
                held.content.len(),
                held.content.first()
            );
        }
        true
    }

    /// Whether the mount has the file open for writing.
    fn writes(&self, mount: usize, name: &str) -> bool {
        let is_its = |open: &Open| open.mount == mount && open.name == name;
        self.open.iter().any(is_its)
    }

    pub(super) fn copy(&mut self, from: usize, to: usize) {
        let Some(index) = self.index(to).filter(|_| !self.held.is_empty()) else {
            return;
        };
        let from = from % self.held.len();
        let (mount, handle) = (self.held[from].mount, self.held[from].opened.handle);
        let open = &self.open[index];
        if open.mount != mount {
            return;
        }
        let (at, to) = (open.content.len() as u64, open.handle);
        let fs = Arc::clone(&self.mounts[mount].fs);
        let copied = now(fs.copy_range((handle, 0), (to, at), u64::MAX >> 1));
        let source = self.held[from].content.clone();
        let open = &mut self.open[index];
        match copied {
            Ok(0) | Err(FsError::Unsupported(_)) => {}
            Ok(len) => {
                let len = usize::try_from(len).unwrap();
                open.content.extend_from_slice(&source[..len]);
                (open.is_dirty, open.was_written) = (true, true);
            }
            Err(_) => open.has_failed = true,
        }
    }

    pub(super) fn touch(&mut self, mount: usize, name: &'static str) {
        let Ok(ino) = self.lookup(mount, name) else {
            return;
        };
        let change = AttributeChange {
            mtime: Some(TimeChange::Now),
            ..AttributeChange::default()
        };
        let tag = self.tag(name);
        drop(now(self.mounts[mount].fs.set_attributes(ino, change)));
        self.note_tag(name, tag.as_ref());
    }

    /// Records that the object's tag may differ from `before` now.
    fn note_tag(&mut self, name: &str, before: Option<&ETag>) {
        let is_other = self.tag(name).as_ref() != before;
        let opens = self.open.iter_mut().filter(|open| open.name == name);
        opens.for_each(|open| open.was_retagged |= is_other);
    }

    pub(super) fn truncate(&mut self, mount: usize, name: &'static str, len: usize) {
        if self.writes(mount, name) {
            return;
        }
        let Ok(ino) = self.lookup(mount, name) else {
            return;
        };
        let change = AttributeChange {
            size: Some(len as u64),
            ..AttributeChange::default()
        };
        let fs = Arc::clone(&self.mounts[mount].fs);
        let is_written = self.mounts[mount]
            .fs
            .parts
            .namespace
            .progress(ino)
            .is_some();
        let tag = self.tag(name);
        let outcome = now(fs.set_attributes(ino, change));
        self.note_tag(name, tag.as_ref());
        let mut cut = self.truth.get(name).cloned().unwrap_or_default();
        if cut.len() == len {
            return;
        }
        cut.resize(len, 0);
        if outcome.is_ok() && !is_written {
            assert!(
                self.actual(name).as_ref() == Some(&cut),
                "{name} is not cut"
            );
        }
        for held in &mut self.held {
            held.was_cut |= (held.mount, held.ino) == (mount, ino);
        }
        match outcome {
            // The kernel truncates its pages likewise.
            Ok(_) => {
                self.pages
                    .entry((mount, ino))
                    .and_modify(|it| it.resize(len, 0));
            }
            Err(_) => drop(self.pages.remove(&(mount, ino))),
        }
        self.may_become(name, Some(cut));
    }

    pub(super) fn unlink(&mut self, mount: usize, name: &'static str) {
        if self.writes(mount, name) {
            return;
        }
        self.lookup(mount, name).ok();
        let outcome = now(self.mounts[mount].fs.unlink(ROOT, OsStr::new(name)));
        if outcome.is_ok() {
            assert!(self.actual(name).is_none(), "{name} is there still");
        }
        self.may_become(name, None);
    }

    pub(super) fn rename(
        &mut self,
        mount: usize,
        (from, to): (&'static str, &'static str),
        is_known: bool,
    ) {
        let fs = Arc::clone(&self.mounts[mount].fs);
        if self.writes(mount, from) || self.writes(mount, to) {
            return;
        }
        let looks_up = !is_known;
        for name in [from, to].into_iter().filter(|_| looks_up) {
            self.lookup(mount, name).ok();
        }
        if from == to {
            return;
        }
        let (old, new) = ((ROOT, OsStr::new(from)), (ROOT, OsStr::new(to)));
        let outcome = now(fs.rename(old, new, RenameMode::Replace, &Stop::never()));
        let moved = self.truth.get(from).cloned();
        let is_there = moved.is_some() && self.actual(to) == moved;
        if outcome.is_ok() {
            assert!(
                is_there && self.actual(from).is_none(),
                "{from} is not {to}"
            );
        }
        if is_there {
            self.may_become(to, moved);
            self.may_become(from, None);
        }
    }
}
