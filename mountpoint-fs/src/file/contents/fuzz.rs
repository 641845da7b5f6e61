//! The contents of a staged file against plain bytes.

use super::test_model::{Model, SIZE_MAX, Step};

/// A file's base, then three bytes for each step of its life.
pub(crate) fn contents(data: &[u8]) {
    let Some((first, steps)) = data.split_first() else {
        return;
    };
    let base = first.checked_sub(1).map(|len| u64::from(len) % SIZE_MAX);
    let mut model = Model::new(base);
    model.check();
    for step in steps.chunks_exact(3).take(STEPS_MAX) {
        let (at, len) = (u64::from(step[1]) % SIZE_MAX, u64::from(step[2] % 9) + 1);
        model.take(&match step[0] % 12 {
            0 => Step::Write(at, len),
            1 => Step::SetLen(at),
            2 => Step::Zero(at, len),
            3 => Step::BeginStore,
            4 => Step::EndStore(at > 4),
            5 => Step::DropStored,
            6 => Step::BeginStoreUntil(at),
            7 => Step::MarkSent(at, len),
            9 => Step::Commit,
            10 => Step::BeginStoreOfCommit,
            11 => Step::EndSparing,
            _ => Step::Copy(at, u64::from(step[2] % 30), len),
        });
        model.check();
    }
}

/// As many as a call takes a millisecond for.
const STEPS_MAX: usize = 100;
