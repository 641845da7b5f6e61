//! Remembers that the lack of syslog was told, so that it is told once a boot and not by each
//! mount.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use crate::local_disk::{DirectoryUse, Folder};

/// Whether no mount with this state directory has asked since the boot. Where that cannot be kept,
/// each is the first.
pub(super) fn is_first_of_boot(state_directory: Option<&Path>) -> bool {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    match (state_directory, boot) {
        (Some(directory), Ok(boot)) => !was_told(directory, &boot).unwrap_or(false),
        _ => true,
    }
}

/// Whether the file in `directory` names this boot; from then on it does.
fn was_told(directory: &Path, boot: &str) -> io::Result<bool> {
    let folder = Folder::open_base(USE, directory, true).map_err(io::Error::other)?;
    let mut file = folder.open_file(NAME)?;
    let mut told = String::new();
    (&file).take(NAMED_MAX).read_to_string(&mut told)?;
    if told == boot {
        return Ok(true);
    }
    file.set_len(0)?;
    io::Seek::rewind(&mut file)?;
    file.write_all(boot.as_bytes())?;
    Ok(false)
}

const USE: DirectoryUse = DirectoryUse {
    name: "state",
    flag: "--state-directory",
};
const NAME: &str = "no-syslog";
/// Bytes that are read: the name of a boot has 37.
const NAMED_MAX: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_boot_is_told_once() {
        let root = tempfile::tempdir().unwrap();
        let state = root.path().join("state");
        for (boot, expected) in [
            ("a", false),
            ("a", true),
            ("bcd", false),
            ("bcd", true),
            ("a", false),
        ] {
            assert_eq!(was_told(&state, boot).unwrap(), expected, "{boot}");
        }
        assert!(is_first_of_boot(None));
        assert!(is_first_of_boot(Some(Path::new("/proc/no-such-directory"))));
        assert!(is_first_of_boot(Some(&state)));
        assert!(!is_first_of_boot(Some(&state)));
    }
}
