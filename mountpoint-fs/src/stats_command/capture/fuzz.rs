//! Records of mounts, which any user's process may send.

use std::path::Path;

use super::chrome_trace::ChromeTrace;
use super::output::{CaptureEnd, CaptureOutput};
use crate::metrics::capture::CaptureRecord;
use crate::mount::MountDescription;

/// Writes a trace of `records` to the file at `path`.
pub(in crate::stats_command) fn trace(path: &Path, records: impl Iterator<Item = CaptureRecord>) {
    let mut output = CaptureOutput::create(path).unwrap();
    let mut trace = ChromeTrace::new(&MountDescription::default());
    for record in records {
        trace.add(&record, &mut output).unwrap();
    }
    trace.end(CaptureEnd::default(), &mut output).unwrap();
    output.flush().unwrap();
}
