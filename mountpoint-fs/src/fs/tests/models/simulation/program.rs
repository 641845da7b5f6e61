//! A program, which knows what its files may be.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

use super::content::READ as READ_MAX;
use super::host::{Host, UPLOAD_DELAY};
use super::*;
use crate::fs::tests::{OPENER, READ};
use crate::handle::Opener;
use crate::operation::{
    AttributeChange, FsError, HandleNo, InodeNo, ReadData, RenameMode, Stop, WriteOptions,
};

const ROOT: InodeNo = InodeNo::ROOT;

/// Steps of a program between two starts of its host.
const STEPS: usize = 5;

pub(super) struct Program {
    /// The states that each of its files may have.
    files: BTreeMap<String, BTreeSet<State>>,
    /// Files that a call has failed to remove or rename, or not: what is written next with
    /// write-back, the upload may find in conflict with that.
    doubtful: BTreeSet<String>,
    /// Its two directories, each of which has one file at most.
    directories: [String; 2],
    number: u32,
}

/// The change of a file between its open and its close.
#[derive(Clone, Copy, Debug)]
enum Edit {
    /// The file is emptied, and then written.
    Whole { number: u16, len: usize },
    /// Some bytes are written, at any place.
    Part { number: u16, at: usize, len: usize },
    /// Bytes are written behind the end.
    Append { number: u16, len: usize },
}

impl Edit {
    fn any(number: u16) -> Self {
        let len = 10 + usize::from(number % 50) * 3;
        match thread_rng().gen_range(0..6) {
            0 => Self::Append { number, len },
            1 => {
                let at = thread_rng().gen_range(0..100);
                Self::Part { number, at, len }
            }
            2 if number.is_multiple_of(8) => Self::Whole {
                number,
                len: LONG_FILE + len,
            },
            _ => Self::Whole { number, len },
        }
    }

    /// What `state` becomes.
    fn of(self, state: &State) -> Content {
        let old = state.clone().unwrap_or_default();
        match self {
            Self::Whole { number, len } => Content::whole(number, len),
            Self::Part { number, at, len } => old.written(at, len, number),
            Self::Append { number, len } => old.written(old.len(), len, number),
        }
    }

    /// Where a file of `size` bytes is written, how many bytes, and the version.
    fn place(self, size: usize) -> (usize, usize, u16) {
        match self {
            Self::Whole { number, len } => (0, len, number),
            Self::Part { number, at, len } => (at, len, number),
            Self::Append { number, len } => (size, len, number),
        }
    }
}

/// A file that is sent in parts.
const LONG_FILE: usize = 5 << 20;

impl Program {
    pub(super) fn new(host: usize, number: u32) -> Self {
        let directories = ["d", "e"].map(|it| format!("{it}-{host}-{number}"));
        let names = ["a", "b"].map(|name| format!("{name}-{host}-{number}"));
        let inside = directories.clone().map(|it| format!("{it}/c"));
        let names = names.into_iter().chain(inside);
        Self {
            files: names.map(|name| (name, BTreeSet::from([None]))).collect(),
            doubtful: BTreeSet::new(),
            directories,
            number: number + 1,
        }
    }

    pub(super) fn run(&mut self, host: &Host) {
        for _ in 0..STEPS {
            if host.is_off() {
                return;
            }
            let (name, other) = (self.any_name(), self.any_name());
            match thread_rng().gen_range(0..10) {
                0..=2 => self.write(host, &name),
                3 => self.rename(host, &name, &other),
                4 => self.remove(host, &name),
                5 => self.read_own(host, &name),
                6 => self.set_len(host, &name),
                7 => self.rename_directory(host),
                // Two programs of one host may mix their bytes, as in any file system.
                8 if self.number == 1 && host.mode != Mode::WriteBack => self.write_shared(host),
                _ => read_others(host),
            }
        }
    }

    fn any_name(&self) -> String {
        let chosen = thread_rng().gen_range(0..self.files.len());
        self.files.keys().nth(chosen).unwrap().clone()
    }

    /// Notes the states `new` of a file; beside those that it may have had if the call `is_unsure`.
    fn may_be(&mut self, name: &str, new: impl IntoIterator<Item = State>, is_unsure: bool) {
        let states = self.files.get_mut(name).unwrap();
        if !is_unsure && !self.doubtful.contains(name) {
            states.clear();
        }
        states.extend(new);
    }

    fn write(&mut self, host: &Host, name: &str) {
        let edit = Edit::any(host.world.number());
        let changed: Vec<_> = self.files[name].iter().map(|it| edit.of(it)).collect();
        changed.iter().for_each(|it| host.world.may_have(it));
        host.writes[0].fetch_add(1, Ordering::SeqCst);
        let written = block_on(edit_file(host, name, self.number, edit));
        host.writes[1].fetch_add(1, Ordering::SeqCst);
        // An acknowledgement that comes behind the power loss reaches nobody.
        let is_sure = written.is_ok() && !host.is_off();
        host.note(|| format!("{name} is written as {edit:?}: {written:?}"));
        self.may_be(name, changed.into_iter().map(Some), !is_sure);
        if !is_sure {
            self.may_be(name, [Some(Content::default())], true);
        }
    }

    fn write_shared(&self, host: &Host) {
        let number = host.world.number();
        let (len, shared) = (10 + usize::from(number % 50), &host.world.shared_file);
        let edit = Edit::Whole { number, len };
        let content = edit.of(&None);
        host.world.may_have(&content);
        let began = shared.now();
        host.writes[0].fetch_add(1, Ordering::SeqCst);
        let name = shared_file::NAME;
        let written = block_on(edit_file(host, name, self.number, edit));
        host.writes[1].fetch_add(1, Ordering::SeqCst);
        let is_off = host.is_off();
        host.note(|| format!("the shared file is written as {number}: {written:?}"));
        shared.wrote(content, began, written.is_ok() && !is_off, is_off);
    }

    fn set_len(&mut self, host: &Host, name: &str) {
        let len = thread_rng().gen_range(0..120);
        let cut = |it: &State| it.as_ref().map(|it| it.cut(len));
        let changed: Vec<_> = self.files[name].iter().map(cut).collect();
        changed
            .iter()
            .flatten()
            .for_each(|it| host.world.may_have(it));
        let Some(at) = Located::look(host, name) else {
            return;
        };
        let change = AttributeChange {
            size: Some(len as u64),
            ..AttributeChange::default()
        };
        host.writes[0].fetch_add(1, Ordering::SeqCst);
        let outcome = match at.file {
            Some(ino) => block_on(host.fs.set_attributes(ino, change)).map(drop),
            None => Err(FsError::NotFound),
        };
        host.writes[1].fetch_add(1, Ordering::SeqCst);
        at.forget(host);
        host.note(|| format!("{name} gets {len} bytes: {outcome:?}"));
        let is_unsure = outcome.is_err() || host.is_off();
        let changed = changed.into_iter().filter(Option::is_some);
        self.may_be(name, changed, is_unsure);
    }

    fn rename(&mut self, host: &Host, from: &str, to: &str) {
        if from == to {
            return;
        }
        let Some(old) = Located::look(host, from) else {
            return;
        };
        let Some(new) = Located::look(host, to) else {
            return old.forget(host);
        };
        let stop = Stop::never();
        let (from_at, to_at) = ((old.parent, leaf(from)), (new.parent, leaf(to)));
        let renamed = block_on(host.fs.rename(from_at, to_at, RenameMode::Replace, &stop));
        old.forget(host);
        new.forget(host);
        let is_unsure = renamed.is_err() || host.is_off();
        host.note(|| format!("{from} is renamed {to}: {renamed:?}"));
        let moved: Vec<State> = self.files[from]
            .iter()
            .filter(|it| it.is_some())
            .cloned()
            .collect();
        if renamed.is_ok() {
            assert!(!moved.is_empty(), "{from} was renamed, and there was none");
        }
        self.doubt(host, is_unsure, [from, to]);
        self.may_be(to, moved, is_unsure);
        self.may_be(from, [None], is_unsure);
    }

    fn rename_directory(&mut self, host: &Host) {
        let [mut from, mut to] = self.directories.clone();
        if thread_rng().r#gen() {
            (from, to) = (to, from);
        }
        let (old, new) = ((ROOT, OsStr::new(&from)), (ROOT, OsStr::new(&to)));
        let known = [look_in(host, ROOT, &from), look_in(host, ROOT, &to)];
        let stop = Stop::never();
        let renamed = block_on(host.fs.rename(old, new, RenameMode::Replace, &stop));
        forget(host, known);
        host.note(|| format!("{from} is renamed {to}, with its file: {renamed:?}"));
        let (from, to) = (format!("{from}/c"), format!("{to}/c"));
        if renamed.is_ok() {
            let was_free = self.files[&to].contains(&None);
            assert!(
                was_free,
                "{to} was there, and was replaced by that of another directory"
            );
        }
        let is_unsure = renamed.is_err() || host.is_off();
        self.doubt(host, is_unsure, [&from, &to]);
        let moved = self.files[&from].clone();
        self.may_be(&to, moved, is_unsure);
        self.may_be(&from, [None], is_unsure);
    }

    fn remove(&mut self, host: &Host, name: &str) {
        let Some(at) = Located::look(host, name) else {
            return;
        };
        let removed = block_on(host.fs.unlink(at.parent, leaf(name)));
        at.forget(host);
        host.note(|| format!("{name} is removed: {removed:?}"));
        let is_unsure = removed.is_err() || host.is_off();
        self.doubt(host, is_unsure, [name]);
        self.may_be(name, [None], is_unsure);
    }

    fn doubt<const N: usize>(&mut self, host: &Host, is_unsure: bool, names: [&str; N]) {
        if is_unsure && host.mode == Mode::WriteBack {
            self.doubtful.extend(names.map(str::to_owned));
        }
    }

    fn read_own(&mut self, host: &Host, name: &str) {
        let Some(found) = block_on(read_whole(host, name)) else {
            return;
        };
        let states = &self.files[name];
        let is_possible = states.iter().any(|state| match (state, &found) {
            (Some(state), Some(bytes)) => state.begins_as(bytes),
            (state, found) => state.is_none() && found.is_none(),
        });
        assert!(is_possible, "{name} is {found:?}, may be {states:?}");
    }

    /// Compares the objects with what they may be.
    pub(super) fn check_bucket(&self, world: &World) {
        for (name, states) in &self.files {
            let object = world.bucket.object(name);
            let found = object.map(|it| it.content.to_vec());
            let is_possible = states
                .iter()
                .any(|state| state.as_ref().map(|it| it.bytes(usize::MAX)) == found);
            let begin = found.map(|it| it[..it.len().min(20)].to_vec());
            assert!(
                is_possible,
                "the bucket's {name} is {begin:?}, may be {states:?}"
            );
        }
    }
}

/// A file's directory, and the file.
struct Located {
    parent: InodeNo,
    file: Option<InodeNo>,
}

impl Located {
    /// Looks a path up, as the kernel does before each call. Nothing if there is no such directory.
    fn look(host: &Host, path: &str) -> Option<Self> {
        let parent = match path.split_once('/') {
            Some((directory, _)) => look_in(host, ROOT, directory)?,
            None => ROOT,
        };
        let file = look_in(host, parent, path.rsplit('/').next().unwrap());
        Some(Self { parent, file })
    }

    fn forget(self, host: &Host) {
        let parent = (self.parent != ROOT).then_some(self.parent);
        forget(host, [self.file, parent]);
    }
}

fn leaf(path: &str) -> &OsStr {
    OsStr::new(path.rsplit('/').next().unwrap())
}

fn look_in(host: &Host, parent: InodeNo, name: &str) -> Option<InodeNo> {
    let looked = block_on(host.fs.lookup(parent, OsStr::new(name)));
    Some(looked.ok()?.attributes.ino)
}

fn forget<const N: usize>(host: &Host, known: [Option<InodeNo>; N]) {
    for ino in known.into_iter().flatten() {
        host.fs.forget(ino, 1);
    }
}

/// The directory of `path`, which is made if it is not there. The caller forgets it.
async fn parent_of(host: &Host, path: &str) -> Result<InodeNo, FsError> {
    let Some((directory, _)) = path.split_once('/') else {
        return Ok(ROOT);
    };
    let directory = OsStr::new(directory);
    let found = match host.fs.lookup(ROOT, directory).await {
        Err(FsError::NotFound) => {
            host.fs
                .make_directory_for(ROOT, directory, 0o755, None)
                .await
        }
        found => found,
    };
    Ok(found?.attributes.ino)
}

async fn edit_file(host: &Host, path: &str, process: u32, edit: Edit) -> Result<(), FsError> {
    let parent = parent_of(host, path).await?;
    let outcome = edit_in(host, (parent, leaf(path)), process, edit).await;
    if parent != ROOT {
        host.fs.forget(parent, 1);
    }
    outcome
}

async fn edit_in(
    host: &Host,
    (parent, name): (InodeNo, &OsStr),
    process: u32,
    edit: Edit,
) -> Result<(), FsError> {
    let fs = &host.fs;
    let options = WriteOptions {
        truncate: matches!(edit, Edit::Whole { .. }),
        append: matches!(edit, Edit::Append { .. }),
        both: !matches!(edit, Edit::Whole { .. }),
        ..WriteOptions::default()
    };
    let opener = Opener {
        process,
        started: 1,
    };
    let (ino, opened) = match fs.lookup(parent, name).await {
        Ok(entry) => {
            let ino = entry.attributes.ino;
            (ino, fs.open_for_writing(ino, options, opener).await)
        }
        Err(FsError::NotFound) => {
            let created = fs.create_for(parent, name, options, opener).await?;
            (created.0.attributes.ino, Ok(created.1))
        }
        Err(error) => return Err(error),
    };
    let outcome = match opened {
        Ok(opened) => {
            let written = write_edit(host, (ino, opened.handle), edit).await;
            let closed = fs.flush(opened.handle, &OPENER).await;
            fs.release(opened.handle);
            written.and(closed)
        }
        Err(error) => Err(error),
    };
    fs.forget(ino, 1);
    outcome
}

async fn write_edit(
    host: &Host,
    (ino, handle): (InodeNo, HandleNo),
    edit: Edit,
) -> Result<(), FsError> {
    // As the kernel, which tells an appending program's place.
    let size = host.fs.attributes(ino).await?.size;
    let (at, len, number) = edit.place(size.try_into().unwrap());
    let bytes = Content::whole(number, at + len).bytes(usize::MAX);
    // No upload has the first half alone.
    let (first, second) = bytes[at..].split_at(len / 2);
    let mut offset = at as u64;
    for half in [first, second] {
        for piece in half.chunks(WRITE_MAX) {
            host.fs.write(handle, offset, piece).await?;
            offset += piece.len() as u64;
        }
        if thread_rng().gen_range(0..4) == 0 {
            host.world.pass(UPLOAD_DELAY * 2);
        }
    }
    Ok(())
}

/// Bytes of the longest WRITE.
const WRITE_MAX: usize = 1 << 20;

/// The first bytes of a file; nothing if they cannot be told.
async fn read_whole(host: &Host, path: &str) -> Option<Option<Vec<u8>>> {
    let fs = &host.fs;
    let (is_beside, begun) = host.writes();
    let parent = match path.split_once('/') {
        None => ROOT,
        Some((directory, _)) => match fs.lookup(ROOT, OsStr::new(directory)).await {
            Ok(entry) => entry.attributes.ino,
            Err(FsError::NotFound) => return Some(None),
            Err(_) => return None,
        },
    };
    let found = match fs.lookup(parent, leaf(path)).await {
        Ok(entry) => {
            let read = read_open(host, path, entry.attributes.ino).await;
            let is_alone = !is_beside && host.writes().1 == begun;
            read.filter(|_| is_alone).map(Some)
        }
        Err(FsError::NotFound) => Some(None),
        Err(_) => None,
    };
    if parent != ROOT {
        fs.forget(parent, 1);
    }
    if let Some(Some(bytes)) = &found {
        let what = format!("host {} in {:?}: {path}", host.number, host.mode);
        host.world.check_whole(&what, bytes);
    }
    found
}

/// The first bytes of the file `ino`, which is forgotten.
async fn read_open(host: &Host, path: &str, ino: InodeNo) -> Option<Vec<u8>> {
    let fs = &host.fs;
    let mut bytes = None;
    if let Ok(opened) = fs.open(ino, READ).await {
        let read = fs
            .read(
                opened.handle,
                0,
                READ_MAX.try_into().unwrap(),
                !opened.direct_io,
            )
            .await;
        host.note(|| format!("{path} is read: {:?}", read.as_ref().map(ReadData::len)));
        bytes = read.ok().map(|it| it.to_vec());
        fs.release(opened.handle);
    }
    fs.forget(ino, 1);
    bytes
}

/// Reads any file of any program.
fn read_others(host: &Host) {
    let (owner, program) = (thread_rng().gen_range(0..2), thread_rng().gen_range(0..2));
    let name = match thread_rng().gen_range(0..4) {
        0 => shared_file::NAME.to_owned(),
        1 => format!("d-{owner}-{program}/c"),
        _ => format!("a-{owner}-{program}"),
    };
    drop(block_on(read_whole(host, &name)));
}
