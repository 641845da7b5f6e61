//! The programs of doc/PROGRAMS.md on files that are written in place: in memory, and on staged
//! files without write-back and with it.
//!
//! `make test-more-programs` runs these. The next mount has to show what a program left, without
//! the directory of the first.

use std::process::Command;

use tempfile::TempDir;

use super::more_programs::{Case, Outcome, check_all, run};
use crate::harness::{self, Mounted, STAGED, server, shell};

/// What writes in place.
const CASES: &[(&str, &str)] = &[
    ("DuckDB's own file", OWN_DUCKDB),
    ("pandas.to_hdf", TO_HDF),
    ("a C project with cmake and make", C_PROJECT),
    ("untar of 10,000 files", UNTAR),
    (
        "ImageMagick to TIFF",
        "/usr/bin/convert -size 200x100 gradient:red-blue a.tiff; test $(/usr/bin/identify -format %wx%h a.tiff) = 200x100",
    ),
    (
        "ffmpeg to MP4",
        "$FFMPEG $VIDEO a.mp4; $FFMPEG -i a.mp4 -f null -",
    ),
    (
        "rsync --append",
        "head -c 3000000 /dev/urandom > $S/f; rsync --append $S/f .; echo more >> $S/f; rsync --append $S/f .; cmp $S/f f",
    ),
];

const FLAGS: [&[&str]; 3] = [
    &["--allow-changes"],
    &["--allow-changes", "--staging"],
    &[
        "--allow-changes",
        "--write-back",
        "--drain-timeout",
        "600",
        "--staging",
    ],
];

/// Written, changed, cut by its checkpoints, and opened again.
const OWN_DUCKDB: &str = r#"$PYTHON -c '
import duckdb
for round in range(3):
    with duckdb.connect("own.db") as db:
        db.sql("create table if not exists t (a bigint, b varchar)")
        db.sql(f"insert into t select range, repeat($$x$$, 20) || range from range({round} * 100000, {round + 1} * 100000)")
        db.sql("checkpoint")
        db.sql("update t set b = $$changed$$ where a % 7 = 0")
        db.sql("begin"); db.sql("delete from t"); db.sql("rollback")
with duckdb.connect("own.db", read_only=True) as db:
    assert db.sql("select count(*), sum(a), count(*) filter (b = $$changed$$) from t").fetchall() == [(300000, 44999850000, 42858)]
'"#;

const TO_HDF: &str = r#"$PYTHON -c '
import numpy as np, pandas as pd
frame = pd.DataFrame({"a": np.arange(50000), "b": [f"s{i % 5}" for i in range(50000)]})
frame.to_hdf("a.h5", key="whole", format="table")
for _ in range(3): frame.to_hdf("a.h5", key="more", format="table", append=True)
frame[["a"]].to_hdf("a.h5", key="fixed")
assert pd.read_hdf("a.h5", "whole").equals(frame)
assert len(pd.read_hdf("a.h5", "more")) == 150000
with pd.HDFStore("a.h5") as store: store.remove("whole"); assert sorted(store.keys()) == ["/fixed", "/more"]
'"#;

/// The sources of a library in C that this project is built with.
const C_PROJECT: &str = r#"
source=$(dirname $(cargo metadata --format-version 1 --offline --locked --manifest-path $PROJECT/Cargo.toml |   /usr/bin/python3 -c 'import json, sys; print(next(it["manifest_path"] for it in json.load(sys.stdin)["packages"] if it["name"] == "mountpoint-s3-crt-sys"))'))
cp -r $source/crt/aws-c-common source
cmake -S source -B build -DBUILD_TESTING=OFF -DCMAKE_BUILD_TYPE=Debug -DBUILD_SHARED_LIBS=ON > $S/cmake.log; make -C build -s -j2
printf '#include <aws/common/common.h>
#include <aws/common/string.h>
#include <stdio.h>
int main(void) {
  aws_common_library_init(aws_default_allocator());
  struct aws_string *s = aws_string_new_from_c_str(aws_default_allocator(), "works");
  puts(aws_string_c_str(s));
  return 0;
}
' > main.c
gcc -g -Isource/include -Ibuild/generated/include -o main main.c -Lbuild -laws-c-common
test $(LD_LIBRARY_PATH=build ./main) = works
make -C build -s install DESTDIR=$PWD/installed > $S/install.log; make -C build -s clean
"#;

const UNTAR: &str = r#"
mkdir $S/t; for i in $(seq 100); do mkdir $S/t/$i; for j in $(seq 100); do echo $i $j > $S/t/$i/$j; done; done
tar -C $S -cf $S/t.tar t; tar xf $S/t.tar; diff -r $S/t t; test $(find t -type f | wc -l) = 10000
"#;

/// Runs the script, and compares what it left with what the bucket has.
fn check(case: &Case) -> Result<(), String> {
    let server = server();
    let left = tempfile::tempdir().unwrap();
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |staging: &TempDir| {
        let directory = staging.path().to_str().unwrap();
        let is_staged = case.flags.ends_with(&["--staging"]);
        let directory = is_staged.then_some(directory).into_iter().collect();
        Mounted::new(&server, &[case.flags.to_vec(), directory].concat())
    };
    let mounted = at(&first);
    run(&mounted, case)?;
    // No key shows an empty directory to the next mount.
    let copy = left.path().join("copy");
    let copied = copy.display();
    shell(
        mounted.path(),
        &format!("cp -a . {copied} && find {copied} -mindepth 1 -type d -empty -delete"),
    );
    assert!(mounted.unmount().success());
    let mounted = at(&second);
    let [copy, again] = [&*copy, mounted.path()].map(|path| path.to_str().unwrap());
    let compared = harness::run("diff", &["-r", "--no-dereference", copy, again]);
    if compared.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&compared.stdout);
    Err(format!("{}: the next mount differs: {said}", case.name))
}

#[test]
#[ignore = "its programs are installed by `make test-more-programs`"]
fn programs_write_in_place() {
    for flags in FLAGS {
        let cases = CASES.iter().map(|&(name, script)| Case {
            name,
            flags,
            outcome: Outcome::Works,
            script,
        });
        check_all(&cases.collect::<Vec<_>>(), check);
    }
}

/// Tests of what streamed writes refuse.
const OF_REFUSALS: [&str; 4] = [
    "what_only_writes_and_goes_back_is_refused",
    "without_flags_new_files_are_written_in_no_order",
    "archives_are_unpacked_without_times",
    "without_flags_files_are_compressed",
];

/// The tests of all other programs, in a process whose mounts stage files. Those that look into the
/// bucket before the end of their mount are run without write-back alone.
#[test]
#[ignore = "its programs are installed by `make test-more-programs`"]
fn programs_work_as_without_staging() {
    const TESTS: [&str; 3] = [
        "applications::more_programs::",
        "applications::programs::",
        "applications::data_programs::",
    ];
    for (flags, tests) in [
        ("", &TESTS[..]),
        ("--write-back --drain-timeout 600", &TESTS[..1]),
    ] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .arg("--include-ignored")
            .args(tests)
            .args(OF_REFUSALS.iter().flat_map(|test| ["--skip", test]))
            .env(STAGED, flags);
        let status = command.status().unwrap();
        assert!(status.success(), "{STAGED}={flags:?}");
    }
}
