//! Names of files in a staging directory.

use super::DataFileName;
use crate::file::contents::DataFileNo;

/// A name: of a staged file's data file, description or checkpoint, or of another file.
pub(crate) fn name(data: &[u8]) {
    let Ok(file) = std::str::from_utf8(data) else {
        return;
    };
    let Some(name) = DataFileName::parse(file) else {
        return;
    };
    assert!(file.starts_with(&name.to_string()));
    // A name behind it is free.
    assert!(name.0 < u64::MAX / 2);
    for its in [
        name.of(DataFileNo::First),
        name.of(DataFileNo::Second),
        name.description(1),
        name.checkpoint(),
    ] {
        assert_eq!(DataFileName::parse(&its), Some(name));
        assert_eq!(
            name.is_data(&its),
            its.ends_with(".1") || its.ends_with(".2")
        );
    }
}
