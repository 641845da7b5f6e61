//! The fuzz target that `FUZZ_TARGET` names. One program for all: linking takes longer than a run.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static RUN: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let mut targets = mountpoint_client::fuzz::TARGETS
        .iter()
        .chain(mountpoint_fs::fuzz::TARGETS);
    let found = targets.find(|(known, _)| *known == name);
    found
        .unwrap_or_else(|| panic!("FUZZ_TARGET={name} is no target: `make fuzz-list` names them"))
        .1
});

fuzz_target!(|data: &[u8]| RUN(data));
