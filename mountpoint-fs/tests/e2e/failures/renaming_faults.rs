//! Faults at every request of a directory's rename.
//!
//! The rename reports its outcome, every object keeps one of its names, and an equal rename
//! finishes it.

use std::collections::BTreeMap;

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server, ServerOptions};

use crate::harness::{self, Mounted, below, mount_s3};

const GENERAL: &str = harness::BUCKET;
const DIRECTORY: &str = "renamed--usw2-az1--x-s3";

/// The files of a directory that is renamed.
const FILES: [(&str, &[u8]); 3] = [("a", b"one"), ("s/b", b"two"), ("s/empty", b"")];

/// The faults, and whether the rename must hide each.
fn faults() -> Vec<(Fault, Option<u64>, bool)> {
    let error = |status, code| Fault::Error { status, code };
    let lost = Fault::ErrorAfterwards {
        status: 500,
        code: "InternalError",
    };
    vec![
        (error(400, "InvalidArgument"), Some(1), false),
        (error(403, "AccessDenied"), Some(1), false),
        (error(500, "InternalError"), Some(1), true),
        (error(501, "NotImplemented"), Some(1), false),
        (Fault::SlowDown, Some(1), true),
        (Fault::DropConnection, Some(1), true),
        (Fault::DropConnectionAfterwards, Some(1), true),
        (lost, Some(1), true),
        (Fault::ErrorInBody("InternalError"), Some(1), true),
        (Fault::ErrorInBody("SlowDown"), Some(1), true),
        (Fault::ErrorInBody("AccessDenied"), None, false),
        (Fault::ErrorInBody("SomethingNew"), None, false),
        (Fault::CutBody(0), Some(1), true),
        (Fault::CutBody(60), Some(1), true),
    ]
}

fn mount(server: &Server, bucket: &str) -> Mounted {
    let mut command = mount_s3();
    command.args([bucket, "--endpoint-url", &server.url()]);
    // Without a journal of renames: a rename resumes by the content of the bucket.
    command.args(["--allow-rename", "--allow-overwrite"]);
    Mounted::start(command)
}

#[test]
fn every_fault_of_a_directory_rename_is_told_and_loses_nothing() {
    let server = Server::start(ServerOptions::default()).unwrap();
    let mut cases = 0;
    for (bucket, operations) in [
        (
            GENERAL,
            &[
                Operation::ListObjectsV2,
                Operation::CopyObject,
                Operation::DeleteObjects,
            ][..],
        ),
        (DIRECTORY, &[Operation::RenameObject]),
    ] {
        server.store().create_bucket(bucket);
        let mounted = mount(&server, bucket);
        for (number, (fault, count, is_overcome)) in faults().into_iter().enumerate() {
            for operation in operations {
                for skip in 0.. {
                    let rule = Rule {
                        skip,
                        count,
                        ..Rule::on(*operation, fault.clone())
                    };
                    let name = format!("{number}-{operation:?}-{skip}");
                    if !check(&server, (bucket, &mounted), &name, rule, is_overcome) {
                        break;
                    }
                    cases += 1;
                }
            }
        }
    }
    assert!(cases > 90, "{cases} cases are not all");
}

/// Runs one case; `false` if the rename has fewer requests of that kind.
fn check(
    server: &Server,
    (bucket, mounted): (&str, &Mounted),
    name: &str,
    rule: Rule,
    is_overcome: bool,
) -> bool {
    let case = format!("{name} {:?}", rule.fault);
    let (old, new) = (format!("old-{name}"), format!("new-{name}"));
    let all: BTreeMap<String, Vec<u8>> = FILES
        .iter()
        .map(|(name, content)| ((*name).to_owned(), content.to_vec()))
        .collect();
    for (name, content) in &all {
        let key = format!("{old}/{name}");
        server.store().put(bucket, &key, content.clone());
    }
    // The kernel knows both names before the first fault.
    std::fs::metadata(mounted.join(&old)).unwrap();
    std::fs::metadata(mounted.join(&new)).unwrap_err();
    let rule = server.faults().add(rule);
    let outcome = std::fs::rename(mounted.join(&old), mounted.join(&new));
    let has_struck = server.faults().remove(rule).unwrap() > 0;
    assert!(
        outcome.is_ok() || (has_struck && !is_overcome),
        "{case}: {outcome:?}"
    );
    let prefixes = [format!("{old}/"), format!("{new}/")];
    let [left, moved] = prefixes.each_ref().map(|it| below(server, bucket, it));
    if outcome.is_ok() {
        assert!(
            left.is_empty() && moved == all,
            "{case}: {left:?} {moved:?}"
        );
        return has_struck;
    }
    for (name, content) in &all {
        let (left, moved) = (left.get(name), moved.get(name));
        assert!(left.is_some() || moved.is_some(), "{case}: {name} is lost");
        let is_whole = |found: Option<&Vec<u8>>| found.is_none_or(|found| found == content);
        assert!(is_whole(left) && is_whole(moved), "{case}: {name}");
    }
    if !left.is_empty() {
        let again = std::fs::rename(mounted.join(&old), mounted.join(&new));
        again.unwrap_or_else(|error| panic!("{case}: again: {error}"));
    }
    let [left, moved] = prefixes.each_ref().map(|it| below(server, bucket, it));
    assert!(
        left.is_empty() && moved == all,
        "{case}: {left:?} {moved:?}"
    );
    has_struck
}
