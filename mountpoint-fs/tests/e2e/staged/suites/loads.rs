//! Programs that load a file system as servers do, and check what they read.

use super::{Failure, Staged, in_each_mode, run, said};

/// A program, its arguments and what it prints when something is wrong, though it succeeds.
struct Load {
    name: &'static str,
    program: &'static str,
    args: &'static [&'static str],
    complaint: &'static str,
}

/// A job of fio writes each block with a checksum, and reads all of them.
macro_rules! fio {
    ($name:literal, $($args:literal),*) => {
        Load {
            name: $name,
            program: "fio",
            args: &[
                "--name=job", "--directory={}", "--verify=crc32c", "--do_verify=1", "--verify_fatal=1",
                "--verify_state_save=0", "--randseed=7", "--allrandrepeat=1", $($args),*
            ],
            complaint: "verify:",
        }
    };
}

const LOADS: &[Load] = &[
    fio!(
        "fio psync",
        "--rw=randrw",
        "--bsrange=512-64k",
        "--bs_unaligned",
        "--size=16m"
    ),
    fio!(
        "fio fsync",
        "--rw=randwrite",
        "--bs=4k",
        "--size=2m",
        "--fsync=16",
        "--verify_backlog=32"
    ),
    fio!(
        "fio append",
        "--rw=write",
        "--bs=100k",
        "--size=40m",
        "--verify_backlog=16"
    ),
    fio!(
        "fio direct",
        "--rw=randrw",
        "--bs=4k-64k",
        "--size=16m",
        "--direct=1",
        "--ioengine=libaio",
        "--iodepth=16"
    ),
    fio!(
        "fio io_uring",
        "--rw=randrw",
        "--bs=4k-64k",
        "--size=16m",
        "--ioengine=io_uring",
        "--iodepth=16"
    ),
    fio!(
        "fio mmap",
        "--rw=randrw",
        "--bs=4k",
        "--size=8m",
        "--ioengine=mmap"
    ),
    fio!(
        "fio falloc",
        "--rw=randwrite",
        "--bs=8k",
        "--size=8m",
        "--fallocate=posix",
        "--overwrite=1"
    ),
    fio!(
        "fio files",
        "--rw=randrw",
        "--bs=4k",
        "--size=16m",
        "--nrfiles=64",
        "--openfiles=8",
        "--file_service_type=random"
    ),
    fio!(
        "fio jobs",
        "--rw=randrw",
        "--bs=16k",
        "--size=8m",
        "--numjobs=6",
        "--create_serialize=0",
        "--end_fsync=1"
    ),
    Load {
        name: "dbench",
        program: "dbench",
        args: &[
            "-D",
            "{}",
            "-t",
            "20",
            "-c",
            "/usr/share/dbench/client.txt",
            "6",
        ],
        complaint: "ERROR",
    },
    Load {
        name: "bonnie",
        program: "bonnie++",
        // Without the bytes one by one. A file above 64 MiB cannot be changed at will in memory.
        args: &[
            "-f",
            "-d",
            "{}",
            "-u",
            "root",
            "-r",
            "24",
            "-s",
            "48:64k",
            "-n",
            "1:100000:0:8",
            "-q",
        ],
        complaint: "rror",
    },
    Load {
        name: "postmark",
        program: "bash",
        args: &[
            "-euo",
            "pipefail",
            "-c",
            "printf '%s\\n' 'set location {}' 'set number 300' 'set transactions 1000' \
             'set subdirectories 10' 'set size 500 200000' 'set report verbose' run quit | postmark",
        ],
        complaint: "rror",
    },
];

fn load(staged: &Staged, name: &str) -> Vec<Failure> {
    let load = LOADS.iter().find(|load| load.name == name).expect("a load");
    let output = run(staged, name, load.program, load.args);
    let said = said(&output);
    match output.status.success() && !said.contains(load.complaint) {
        true => Vec::new(),
        false => vec![Failure {
            name: name.to_owned(),
            said,
        }],
    }
}

/// No load fails.
#[test]
#[ignore = "`make test-suites` installs its programs"]
fn all_loads() {
    let names: Vec<_> = LOADS.iter().map(|load| load.name).collect();
    in_each_mode("", &names, load);
}
