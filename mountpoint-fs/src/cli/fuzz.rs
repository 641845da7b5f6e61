//! Command lines of a person, of mount(8) and of systemd.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use super::{Invocation, fstab_entry};

/// The arguments of a mount, one a line. They are text, as a shell has them, or bytes.
pub(crate) fn flags(data: &[u8]) {
    let lines = data.split(|byte| *byte == b'\n').take(ARGUMENTS_MAX);
    let arguments = lines.map(|line| OsString::from_vec(line.to_vec()));
    parse([OsString::from("mount-s3")].into_iter().chain(arguments));
}

/// A line of `/etc/fstab`.
pub(crate) fn options(data: &[u8]) {
    let options = OsString::from_vec(data.to_vec());
    let line = ["mount.mount-s3", "bucket", "/mnt", "-o"].map(OsString::from);
    let line: Vec<_> = line.into_iter().chain([options]).collect();
    drop(fstab_entry(&line, &String::from_utf8_lossy(data)));
    parse(line.into_iter());
}

fn parse(arguments: impl Iterator<Item = OsString>) {
    match Invocation::parse(arguments, &[]) {
        Ok(Invocation::Mount(args)) => {
            drop((args.refusals(), args.warnings()));
            assert!(!args.source_name().is_empty());
            drop(args.prefix().map(str::to_owned));
        }
        Ok(_) => {}
        // The text is shown.
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

const ARGUMENTS_MAX: usize = 20;
