//! A thread that owns a directory of a mount, changes files in it, and knows what they must be.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rand::Rng as _;
use rand::rngs::StdRng;

use super::changes::{Change, beside};
use super::hot::Seen;
use super::model::{Content, Files, World, text};
use super::passing;
use super::pick;
use super::reader::visit;
use super::reading::Way;
use crate::harness::{BUCKET, below};
use crate::soak::Soak;
use crate::soak::place::{Kind, Outcome, Place};

/// A writer with its files. It lives longer than its mounts.
pub(in crate::soak) struct Writer {
    /// Which of the run's places it writes to.
    pub(in crate::soak) place: usize,
    directory: String,
    numbers: StdRng,
    files: Files,
    version: u64,
}

impl Writer {
    pub(in crate::soak) fn new(place: usize, number: u64, numbers: StdRng) -> Self {
        Self {
            place,
            directory: format!("w{number}"),
            numbers,
            files: Files::default(),
            version: number << 32,
        }
    }

    /// Changes and reads files until the run stops.
    pub(in crate::soak) fn run(&mut self, soak: &Soak) {
        let place = &soak.places[self.place];
        while !soak.is_stopped() {
            match self.numbers.random_range(0..100) {
                0..60 => self.change(soak, place),
                60..78 => self.read_back(soak, place),
                78..84 => self.read_elsewhere(soak, place),
                84..88 => self.walk(soak, place),
                _ => passing::any(soak, place, &self.directory, &mut self.numbers),
            }
        }
    }

    fn change(&mut self, soak: &Soak, place: &Place) {
        self.version += 1;
        let change = Change::any(
            &mut self.numbers,
            &self.files,
            soak.settings.seed ^ self.version,
        );
        let worlds = change.worlds(&self.files);
        let what = format!("{}: {}", self.directory, change.text());
        let outcome = soak.call(place, &what, |root| {
            let directory = root.join(&self.directory);
            std::fs::create_dir_all(&directory)?;
            change.make(&directory)
        });
        let end = worlds.last().unwrap();
        match outcome {
            Outcome::Done(()) => {
                let bytes = end.iter().filter_map(|(_, content)| content.as_ref());
                soak.tally.done(bytes.map(|content| content.len()).sum());
                self.files.become_as(end);
            }
            Outcome::Cut | Outcome::Failed(_) => {
                let found = self.found(soak, place, &worlds, &what);
                self.files.become_as(&found);
                self.settle(soak, place, &change);
            }
        }
    }

    /// The world that a change has left that was cut short; none of the possible ones is a loss.
    fn found(&self, soak: &Soak, place: &Place, worlds: &[World], what: &str) -> World {
        let names = worlds[0].iter().map(|(name, _)| name.clone());
        let names: Vec<String> = names.collect();
        let look = |root: &Path| {
            let read = |name: &String| {
                let content = read_if_any(&root.join(&self.directory).join(name))?;
                Ok((name.clone(), content.map(Arc::new)))
            };
            names.iter().map(read).collect::<io::Result<World>>()
        };
        loop {
            let outcome = soak.call(place, &format!("looks after: {what}"), look);
            let Outcome::Done(found) = outcome else {
                if soak.has_failed() {
                    std::panic::resume_unwind(Box::new("given up"));
                }
                continue;
            };
            let texts: Vec<_> = worlds.iter().map(text).collect();
            assert!(
                worlds.contains(&found),
                "{what}: {}, possible: {texts:#?}",
                text(&found)
            );
            return found;
        }
    }

    /// Removes what a cut removal or save has left, whose object may be gone already.
    fn settle(&mut self, soak: &Soak, place: &Place, change: &Change) {
        let name = match change {
            Change::Remove { name } => name.clone(),
            Change::Save { name, .. } => beside(name),
            _ => return,
        };
        while self.files.get(&name).is_some() && !soak.has_failed() {
            let what = format!("{}: removes {name} again", self.directory);
            let outcome = soak.call(place, &what, |root| {
                match std::fs::remove_file(root.join(&self.directory).join(&name)) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    result => result,
                }
            });
            if let Outcome::Done(()) = outcome {
                self.files.become_as(&vec![(name.clone(), None)]);
            }
        }
    }

    fn any_file(&mut self) -> Option<(String, Content)> {
        let names = self.files.names();
        let name = (!names.is_empty()).then(|| pick(&mut self.numbers, &names).clone())?;
        let content = self.files.get(&name)?;
        Some((name, content))
    }

    fn read_back(&mut self, soak: &Soak, place: &Place) {
        let way = Way::any(&mut self.numbers);
        if let Some((name, content)) = self.any_file() {
            self.compare(soak, place, &way, &name, &content);
        }
    }

    /// Reads a file in another mount, which has to show what a close has stored.
    fn read_elsewhere(&mut self, soak: &Soak, place: &Place) {
        let others = soak.places.iter().filter(|other| {
            other.kind != place.kind && other.kind.is_fresh() && place.kind != Kind::WriteBack
        });
        let others: Vec<_> = others.collect();
        let way = Way::any(&mut self.numbers);
        if let Some((name, content)) = self.any_file()
            && !others.is_empty()
        {
            let other = *pick(&mut self.numbers, &others);
            self.compare(soak, other, &way, &name, &content);
        }
    }

    fn compare(&self, soak: &Soak, place: &Place, way: &Way, name: &str, content: &[u8]) {
        let what = format!(
            "reads {}/{name} of {} bytes, {way:?}",
            self.directory,
            content.len()
        );
        let mut seen = Seen::default();
        let path = format!("{}/{name}", self.directory);
        let outcome = soak.call(place, &what, |root| way.read(&root.join(&path), &mut seen));
        for (at, bytes) in &seen.pieces {
            let at = usize::try_from(*at).unwrap();
            let expected = content.get(at..at + bytes.len());
            let len = bytes.len();
            assert!(
                expected == Some(bytes),
                "{} {what}: other bytes in {len} at {at}",
                place.kind.name()
            );
        }
        if let Outcome::Done(()) = outcome {
            let size = seen.size.unwrap_or(content.len() as u64);
            assert!(
                size == content.len() as u64,
                "{} {what}: {size} bytes",
                place.kind.name()
            );
            soak.tally
                .done(seen.pieces.iter().map(|(_, bytes)| bytes.len()).sum());
        }
    }

    /// Compares names and sizes of the directory.
    fn walk(&mut self, soak: &Soak, place: &Place) {
        let outcome = soak.call(place, &format!("walks {}", self.directory), |root| {
            let mut found = BTreeMap::new();
            match visit(&root.join(&self.directory), "", &mut found) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
                result => result.map(|()| found),
            }
        });
        if let Outcome::Done(mut found) = outcome {
            found.retain(|path, _| !path.starts_with("/passing"));
            let own = self.files.iter();
            let expected = own.map(|(name, content)| (format!("/{name}"), content.len() as u64));
            let expected: BTreeMap<_, _> = expected.collect();
            assert!(
                found == expected,
                "{}: {found:#?}, not {expected:#?}",
                self.directory
            );
            soak.tally.done(0);
        }
    }

    /// Compares the bucket with the files; the first difference.
    pub(in crate::soak) fn difference(&self, soak: &Soak) -> Option<String> {
        let mut found = below(&soak.server, BUCKET, &format!("{}/", self.directory));
        found.retain(|name, _| !name.starts_with("passing") && !name.is_empty());
        for (name, content) in self.files.iter() {
            let stored = found.remove(name);
            if stored.as_ref() != Some(content) {
                let stored = stored.map(Arc::new);
                let (stored, wanted) = (vec![(name.clone(), stored)], self.files.world(&[name]));
                return Some(format!(
                    "{}: the bucket has {}, not {}",
                    self.directory,
                    text(&stored),
                    text(&wanted)
                ));
            }
        }
        let surplus: Vec<_> = found.keys().collect();
        (!surplus.is_empty())
            .then(|| format!("{}: the bucket also has {surplus:?}", self.directory))
    }
}

/// The bytes of a file, if there is one.
fn read_if_any(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
