//! Texts of the kernel about processes and mounts.

use super::close::{DescriptorInfo, ProcessStat, process_of};
use super::signals::Signals;
use super::syscall::{Making, is_waiting_call};
use crate::fuse::mounting::MountInfo;

/// One text, as each of the files that are read.
pub(crate) fn text(data: &[u8]) {
    Signals::parse(data).map(Signals::effect);
    for line in data.split(|byte| *byte == b'\n') {
        if let Some(mount) = MountInfo::parse(line) {
            assert!(mount.directory.as_os_str().len() <= line.len());
        }
    }
    let text = String::from_utf8_lossy(data);
    process_of(&text);
    ProcessStat::parse(&text);
    DescriptorInfo::parse(&text);
    is_waiting_call(&text);
    if let Some(making) = Making::parse(&text) {
        making.call.is_at_the_end(&text);
    }
}
