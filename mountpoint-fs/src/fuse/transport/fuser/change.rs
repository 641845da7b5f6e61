//! Changes of names and attributes, from the library's arguments to ours. Pure.

use std::time::{SystemTime, UNIX_EPOCH};

use fuser::{FileHandle, RenameFlags, TimeOrNow};

use crate::operation::{AttributeChange, HandleNo, RenameMode, TimeChange};

/// Mode, owner, group and size of a SETATTR.
pub(super) struct Numbers {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) size: Option<u64>,
}

/// The requested change of a SETATTR.
pub(super) fn attribute_change(
    numbers: &Numbers,
    (atime, mtime): (Option<TimeOrNow>, Option<TimeOrNow>),
    handle: Option<FileHandle>,
) -> AttributeChange {
    let permissions = |mode: u32| u16::try_from(mode & 0o7777).unwrap_or_default();
    AttributeChange {
        mode: numbers.mode.map(permissions),
        uid: numbers.uid,
        gid: numbers.gid,
        size: numbers.size,
        atime: atime.map(time_change),
        mtime: mtime.map(time_change),
        handle: handle.map(|handle| HandleNo(handle.0)),
        // The kernel sends the mode that is left, because this transport does not ask it to tell.
        drops_set_id: false,
    }
}

/// A time from the library. For times before 1970 the library subtracts the nanoseconds from the
/// seconds, while the kernel adds them.
fn time_change(time: TimeOrNow) -> TimeChange {
    let time = match time {
        TimeOrNow::Now => return TimeChange::Now,
        TimeOrNow::SpecificTime(time) => time,
    };
    let (seconds, nanos) = seconds_and_nanos(time);
    TimeChange::At { seconds, nanos }
}

fn seconds_and_nanos(time: SystemTime) -> (i64, u32) {
    let signed = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (signed(after.as_secs()), after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            (-signed(before.as_secs()), before.subsec_nanos())
        }
    }
}

/// The mode of a rename; `None` for flags without a meaning for S3.
pub(super) fn rename_mode(flags: RenameFlags) -> Option<RenameMode> {
    if flags.is_empty() {
        Some(RenameMode::Replace)
    } else if flags == RenameFlags::RENAME_NOREPLACE {
        Some(RenameMode::KeepExisting)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times() {
        let at = |seconds, nanos| TimeChange::At { seconds, nanos };
        let check = |time, expected| assert_eq!(time_change(time), expected);
        check(TimeOrNow::Now, TimeChange::Now);
        let specific = TimeOrNow::SpecificTime;
        check(specific(UNIX_EPOCH), at(0, 0));
        check(specific(UNIX_EPOCH + Duration::new(100, 5)), at(100, 5));
        // The kernel's (-2, 5), as the library reads it.
        check(specific(UNIX_EPOCH - Duration::new(2, 5)), at(-2, 5));
    }

    #[test]
    fn renames() {
        let mode = |bits| rename_mode(RenameFlags::from_bits_retain(bits));
        assert_eq!(mode(0), Some(RenameMode::Replace));
        assert_eq!(mode(1), Some(RenameMode::KeepExisting));
        for special in [2, 4, 5] {
            assert_eq!(mode(special), None);
        }
    }
}
