//! Finds the selected objects, by listings or from a file of keys.
//!
//! With an index file, the client answers LIST and HEAD from it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use futures::StreamExt as _;
use mountpoint_client::types::Key;
use mountpoint_client::{ErrorKind, ObjectClient};
use tokio::sync::mpsc;

use super::patterns::Patterns;
use super::progress::Progress;
use super::tally::add;
use crate::clock::Clock;
use crate::namespace::{AllKeys, Version};

/// Source of object names.
#[derive(Clone, Debug)]
pub(super) enum Sources {
    /// Prefixes, empty or with `/` at their end, and keys of objects or directories.
    Paths(Vec<String>),
    /// The lines of a file, relative to a prefix.
    Lines {
        /// The prefix: empty or with `/` at its end.
        prefix: String,
        /// The file; `-` is standard input.
        file: PathBuf,
    },
}

/// A version of an object to store in the cache.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) key: Key,
    pub(super) version: Version,
}

/// Finds objects and sends them to the filler.
#[derive(Debug)]
pub(super) struct Finder {
    pub(super) client: Arc<dyn ObjectClient>,
    pub(super) clock: Clock,
    pub(super) patterns: Patterns,
    pub(super) progress: Arc<Progress>,
    pub(super) targets: mpsc::Sender<Target>,
}

impl Finder {
    /// Sends all objects of `sources`, until the receiver is closed.
    ///
    /// # Errors
    /// A text for the user, if the other objects cannot be found.
    pub(super) async fn find(self, sources: Sources) -> Result<(), String> {
        match sources {
            Sources::Paths(paths) => {
                for path in paths {
                    self.find_path(&path).await?;
                }
            }
            Sources::Lines { prefix, file } => self.find_lines(&prefix, &file).await?,
        }
        let is_all_found = &self.progress.tally.is_all_found;
        is_all_found.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn find_path(&self, path: &str) -> Result<(), String> {
        let is_prefix = path.is_empty() || path.ends_with('/');
        let (mut is_any, prefix) = if is_prefix {
            (path.is_empty(), path.to_owned())
        } else {
            (self.find_object(path).await?, format!("{path}/"))
        };
        let mut listing = AllKeys::new(Arc::clone(&self.client), self.clock.clone(), &prefix);
        loop {
            let page = listing.next().await;
            let page = page.map_err(|error| format!("cannot list the bucket: {error}"))?;
            let Some(keys) = page else { break };
            for (key, version) in keys {
                is_any = true;
                let below = key.strip_prefix(&prefix).unwrap_or(&key);
                let Some(parsed) = Key::parse(&key).filter(|_| self.patterns.want(below)) else {
                    continue;
                };
                if !self.pass_on(parsed, version).await {
                    return Ok(());
                }
            }
        }
        if !is_any {
            add(&self.progress.tally.found, 1);
            let reason = "the bucket has no object of this name, and none below it";
            self.progress.failed(path, reason, 0);
        }
        Ok(())
    }

    /// Sends the object with the key `path`. Returns whether it exists.
    async fn find_object(&self, path: &str) -> Result<bool, String> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let Some(key) = Key::parse(path) else {
            return Ok(false);
        };
        match self.client.head(&key).await {
            Ok(info) => {
                if self.patterns.want(name) {
                    self.pass_on(key, Version::from(&info)).await;
                }
                Ok(true)
            }
            // S3 answers 403 for a missing object if the user may not list the bucket.
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Denied) => {
                Ok(false)
            }
            Err(error) => Err(format!("cannot ask for {path}: {error}")),
        }
    }

    async fn find_lines(&self, prefix: &str, file: &Path) -> Result<(), String> {
        let lines = lines_of(file)
            .map_err(|error| format!("cannot read --files-from {}: {error}", file.display()))?;
        let lines = futures::stream::unfold(lines, |mut lines| async {
            lines.recv().await.map(|line| (line, lines))
        });
        let found = lines.map(|line| self.find_line(prefix, line));
        let mut found = pin!(found.buffer_unordered(HEADS_IN_FLIGHT));
        while let Some(target) = found.next().await {
            if let Some(Target { key, version }) = target?
                && !self.pass_on(key, version).await
            {
                break;
            }
        }
        Ok(())
    }

    /// The object that a line names, if it exists and is selected.
    async fn find_line(
        &self,
        prefix: &str,
        line: std::io::Result<Vec<u8>>,
    ) -> Result<Option<Target>, String> {
        let line = line.map_err(|error| format!("cannot read --files-from: {error}"))?;
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        let below = match std::str::from_utf8(line) {
            Ok(below) if below.is_empty() || !self.patterns.want(below) => return Ok(None),
            Ok(below) => below,
            Err(_) => {
                add(&self.progress.tally.found, 1);
                let shown = String::from_utf8_lossy(line);
                self.progress.failed(&shown, "a key must be UTF-8", 0);
                return Ok(None);
            }
        };
        let Some(key) = Key::parse(&format!("{prefix}{below}")) else {
            return Ok(None);
        };
        match self.client.head(&key).await {
            Ok(info) => {
                self.progress.succeeded();
                let version = Version::from(&info);
                Ok(Some(Target { key, version }))
            }
            Err(error) => {
                add(&self.progress.tally.found, 1);
                let reason = match error.kind {
                    ErrorKind::NotFound => "there is no such object".to_owned(),
                    _ => error.to_string(),
                };
                self.progress.failed(key.as_str(), &reason, 0);
                if error.kind != ErrorKind::NotFound && self.progress.is_hopeless() {
                    return Err(format!("too many requests failed: {error}"));
                }
                Ok(None)
            }
        }
    }

    /// Sends an object. Returns whether the receiver is open.
    async fn pass_on(&self, key: Key, version: Version) -> bool {
        add(&self.progress.tally.found, 1);
        add(&self.progress.tally.found_bytes, version.size);
        self.targets.send(Target { key, version }).await.is_ok()
    }
}

/// The lines of a file, read by a thread, because a pipe may wait for its writer.
fn lines_of(file: &Path) -> std::io::Result<mpsc::Receiver<std::io::Result<Vec<u8>>>> {
    let input: Box<dyn Read + Send> = if file == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(File::open(file)?)
    };
    let (sender, lines) = mpsc::channel(LINES_AHEAD);
    thread::Builder::new()
        .name("files-from".to_owned())
        .spawn(move || {
            for line in BufReader::new(input).split(b'\n') {
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        })?;
    Ok(lines)
}

/// HEADs in flight: a HEAD takes 20 ms, so some thousands per second.
const HEADS_IN_FLIGHT: usize = 64;

/// Lines that may be read ahead of their HEAD.
const LINES_AHEAD: usize = 1000;

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use mountpoint_client::testing::sim::{SimClient, SimOptions};

    use super::*;
    use crate::warmer::patterns::parse_pattern;

    const KEYS: [&str; 7] = [
        "a/1.jpg",
        "a/2.png",
        "a/b/3.jpg",
        "ab",
        "c",
        "c/d/e",
        "empty",
    ];

    /// Finds objects. Returns their keys and the number of failures.
    fn found(sources: Sources, include: &[&str]) -> Result<(String, u64), String> {
        let client = SimClient::new(SimOptions::default());
        for key in KEYS {
            client.put_object(key, key.as_bytes().to_vec());
        }
        let include: Vec<_> = include
            .iter()
            .map(|it| parse_pattern(it).unwrap())
            .collect();
        let (targets, mut received) = mpsc::channel(100);
        let progress = Arc::new(Progress::begin());
        let finder = Finder {
            client: Arc::new(client),
            clock: Clock::monotonic(),
            patterns: Patterns::new(&include, &[]),
            progress: Arc::clone(&progress),
            targets,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(finder.find(sources))?;
        let mut keys = Vec::new();
        let mut bytes = 0;
        while let Ok(target) = received.try_recv() {
            assert_eq!(target.version.size, target.key.as_str().len() as u64);
            bytes += target.version.size;
            keys.push(target.key.as_str().to_owned());
        }
        keys.sort();
        let counts = progress.tally.counts();
        assert!(counts.is_all_found);
        assert_eq!(counts.found, keys.len() as u64 + counts.failed);
        assert_eq!(counts.found_bytes, bytes);
        Ok((keys.join(" "), counts.failed))
    }

    #[track_caller]
    fn check(paths: &[&str], include: &[&str], keys: &str, failed: u64) {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        let found = found(Sources::Paths(paths), include);
        assert_eq!(found, Ok((keys.to_owned(), failed)));
    }

    #[test]
    fn prefixes_directories_and_objects() {
        check(&[""], &[], &KEYS.join(" "), 0);
        check(&["a/"], &[], "a/1.jpg a/2.png a/b/3.jpg", 0);
        check(&["a"], &[], "a/1.jpg a/2.png a/b/3.jpg", 0);
        check(&["ab"], &[], "ab", 0);
        check(&["c"], &[], "c c/d/e", 0);
        check(&["c/", "ab"], &[], "ab c/d/e", 0);
        check(&["none", "none/", "ab"], &[], "ab", 2);
        check(&["a/"], &["*.jpg"], "a/1.jpg a/b/3.jpg", 0);
        check(&["a/"], &["/*.jpg"], "a/1.jpg", 0);
        check(&["a/1.jpg"], &["*.png"], "", 0);
    }

    #[test]
    fn lines_of_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("keys");
        let mut text = String::from("a/1.jpg\r\n\nnone\nc");
        for _ in 0..50 {
            text.write_str("\n").unwrap();
        }
        let mut bytes = text.into_bytes();
        bytes.extend(b"\xff\nab");
        std::fs::write(&file, bytes).unwrap();
        let lines = |prefix: &str, file: &Path| Sources::Lines {
            prefix: prefix.to_owned(),
            file: file.to_owned(),
        };
        let all = found(lines("", &file), &[]);
        assert_eq!(all, Ok(("a/1.jpg ab c".to_owned(), 2)));
        let below = found(lines("a/", &file), &["none"]);
        assert_eq!(below, Ok((String::new(), 2)));
        let missing = found(lines("", &directory.path().join("x")), &[]);
        assert!(missing.unwrap_err().contains("--files-from"));
    }
}
