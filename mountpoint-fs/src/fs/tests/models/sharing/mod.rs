//! Two mounts of one bucket under random operations, failing requests, lost answers and other
//! clients.
//!
//! After each step an object may have changed only as the step allows, to all bytes that a file has
//! taken (or, where parts are appended, to a longer prefix of them), and never over an object that
//! its writer did not mean to replace; bytes that were reported as stored are stored; a reader sees
//! one version, the newest at its open, also in the pages that the kernel may keep, unless its own
//! mount writes the file. `PROPTEST_CASES` sets the number of runs.

mod checked;

use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::Fault;
use proptest::prelude::*;

use super::*;
use checked::Model;

const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Step {
    /// A process on this mount opens a file, as `open(2)` does: looks it up and creates a missing
    /// one.
    Open(usize, usize, How),
    Write(usize, Len),
    Misplaced(usize),
    Sync(usize),
    Close(usize, Closer, OtherDescriptors),
    Release(usize),
    Read(usize, usize),
    /// Opens a file for reading, and keeps it open.
    Hold(usize, usize),
    ReadHeld(usize),
    Drop(usize),
    /// `copy_file_range` from a file that is open for reading.
    Copy(usize, usize),
    Touch(usize, usize),
    Truncate(usize, usize, usize),
    Unlink(usize, usize),
    /// Renames a file; the flag tells whether the names are looked up before.
    Rename(usize, usize, usize, bool),
    Theirs(usize, Len),
    TheirDelete(usize),
    Fault(Operation, Fault),
    Later(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Plain,
    Truncate,
    Append,
    /// `O_RDWR`.
    Both,
    /// `O_EXCL`: the kernel opens no existing file.
    Exclusive,
}

#[derive(Clone, Copy, Debug)]
enum Len {
    Small(usize),
    Large,
}

fn step() -> impl Strategy<Value = Step> {
    let mount = || 0..2_usize;
    let name = || 0..NAMES.len();
    let any_of = any::<usize>;
    let how = prop::sample::select(vec![
        How::Plain,
        How::Truncate,
        How::Append,
        How::Both,
        How::Exclusive,
    ]);
    let len = || prop_oneof![12 => (1..9_usize).prop_map(Len::Small), 1 => Just(Len::Large)];
    let closer = prop::sample::select(vec![
        Closer::Opener,
        Closer::Opener,
        Closer::Child,
        Closer::Heir,
    ]);
    let others = other_descriptors();
    let operations = prop::sample::select(vec![
        Operation::PutObject,
        Operation::PutObject,
        Operation::HeadObject,
        Operation::GetObject,
        Operation::CopyObject,
        Operation::DeleteObject,
        Operation::RenameObject,
        Operation::ListObjectsV2,
        Operation::CreateMultipartUpload,
        Operation::UploadPart,
        Operation::UploadPartCopy,
        Operation::CompleteMultipartUpload,
        Operation::AbortMultipartUpload,
    ]);
    let faults = prop::sample::select(vec![
        Fault::Fail(ErrorKind::Denied),
        Fault::Fail(ErrorKind::Transient),
        Fault::Fail(ErrorKind::NotFound),
        Fault::Fail(ErrorKind::PreconditionFailed),
        Fault::FailAfterwards(ErrorKind::Transient),
        Fault::Repeat,
        Fault::Repeat,
    ]);
    prop_oneof![
        7 => (mount(), name(), how).prop_map(|(mount, name, how)| Step::Open(mount, name, how)),
        8 => (any_of(), len()).prop_map(|(index, len)| Step::Write(index, len)),
        1 => any_of().prop_map(Step::Misplaced),
        3 => any_of().prop_map(Step::Sync),
        4 => (any_of(), closer, others).prop_map(|(index, closer, others)| Step::Close(index, closer, others)),
        4 => any_of().prop_map(Step::Release),
        3 => (mount(), name()).prop_map(|(mount, name)| Step::Read(mount, name)),
        2 => (mount(), name()).prop_map(|(mount, name)| Step::Hold(mount, name)),
        2 => any_of().prop_map(Step::ReadHeld),
        2 => any_of().prop_map(Step::Drop),
        1 => (any_of(), any_of()).prop_map(|(from, to)| Step::Copy(from, to)),
        1 => (mount(), name()).prop_map(|(mount, name)| Step::Touch(mount, name)),
        1 => (mount(), name(), 0..9_usize).prop_map(|(mount, name, len)| Step::Truncate(mount, name, len)),
        1 => (mount(), name()).prop_map(|(mount, name)| Step::Unlink(mount, name)),
        2 => (mount(), name(), name(), any::<bool>())
            .prop_map(|(mount, from, to, is_known)| Step::Rename(mount, from, to, is_known)),
        1 => (name(), len()).prop_map(|(name, len)| Step::Theirs(name, len)),
        1 => name().prop_map(Step::TheirDelete),
        2 => (operations, faults).prop_map(|(operation, fault)| {
            // An answer that an existing object is gone is a lie, not a failure.
            let is_lie = matches!(operation, Operation::DeleteObject | Operation::RenameObject)
                && fault == Fault::Fail(ErrorKind::NotFound);
            let denied = Fault::Fail(ErrorKind::Denied);
            Step::Fault(operation, if is_lie { denied } else { fault })
        }),
        1 => (0..3_u64).prop_map(Step::Later),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_mounts_store_what_they_say_and_nothing_else(
        directory_bucket in any::<bool>(),
        incremental in any::<bool>(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut model = Model::new(directory_bucket, incremental);
        steps.iter().for_each(|step| model.run(step));
        model.finish();
    }
}

/// A file that grows by appended lines goes into an upload with what the server copied to it.
#[test]
fn a_copy_to_the_end_of_an_appended_file_leaves_no_upload() {
    let mut model = Model::new(true, true);
    let steps = [
        Step::Open(0, 2, How::Plain),
        Step::Write(0, Len::Large),
        Step::Release(0),
        Step::Hold(1, 2),
        Step::Open(0, 0, How::Plain),
        Step::Release(0),
        Step::Open(1, 0, How::Append),
        Step::Copy(0, 0),
    ];
    steps.iter().for_each(|step| model.run(step));
    model.finish();
}

/// Two hosts make a file, and the second one cannot tell whose empty object is there.
#[test]
fn an_empty_object_may_be_that_of_a_request_with_a_lost_answer() {
    let mut model = Model::new(false, false);
    let steps = [
        Step::Open(1, 1, How::Plain),
        Step::Open(0, 1, How::Plain),
        Step::Release(0),
        Step::Fault(Operation::PutObject, Fault::Fail(ErrorKind::Transient)),
        Step::Sync(0),
        Step::Write(0, Len::Small(1)),
        Step::Sync(0),
    ];
    steps.iter().for_each(|step| model.run(step));
    model.finish();
}

/// A file that is emptied by its open replaces what another host has stored since.
#[test]
fn a_file_that_was_emptied_replaces_whatever_is_there() {
    let mut model = Model::new(false, false);
    let steps = [
        Step::Open(1, 0, How::Plain),
        Step::Write(0, Len::Small(1)),
        Step::Sync(0),
        Step::Open(0, 0, How::Truncate),
        Step::Write(1, Len::Small(5)),
    ];
    steps.iter().for_each(|step| model.run(step));
    model.finish();
}

/// Steps that cut stored and unstored bytes, without faults and other clients.
fn cutting_step() -> impl Strategy<Value = Step> {
    let mount = || 0..2_usize;
    let name = || 0..2_usize;
    let any_of = any::<usize>;
    let how = prop::sample::select(vec![How::Plain, How::Truncate, How::Append, How::Both]);
    let closer = prop::sample::select(vec![Closer::Opener, Closer::Child, Closer::Heir]);
    let others = other_descriptors();
    prop_oneof![
        7 => (mount(), name(), how).prop_map(|(mount, name, how)| Step::Open(mount, name, how)),
        8 => (any_of(), 1..9_usize).prop_map(|(index, len)| Step::Write(index, Len::Small(len))),
        3 => any_of().prop_map(Step::Sync),
        4 => (any_of(), closer, others).prop_map(|(index, closer, others)| Step::Close(index, closer, others)),
        4 => any_of().prop_map(Step::Release),
        3 => (mount(), name()).prop_map(|(mount, name)| Step::Touch(mount, name)),
        3 => (mount(), name(), 0..3_usize).prop_map(|(mount, name, len)| Step::Truncate(mount, name, len)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn who_goes_on_writing_never_stores_over_a_cut(steps in prop::collection::vec(cutting_step(), 1..30)) {
        let mut model = Model::new(false, false);
        steps.iter().for_each(|step| model.run(step));
        model.finish();
    }
}
