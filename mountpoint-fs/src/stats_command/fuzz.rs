//! Answers of mounts, which any user's process may give.

use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use super::capture::fuzz::trace;
use super::sockets::listening;
use super::view::View;
use crate::fuzz::memory_file;
use crate::mount::{CaptureLine, StatsDocument};

/// Two answers, one a line: each of them and their difference is shown.
pub(crate) fn answers(data: &[u8]) {
    let lines = data.split(|byte| *byte == b'\n');
    let documents = lines.filter_map(|line| serde_json::from_slice(line).ok());
    let documents: Vec<StatsDocument> = documents.take(3).collect();
    let mut view = View::default();
    for document in &documents {
        view.look(vec![document.clone()]);
        view.lines(100);
    }
    view.look(documents);
    for line in view.lines(30) {
        assert!(!line.contains(char::is_control));
    }
    let text = String::from_utf8_lossy(data);
    for socket in listening(&text) {
        assert!(!socket.name.is_empty());
    }
}

/// Lines of a capture, which become a trace.
pub(crate) fn capture(data: &[u8]) {
    let lines = data.split(|byte| *byte == b'\n');
    let lines = lines.filter_map(|line| serde_json::from_slice(line).ok());
    let records = lines.filter_map(|line| match line {
        CaptureLine::Record(record) => Some(record),
        _ => None,
    });
    let file = memory_file(&[]);
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    trace(&path, records);
    let text = std::fs::read(&path).unwrap();
    serde_json::from_slice::<serde::de::IgnoredAny>(&text).unwrap();
}
