//! Faults at every request of what writes: whoever writes is told, or the object is there, whole and right.

use std::fs::{File, OpenOptions};
use std::io;

use mountpoint_client::server::{Fault, Operation, Rule, Server};

use crate::fault_loop::{every_fault_at_every_request, faults_of_writes};
use crate::harness::{BUCKET, Mounted, server, shell, wait_until, write_and_close};

const MIB: usize = 1 << 20;

/// What is written, over what.
#[derive(Clone, Copy, Debug)]
enum Workload {
    Small,
    Large,
    /// Behind an object that S3 copies.
    Append,
    Rename,
}

impl Workload {
    fn before(self) -> Option<Vec<u8>> {
        match self {
            Self::Small | Self::Large => None,
            Self::Append => Some(vec![1; 5 * MIB]),
            Self::Rename => Some(vec![1; 1000]),
        }
    }

    fn whole(self) -> Vec<u8> {
        match self {
            Self::Small => vec![2; 1000],
            Self::Large => vec![2; 6 * MIB],
            Self::Append => [vec![1; 5 * MIB], vec![2; 1000]].concat(),
            Self::Rename => vec![1; 1000],
        }
    }

    fn run(self, mounted: &Mounted, key: &str) -> io::Result<()> {
        let path = mounted.join(key);
        let file = match self {
            Self::Small | Self::Large => File::create_new(&path)?,
            Self::Append => OpenOptions::new().append(true).open(&path)?,
            Self::Rename => return std::fs::rename(path, mounted.join(&format!("{key}-renamed"))),
        };
        let from = self.before().map_or(0, |old| old.len());
        write_and_close(file, &self.whole()[from..])
    }
}

#[test]
fn every_fault_at_every_request_of_a_write_is_told_or_overcome() {
    let server = server();
    let state = tempfile::tempdir().unwrap();
    let args = [
        "--allow-append",
        "--allow-rename",
        // In bytes: 5 MiB.
        "--write-part-size",
        "5242880",
        "--state-directory",
        state.path().to_str().unwrap(),
    ];
    let mounted = Mounted::new(&server, &args);
    let (mut unknown, mut cases) = (0, 0);
    for workload in [
        Workload::Small,
        Workload::Large,
        Workload::Append,
        Workload::Rename,
    ] {
        let mut faults = faults_of_writes();
        faults.push((Fault::ErrorInBody("InternalError"), Some(1), false));
        faults.push((Fault::WrongChecksum, Some(1), false));
        let run = |key: &str| {
            if let Some(old) = workload.before() {
                server.store().put(BUCKET, key, old);
            }
            server.log().clear();
            workload.run(&mounted, key)
        };
        let name = format!("{workload:?}");
        cases += every_fault_at_every_request(&server, &name, faults, run, |key, is_ok, case| {
            check(&server, workload, key, is_ok, case);
            // Where the answer to the beginning of an upload is lost, nobody knows its id.
            let creates = server.log().count(Operation::CreateMultipartUpload);
            unknown += usize::from(creates > 1);
        });
    }
    assert!(cases > 100, "{cases} cases are not all");
    // Where every abort is refused, the next mount aborts.
    drop(mounted);
    let _mounted = Mounted::new(&server, &args);
    wait_until("the end of all uploads that are known", || {
        server.store().uploads(BUCKET).len() <= unknown
    });
}

/// The bucket holds all or nothing of what was written; all of it if `is_ok`.
#[track_caller]
fn check(server: &Server, workload: Workload, key: &str, is_ok: bool, case: &str) {
    let content = |key: &str| Some(server.store().object(BUCKET, key)?.bytes().to_vec());
    let (here, new) = (content(key), Some(workload.whole()));
    if let Workload::Rename = workload {
        let there = content(&format!("{key}-renamed"));
        assert!(there == new || (!is_ok && there.is_none()), "{case}");
        assert!(
            here == workload.before() || there == new,
            "{case}: it is lost"
        );
        assert!(!is_ok || here.is_none(), "{case}: it has both names");
    } else {
        let is_old = here == workload.before();
        assert!(here == new || (!is_ok && is_old), "{case}");
    }
}

/// Nobody knows the id of an upload whose beginning was not answered: it stays, untouched, and the log says so.
#[test]
fn an_upload_whose_beginning_was_not_answered_is_told_in_the_log() {
    let server = server();
    let logs = tempfile::tempdir().unwrap();
    let directory = logs.path().to_str().unwrap();
    let mounted = Mounted::new(
        &server,
        &["--write-part-size", "5242880", "--log-directory", directory],
    );
    let create = Operation::CreateMultipartUpload;
    for (key, fault, left) in [
        ("refused", Fault::SlowDown, 0),
        ("lost", Fault::DropConnectionAfterwards, 1),
    ] {
        server.faults().add(Rule::on(create, fault).times(1));
        std::fs::write(mounted.join(key), vec![7; 6 * MIB]).unwrap();
        let object = server.store().object(BUCKET, key).unwrap();
        assert_eq!(object.size(), 6 << 20);
        assert_eq!(server.store().uploads(BUCKET).len(), left, "{key}");
        let said = shell(logs.path(), "cat *");
        let lines = said
            .lines()
            .filter(|line| line.contains("was not answered") && line.contains(key));
        assert_eq!(lines.count(), left, "{said}");
    }
}
