//! The first answer about a directory, which came before the directory was opened.

use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::types::ListOutput;

use crate::namespace::names;

/// An answer to the request for a directory's first page.
#[derive(Debug)]
pub(in crate::namespace) struct FirstAnswer {
    asked: Duration,
    listed: ListOutput,
}

impl FirstAnswer {
    /// What was `listed` by a request sent at `asked`.
    pub(in crate::namespace) fn new(listed: ListOutput, asked: Duration) -> Self {
        Self { asked, listed }
    }

    /// When it was asked for, on the mount's clock.
    pub(in crate::namespace) fn asked(&self) -> Duration {
        self.asked
    }

    /// How many names it holds.
    pub(in crate::namespace) fn names(&self) -> usize {
        self.listed.objects.len() + self.listed.common_prefixes.len()
    }

    /// Whether it shows `name` in the directory `prefix`.
    pub(in crate::namespace) fn has(&self, prefix: &str, name: &str) -> bool {
        let is_file = |key: &str| names::file_name(prefix, key) == Some(name);
        let is_directory = |key: &String| names::directory_name(prefix, key) == Some(name);
        let mut objects = self.listed.objects.iter();
        objects.any(|object| is_file(object.key.as_str()))
            || self.listed.common_prefixes.iter().any(is_directory)
    }

    /// The prefixes of the visible subdirectories that it shows of the directory `prefix`.
    pub(in crate::namespace) fn subdirectories(&self, prefix: &str) -> Vec<Arc<str>> {
        let shown = self.listed.common_prefixes.iter();
        let shown = shown.filter(|key| names::directory_name(prefix, key).is_some());
        shown.map(|key| Arc::from(&**key)).collect()
    }

    /// The answer itself, and when it was asked for.
    pub(in crate::namespace) fn into_parts(self) -> (ListOutput, Duration) {
        (self.listed, self.asked)
    }
}
