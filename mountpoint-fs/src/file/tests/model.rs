//! Random operations and stores, against plain bytes.

use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{Fault, FaultRule, Operation, When};
use rand::prelude::{Rng as _, SeedableRng as _, StdRng};

use super::{Bench, in_both, read, wait, write};
use crate::clock::wait_until;

const SIZE_MAX: u64 = 9 << 20;

/// One file, the bytes that it must have, and those that the bucket must have.
struct Model {
    bench: Bench,
    file: super::StagedFile,
    expected: Vec<u8>,
    random: StdRng,
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let bench = Bench::new();
        let (file, expected) = if random.random_bool(0.3) {
            (bench.new_file(), Vec::new())
        } else {
            let size = random.random_range(0..SIZE_MAX);
            let object = bench.client.put_pattern("key", size, seed);
            (bench.over(&object), object.content.to_vec())
        };
        Self {
            bench,
            file,
            expected,
            random,
        }
    }

    /// A range that is often short, and often at an end of the file.
    fn range(&mut self) -> (u64, u64) {
        let size = self.expected.len() as u64;
        let start = match self.random.random_range(0..4) {
            0 => size,
            1 => 0,
            _ => self.random.random_range(0..SIZE_MAX),
        };
        let len_max = match self.random.random_range(0..8) {
            0 => 6 << 20,
            1..3 => 300_000,
            _ => 5000,
        };
        (start, self.random.random_range(1..len_max))
    }

    fn step(&mut self) {
        match self.random.random_range(0..20) {
            0..9 => self.write(),
            9..11 => {
                let len = self.random.random_range(0..SIZE_MAX);
                wait(self.file.set_len(len)).unwrap();
                self.expected.resize(index(len), 0);
            }
            11..13 => self.zero(),
            13..17 => self.read(),
            17 => self.store(),
            18 => self.store_meanwhile(),
            _ => self.store_in_vain(),
        }
        assert_eq!(self.file.size(), self.expected.len() as u64);
        assert_eq!(self.file.progress().size(), self.expected.len() as u64);
    }

    fn write(&mut self) {
        let (start, len) = self.range();
        let mut data = vec![0; index(len)];
        self.random.fill(&mut data[..]);
        write(&self.file, start, &data).unwrap();
        let (start, end) = (index(start), index(start + len));
        if self.expected.len() < end {
            self.expected.resize(end, 0);
        }
        self.expected[start..end].copy_from_slice(&data);
    }

    fn zero(&mut self) {
        let (start, len) = self.range();
        let keeps_size = self.random.random();
        wait(self.file.zero(start..start + len, keeps_size)).unwrap();
        let end = index(start + len);
        if self.expected.len() < end && !keeps_size {
            self.expected.resize(end, 0);
        }
        let end = end.min(self.expected.len());
        let start = index(start).min(end);
        self.expected[start..end].fill(0);
    }

    fn read(&mut self) {
        let (start, len) = self.range();
        let len = index(len).min(1 << 20);
        let found = read(&self.file, start, len).unwrap();
        let start = index(start).min(self.expected.len());
        let end = (start + len).min(self.expected.len());
        assert!(found == self.expected[start..end], "{start} {len}");
    }

    fn store(&mut self) {
        let was_changed = self.file.is_changed();
        drop(self.bench.client.take_log());
        wait(self.file.store()).unwrap();
        assert!(!self.file.is_changed());
        let requests = self.bench.client.take_log().records().len();
        assert_eq!(requests > 0, was_changed, "unchanged files are not stored");
        assert!(self.bench.content("key").unwrap() == self.expected);
    }

    /// Writes on while a store runs: the object has the bytes of its beginning or of later writes.
    fn store_meanwhile(&mut self) {
        let file = self.file.clone();
        std::thread::scope(|scope| {
            let storing = scope.spawn(move || wait(file.store()));
            for _ in 0..3 {
                self.write();
                self.zero();
                self.read();
            }
            storing.join().unwrap().unwrap();
        });
        self.read();
        self.store();
    }

    /// A failed store changes nothing, and the next one stores everything.
    fn store_in_vain(&mut self) {
        for operation in [Operation::PutObject, Operation::CompleteMultipartUpload] {
            self.bench.client.add_fault(FaultRule {
                operation: Some(operation),
                when: When::Next(1),
                fault: Fault::Fail(ErrorKind::Throttled),
            });
        }
        let was_changed = self.file.is_changed();
        assert_eq!(wait(self.file.store()).is_err(), was_changed);
        self.bench.client.clear_faults();
        assert_eq!(self.file.is_changed(), was_changed);
    }
}

#[test]
fn files_have_the_bytes_that_were_written_and_so_has_the_bucket() {
    in_both(|| {
        for seed in 0..12 {
            let mut model = Model::new(seed);
            for _ in 0..120 {
                model.step();
            }
            model.store();
            assert_eq!(model.bench.names("kept"), [""; 0]);
            let Model { bench, file, .. } = model;
            drop(file);
            assert_eq!(bench.names("files"), [""; 0], "data files go with the file");
            let writing = &bench.staging.context().writing;
            wait_until("free memory", || writing.bytes_held() == 0);
        }
    });
}
