//! An answer to a directory's first LIST that arrived before a program opened the directory.

use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::types::ListOutput;

use crate::namespace::names;

/// An answer to the request for a directory's first page.
#[derive(Debug)]
pub(crate) struct FirstAnswer {
    asked: Duration,
    listed: ListOutput,
}

impl FirstAnswer {
    /// Wraps the answer `listed` to a request that was sent at `asked`.
    pub(crate) fn new(listed: ListOutput, asked: Duration) -> Self {
        Self { asked, listed }
    }

    /// Time of the request, on the mount's clock.
    pub(crate) fn asked(&self) -> Duration {
        self.asked
    }

    /// Number of names in the answer.
    pub(crate) fn names(&self) -> usize {
        self.listed.objects.len() + self.listed.common_prefixes.len()
    }

    /// Whether the answer lists the whole directory.
    pub(crate) fn is_all(&self) -> bool {
        self.listed.continuation_token.is_none()
    }

    /// Whether the answer lists `name` in the directory `prefix`.
    pub(crate) fn has(&self, prefix: &str, name: &str) -> bool {
        let is_file = |key: &str| names::file_name(prefix, key) == Some(name);
        let is_directory = |key: &String| names::directory_name(prefix, key) == Some(name);
        let mut objects = self.listed.objects.iter();
        objects.any(|object| is_file(object.key.as_str()))
            || self.listed.common_prefixes.iter().any(is_directory)
    }

    /// Prefixes of the visible subdirectories that the answer lists in the directory `prefix`.
    pub(crate) fn subdirectories(&self, prefix: &str) -> Vec<Arc<str>> {
        let shown = self.listed.common_prefixes.iter();
        let shown = shown.filter(|key| names::directory_name(prefix, key).is_some());
        shown.map(|key| Arc::from(&**key)).collect()
    }

    /// The answer and the time of its request.
    pub(crate) fn into_parts(self) -> (ListOutput, Duration) {
        (self.listed, self.asked)
    }
}
