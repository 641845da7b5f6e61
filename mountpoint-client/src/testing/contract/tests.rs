//! The suite on `SimClient`, and tests that the suite notices wrong clients.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::testing::sim::{Fault, FaultRule, Operation, SimOptions, Time, When};
use crate::{ErrorKind, SimClient};

fn subject(options: &SimOptions, server: Server) -> Subject {
    Subject {
        client: Arc::new(SimClient::new(options.clone())),
        prefix: "contract/".to_owned(),
        capabilities: Capabilities::of(server),
    }
}

#[track_caller]
fn check(options: &SimOptions, server: Server, skipped: &[&str]) {
    let report = run_all(|| subject(options, server));
    println!("{server:?}\n{report}");
    assert!(report.failures().is_empty(), "{report}");
    let names: Vec<_> = report.skipped().iter().map(|case| case.name).collect();
    assert_eq!(names, skipped);
}

/// Capabilities that only directory buckets have.
const OF_DIRECTORY_BUCKETS: &[&str] = &[
    "append",
    "append_keeps_headers",
    "append_to_another_version",
    "append_at_another_offset",
    "append_to_nothing",
    "append_of_nothing",
    "append_right_checksum",
    "append_wrong_checksum",
    "append_other_checksum",
    "rename_moves",
    "rename_overwrites",
    "rename_if_absent",
    "rename_missing_source",
    "create_session",
];

#[test]
fn immediate() {
    check(&SimOptions::default(), Server::Sim, OF_DIRECTORY_BUCKETS);
}

#[test]
fn threaded() {
    let options = SimOptions {
        time: Time::Threaded,
        latency: Duration::ZERO..Duration::from_micros(500),
        throughput: Some(2 << 30),
        ..SimOptions::default()
    };
    check(&options, Server::Sim, OF_DIRECTORY_BUCKETS);
}

#[test]
fn directory_bucket() {
    let options = SimOptions {
        directory_bucket: true,
        ..SimOptions::default()
    };
    let skipped = [
        "list_in_byte_order",
        "list_other_delimiter",
        "list_partial_prefix",
        "list_start_after",
        "list_start_after_with_pages",
        "append_refused_without_harm",
        "rename_refused_without_harm",
    ];
    check(&options, Server::SimDirectory, &skipped);
}

#[test]
fn names_are_unique_and_many() {
    let mut names: Vec<_> = cases().iter().map(|case| case.name).collect();
    assert!(names.len() >= 60, "{}", names.len());
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

/// A suite that cannot fail proves nothing.
#[test]
fn failures_are_seen() {
    let fault = |operation, fault| FaultRule {
        operation: Some(operation),
        when: When::Every(1),
        fault,
    };
    for (rule, at_least) in [
        (
            fault(Operation::HeadObject, Fault::Fail(ErrorKind::Denied)),
            60,
        ),
        (fault(Operation::GetObject, Fault::StopAfter(0)), 40),
        (
            fault(Operation::ListObjectsV2, Fault::Fail(ErrorKind::Denied)),
            40,
        ),
        (
            fault(
                Operation::CompleteMultipartUpload,
                Fault::Fail(ErrorKind::Transient),
            ),
            15,
        ),
    ] {
        let options = SimOptions {
            faults: vec![rule.clone()],
            ..SimOptions::default()
        };
        let failures = run_all(|| subject(&options, Server::Sim)).failures().len();
        assert!(failures >= at_least, "{failures} failures with {rule:?}");
    }
}

#[test]
fn a_case_that_panics_has_failed() {
    let case = Case {
        name: "panics",
        needs: &[],
        lacks: None,
        run: |_| panic!("as it should"),
    };
    let verdict = run_case(&case, subject(&SimOptions::default(), Server::Sim));
    assert_eq!(verdict, Verdict::Failed("it panicked".to_owned()));
}
