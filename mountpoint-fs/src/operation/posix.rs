//! POSIX attributes in the metadata of an object, as s3fs stores them.
//!
//! Pure. Numbers are decimal, except for rclone's modes; the mode includes the file type, and times
//! may have a fraction. Unintelligible values are left out: another program's metadata must not
//! hide a file.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::types::{Attributes, FileKind};

/// The POSIX attributes that an object's metadata contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PosixAttributes {
    /// Permission bits.
    pub mode: Option<u16>,
    /// The kind of an object that is no plain file: a symbolic link, whose bytes are the target, a
    /// pipe or a socket.
    pub special: Option<FileKind>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Time of the last change.
    pub mtime: Option<SystemTime>,
}

impl PosixAttributes {
    /// Parses `metadata`: names without the `x-amz-meta-` prefix, and values.
    #[must_use]
    pub fn of(metadata: &[(String, String)]) -> Self {
        let value = |wanted| value(metadata, wanted);
        let mode = value(MODE).and_then(mode_of);
        Self {
            mode: mode.and_then(|mode| u16::try_from(mode & PERMISSIONS).ok()),
            special: mode.and_then(special_of),
            uid: value(UID).and_then(|text| text.parse().ok()),
            gid: value(GID).and_then(|text| text.parse().ok()),
            mtime: value(MTIME).and_then(time_of),
        }
    }

    /// The POSIX attributes of `attributes`, to be stored.
    #[must_use]
    pub fn of_attributes(attributes: &Attributes) -> Self {
        Self {
            mode: Some(attributes.mode),
            special: special_of(bits_of(attributes.kind)),
            uid: Some(attributes.uid),
            gid: Some(attributes.gid),
            mtime: Some(attributes.mtime),
        }
    }

    /// Applies them to the stat data of a file or directory.
    pub fn show(&self, attributes: &mut Attributes) {
        if let (Some(special), FileKind::File) = (self.special, attributes.kind) {
            attributes.kind = special;
        }
        attributes.mode = self.mode.unwrap_or(attributes.mode);
        attributes.uid = self.uid.unwrap_or(attributes.uid);
        attributes.gid = self.gid.unwrap_or(attributes.gid);
        attributes.mtime = self.mtime.unwrap_or(attributes.mtime);
    }

    /// Puts them into the metadata of an object of type `kind`, changed at `changed`. Other
    /// metadata stays.
    pub fn store(&self, kind: FileKind, changed: SystemTime, metadata: &mut Vec<(String, String)>) {
        let mode = self.mode.map(u32::from);
        let mode = mode.map(|mode| (mode | bits_of(kind)).to_string());
        let values = [
            (MODE, mode),
            (UID, self.uid.map(|uid| uid.to_string())),
            (GID, self.gid.map(|gid| gid.to_string())),
            (MTIME, self.mtime.map(text_of)),
            (CTIME, Some(text_of(changed))),
        ];
        for (name, value) in values {
            if let Some(value) = value {
                metadata.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
                metadata.push((name.to_owned(), value));
            }
        }
    }

    /// Whether `metadata` differ from `before` in more than that the object was changed now.
    #[must_use]
    pub fn says_more(metadata: &[(String, String)], before: &[(String, String)]) -> bool {
        let is_time = |name: &str| {
            [MTIME, CTIME]
                .iter()
                .any(|it| name.eq_ignore_ascii_case(it))
        };
        let rest = |metadata: &[(String, String)]| {
            let mut rest = metadata.to_vec();
            rest.retain(|(name, _)| !is_time(name));
            rest.sort_unstable();
            rest
        };
        let is_touched = |metadata: &[(String, String)]| {
            let (changed, written) = (value(metadata, CTIME), value(metadata, MTIME));
            written.is_none() || written == changed
        };
        rest(metadata) != rest(before) || !is_touched(metadata)
    }

    /// Whether two lists of metadata differ in nothing but the moment of their change.
    #[must_use]
    pub fn are_equal_but_for_change(one: &[(String, String)], other: &[(String, String)]) -> bool {
        let rest = |metadata: &[(String, String)]| {
            let mut rest = metadata.to_vec();
            rest.retain(|(name, _)| !name.eq_ignore_ascii_case(CTIME));
            rest.sort_unstable();
            rest
        };
        rest(one) == rest(other)
    }

    /// Removes the time from the metadata of an object that is written to. The stored time is
    /// outdated.
    pub fn forget_time(metadata: &mut Vec<(String, String)>) {
        metadata.retain(|(name, _)| !name.eq_ignore_ascii_case(MTIME));
    }
}

/// The value that `metadata` has under the name `wanted`.
fn value<'a>(metadata: &'a [(String, String)], wanted: &str) -> Option<&'a str> {
    let mut named = metadata
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
    named.next().map(|(_, value)| value.trim())
}

/// Parses a mode: s3fs writes decimal, rclone octal, so 33188 and 100644 are equal.
///
/// A text that is no mode in decimal is octal.
fn mode_of(text: &str) -> Option<u32> {
    let is_mode = |mode: &u32| KINDS.contains(&(mode & !PERMISSIONS));
    let decimal = text.parse().ok().filter(is_mode);
    decimal.or_else(|| u32::from_str_radix(text, 8).ok().filter(is_mode))
}

/// The bits of a kind of file in a mode.
fn bits_of(kind: FileKind) -> u32 {
    match kind {
        FileKind::File => FILE,
        FileKind::Directory => DIRECTORY,
        FileKind::SymbolicLink => LINK,
        FileKind::Pipe => PIPE,
        FileKind::Socket => SOCKET,
    }
}

/// The kind in `mode` of an object that is no plain file.
fn special_of(mode: u32) -> Option<FileKind> {
    let mut kinds = [FileKind::SymbolicLink, FileKind::Pipe, FileKind::Socket].into_iter();
    kinds.find(|kind| bits_of(*kind) == mode & KIND)
}

/// Parses seconds since 1970, with or without a fraction.
fn time_of(text: &str) -> Option<SystemTime> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let (is_before, seconds) = match seconds.strip_prefix('-') {
        Some(seconds) => (true, seconds),
        None => (false, seconds),
    };
    let nanos: String = fraction
        .chars()
        .chain("000000000".chars())
        .take(9)
        .collect();
    let distance = Duration::new(seconds.parse().ok()?, nanos.parse().ok()?);
    if is_before {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    }
}

/// Formats a time as s3fs does, as a number with a fraction, before 1970 with a minus.
fn text_of(time: SystemTime) -> String {
    let (sign, distance) = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => ("", since),
        Err(before) => ("-", before.duration()),
    };
    match distance.subsec_nanos() {
        0 => format!("{sign}{}", distance.as_secs()),
        nanos => format!("{sign}{}.{nanos:09}", distance.as_secs()),
    }
}

const MODE: &str = "mode";
const UID: &str = "uid";
const GID: &str = "gid";
const MTIME: &str = "mtime";
const CTIME: &str = "ctime";

const PERMISSIONS: u32 = 0o7777;
const KIND: u32 = 0o170_000;
const FILE: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
const PIPE: u32 = 0o010_000;
const SOCKET: u32 = 0o140_000;

/// File types in a mode. None, those that a mount shows, devices.
const KINDS: [u32; 8] = [0, FILE, DIRECTORY, LINK, PIPE, SOCKET, 0o020_000, 0o060_000];

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    fn after(seconds: u64, nanos: u32) -> Option<SystemTime> {
        Some(UNIX_EPOCH + Duration::new(seconds, nanos))
    }

    #[test]
    fn metadata_is_read() {
        #[track_caller]
        fn check(pairs: &[(&str, &str)], expected: PosixAttributes) {
            assert_eq!(PosixAttributes::of(&metadata(pairs)), expected, "{pairs:?}");
        }
        let none = PosixAttributes::default();
        check(&[], none);
        check(
            &[
                ("owner", "me"),
                ("mode", "rw-"),
                ("uid", "-1"),
                ("mtime", "now"),
            ],
            none,
        );
        let written_by_s3fs = [
            ("mode", "33184"),
            ("uid", "1000"),
            ("gid", "100"),
            ("mtime", "1700000000"),
        ];
        let known = PosixAttributes {
            mode: Some(0o640),
            special: None,
            uid: Some(1000),
            gid: Some(100),
            mtime: after(1_700_000_000, 0),
        };
        check(&written_by_s3fs, known);
        let mode = |mode, special| PosixAttributes {
            mode: Some(mode),
            special,
            ..none
        };
        let link = Some(FileKind::SymbolicLink);
        check(&[("Mode", "41471")], mode(0o777, link));
        check(&[("mode", "16877")], mode(0o755, None));
        check(&[("mode", "420")], mode(0o644, None));
        // A pipe, a socket and a device by s3fs; a file, a directory and a link by rclone.
        check(&[("mode", "4516")], mode(0o644, Some(FileKind::Pipe)));
        check(&[("mode", "49645")], mode(0o755, Some(FileKind::Socket)));
        check(&[("mode", "8612")], mode(0o644, None));
        check(&[("mode", "100644")], mode(0o644, None));
        check(&[("mode", "40755")], mode(0o755, None));
        check(&[("mode", "120777")], mode(0o777, link));
        check(&[("mode", "99999")], none);
        check(&[("mode", "4294967295")], none);
        let time = |mtime| PosixAttributes { mtime, ..none };
        check(
            &[("mtime", "1700000000.5")],
            time(after(1_700_000_000, 500_000_000)),
        );
        check(&[("mtime", "12.000000007")], time(after(12, 7)));
        check(&[("mtime", "12.0000000079")], time(after(12, 7)));
        check(
            &[("mtime", "-10")],
            time(UNIX_EPOCH.checked_sub(Duration::from_secs(10))),
        );
        check(&[("mtime", "99999999999999999999")], none);
    }

    #[test]
    fn what_is_stored_is_read_again_and_leaves_the_rest() {
        let before = UNIX_EPOCH.checked_sub(Duration::from_millis(1_500));
        for kind in [
            FileKind::File,
            FileKind::Directory,
            FileKind::SymbolicLink,
            FileKind::Pipe,
            FileKind::Socket,
        ] {
            for mtime in [after(0, 0), after(1_700_000_000, 123_456_789), before] {
                let attributes = PosixAttributes {
                    mode: Some(0o4755),
                    special: special_of(bits_of(kind)),
                    uid: Some(0),
                    gid: Some(u32::MAX - 1),
                    mtime,
                };
                let mut stored = metadata(&[("Mode", "1"), ("owner", "me")]);
                attributes.store(kind, UNIX_EPOCH, &mut stored);
                assert_eq!(PosixAttributes::of(&stored), attributes);
                assert!(stored.contains(&("owner".to_owned(), "me".to_owned())));
                assert_eq!(stored.len(), 6);
            }
        }
    }
}
