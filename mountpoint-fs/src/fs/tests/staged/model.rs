//! Random operations of several handles against a model in memory.

use proptest::prelude::*;
use proptest::test_runner::Config;

use super::{ROOT, Staged, WRITE, in_both, wait};
use crate::operation::{AllocateMode, HandleNo, WriteOptions};

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(usize, u16, u8, u16),
    Read(usize, u16, u16),
    SetLen(usize, u16),
    Zero(usize, u16, u16, bool),
    Allocate(usize, u16, u16, bool),
    Sync(usize),
    Reopen(usize, bool),
    Rename,
    Replace,
}

fn step() -> impl Strategy<Value = Step> {
    let handle = 0..HANDLES;
    let at = 0..LEN_MAX;
    prop_oneof![
        8 => (handle.clone(), at.clone(), any::<u8>(), 1..2000u16)
            .prop_map(|(handle, at, byte, len)| Step::Write(handle, at, byte, len)),
        6 => (handle.clone(), at.clone(), at.clone())
            .prop_map(|(handle, at, len)| Step::Read(handle, at, len)),
        3 => (handle.clone(), at.clone()).prop_map(|(handle, len)| Step::SetLen(handle, len)),
        2 => (handle.clone(), at.clone(), 1..3000u16, any::<bool>())
            .prop_map(|(handle, at, len, keeps)| Step::Zero(handle, at, len, keeps)),
        1 => (handle.clone(), at, 1..3000u16, any::<bool>())
            .prop_map(|(handle, at, len, keeps)| Step::Allocate(handle, at, len, keeps)),
        2 => handle.clone().prop_map(Step::Sync),
        2 => (handle, any::<bool>()).prop_map(|(handle, cuts)| Step::Reopen(handle, cuts)),
        1 => Just(Step::Rename),
        1 => Just(Step::Replace),
    ]
}

struct Model {
    mount: Staged,
    bytes: Vec<u8>,
    handles: Vec<HandleNo>,
    name: String,
    names: usize,
}

impl Model {
    fn new() -> Self {
        let mount = Staged::new(&[]);
        let bytes: Vec<u8> = (0..9000u32).map(|at| (at % 251) as u8).collect();
        mount.bucket.put_object("f0", bytes.clone());
        let handles = (0..HANDLES).map(|_| mount.open("f0")).collect();
        Self {
            mount,
            bytes,
            handles,
            name: "f0".to_owned(),
            names: 0,
        }
    }

    fn extend(&mut self, len: usize) {
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
    }

    fn take(&mut self, step: Step) {
        let fs = &self.mount.fs;
        match step {
            Step::Write(handle, at, byte, len) => {
                let (at, data) = (usize::from(at), vec![byte; usize::from(len)]);
                wait(fs.write(self.handles[handle], at as u64, &data)).unwrap();
                self.extend(at + data.len());
                self.bytes[at..at + data.len()].copy_from_slice(&data);
            }
            Step::Read(handle, at, len) => self.check(handle, usize::from(at), usize::from(len)),
            Step::SetLen(handle, len) => {
                let ino = self.mount.walk(&self.name);
                let set = self.mount.set_len(self.handles[handle], ino, len.into());
                set.unwrap();
                self.bytes.resize(len.into(), 0);
            }
            Step::Zero(handle, at, len, keeps_size) => {
                let (start, end) = (usize::from(at), usize::from(at) + usize::from(len));
                let mode = AllocateMode::Zero { keeps_size };
                let range = start as u64..end as u64;
                wait(fs.allocate(self.handles[handle], range, mode)).unwrap();
                if !keeps_size {
                    self.extend(end);
                }
                let end = end.min(self.bytes.len());
                self.bytes[start.min(end)..end].fill(0);
            }
            Step::Allocate(handle, at, len, keeps_size) => {
                let end = usize::from(at) + usize::from(len);
                let mode = AllocateMode::Reserve { keeps_size };
                let range = u64::from(at)..end as u64;
                wait(fs.allocate(self.handles[handle], range, mode)).unwrap();
                if !keeps_size {
                    self.extend(end);
                }
            }
            other => self.take_other(other),
        }
        let ino = self.mount.walk(&self.name);
        assert_eq!(self.mount.size(ino), self.bytes.len() as u64);
    }

    /// Closes, stores and changes of the name.
    fn take_other(&mut self, step: Step) {
        let fs = &self.mount.fs;
        match step {
            Step::Sync(handle) => {
                wait(fs.sync(self.handles[handle])).unwrap();
                self.check_stored();
            }
            Step::Reopen(handle, truncate) => {
                self.mount.close(self.handles[handle]).unwrap();
                self.check_stored();
                let options = WriteOptions { truncate, ..WRITE };
                let opened = self.mount.open_with(&self.name, options).unwrap();
                self.handles[handle] = opened.handle;
                if truncate {
                    self.bytes.clear();
                }
            }
            Step::Rename => {
                self.names += 1;
                let name = format!("f{}", self.names);
                let renamed = self.mount.rename((ROOT, &self.name), (ROOT, &name));
                renamed.unwrap();
                self.name = name;
            }
            Step::Replace => {
                let (_, handle) = self.mount.create(ROOT, "tmp");
                let bytes = vec![b'n'; 5000];
                wait(self.mount.fs.write(handle, 0, &bytes)).unwrap();
                self.mount
                    .rename((ROOT, "tmp"), (ROOT, &self.name))
                    .unwrap();
                for handle in std::mem::take(&mut self.handles) {
                    self.mount.close(handle).unwrap();
                }
                self.mount.close(handle).unwrap();
                self.bytes = bytes;
                self.check_stored();
                let open = || self.mount.open(&self.name);
                self.handles = (0..HANDLES).map(|_| open()).collect();
            }
            other => unreachable!("{other:?} changes bytes"),
        }
    }

    fn check(&self, handle: usize, at: usize, len: usize) {
        let size = u32::try_from(len).unwrap();
        let read = self
            .mount
            .fs
            .read(self.handles[handle], at as u64, size, true);
        let read = wait(read).unwrap().to_vec();
        let end = (at + len).min(self.bytes.len());
        assert!(read == self.bytes[at.min(end)..end], "{at} {len}");
    }

    fn check_stored(&self) {
        let object = self.mount.bucket.object(&self.name).unwrap();
        assert!(object.content.to_vec() == self.bytes, "{}", self.name);
    }
}

const HANDLES: usize = 3;
const LEN_MAX: u16 = 20_000;

proptest! {
    #![proptest_config(Config { cases: 60, failure_persistence: None, ..Config::default() })]

    #[test]
    fn handles_of_a_file_agree_with_a_model(steps in prop::collection::vec(step(), 1..60)) {
        in_both(|| {
            let mut model = Model::new();
            for step in &steps {
                model.take(*step);
                model.check(0, 0, usize::from(LEN_MAX) * 2);
            }
            for handle in 0..HANDLES {
                model.mount.close(model.handles[handle]).unwrap();
            }
            model.check_stored();
        });
    }
}
