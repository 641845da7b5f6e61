//! Each fault at each request of a piece of work. Loops shared by the tests of writes.

use std::io;

use mountpoint_client::testing::server::{Fault, Operation, Rule, RuleId, Server};

/// A fault, its number of strikes, and whether the mount must overcome it.
///
/// [`Fault::RefuseConnection`] closes a connection and refuses the next ones for a moment.
pub(crate) type FaultCase = (Fault, Option<u64>, bool);

/// Faults for every test of writes.
pub(crate) fn faults_of_writes() -> Vec<FaultCase> {
    let error = |status, code| Fault::Error { status, code };
    let lost = Fault::ErrorAfterwards {
        status: 500,
        code: "InternalError",
    };
    let busy = Fault::ErrorAfterwards {
        status: 503,
        code: "SlowDown",
    };
    vec![
        (error(400, "InvalidArgument"), None, false),
        (error(500, "InternalError"), Some(1), true),
        (busy, Some(1), true),
        (Fault::PageAfterwards(503), Some(1), true),
        (Fault::Page(404), Some(1), true),
        (Fault::Page(403), Some(1), true),
        (Fault::Page(200), Some(1), true),
        (error(409, "ConditionalRequestConflict"), Some(1), false),
        (Fault::SlowDown, Some(1), true),
        (Fault::DropConnection, Some(1), true),
        (Fault::DropConnectionAfterwards, Some(1), true),
        (lost, Some(1), true),
        (Fault::WrongETag, Some(1), false),
        (Fault::NoETag, Some(1), false),
    ]
}

/// More faults, for quick tests.
pub(crate) fn more_faults_of_writes() -> Vec<FaultCase> {
    let error = |status, code| Fault::Error { status, code };
    vec![
        (error(403, "AccessDenied"), None, false),
        (error(404, "NoSuchKey"), Some(1), false),
        (error(412, "PreconditionFailed"), Some(1), false),
        (Fault::RefuseConnection, Some(1), true),
        (Fault::CutBody(0), Some(1), false),
        (Fault::CutBody(60), Some(1), false),
        (Fault::CorruptByte(0), Some(1), false),
        (Fault::CorruptByte(60), Some(1), false),
        (Fault::WrongLength(-1), Some(1), false),
        (Fault::IgnoreConditions, None, true),
        (Fault::ErrorInBody("InternalError"), Some(1), false),
        (Fault::ErrorInBodyAfterwards("SlowDown"), Some(1), false),
        (Fault::ConflictEndsUpload, Some(1), false),
        (Fault::Twice, Some(1), true),
        (Fault::WrongChecksum, Some(1), false),
    ]
}

/// A fault in force for one case.
struct Struck<'a> {
    server: &'a Server,
    rule: RuleId,
    /// Refuses the connections that follow.
    refusal: Option<RuleId>,
}

impl<'a> Struck<'a> {
    /// Strikes at the request for `key` that comes after `skip` others.
    fn new(server: &'a Server, fault: &Fault, count: Option<u64>, key: &str, skip: u64) -> Self {
        let is_refusal = *fault == Fault::RefuseConnection;
        let fault = match is_refusal {
            true => Fault::DropConnection,
            false => fault.clone(),
        };
        let rule = server.faults().add(Rule {
            key_prefix: key.to_owned(),
            skip,
            count,
            ..Rule::always(fault)
        });
        let refusal = is_refusal.then(|| Rule::always(Fault::RefuseConnection).times(REFUSALS));
        Self {
            server,
            rule,
            refusal: refusal.map(|rule| server.faults().add(rule)),
        }
    }

    /// Ends the fault. Returns the number of its strikes.
    fn end(self) -> u64 {
        if let Some(refusal) = self.refusal {
            self.server.faults().remove(refusal).unwrap();
        }
        self.server.faults().remove(self.rule).unwrap()
    }
}

/// Connections that are refused in a row.
const REFUSALS: u64 = 2;

/// Lets `run` work repeatedly, each time with one of the `faults` one request later.
///
/// Each run has a key of its own, which begins with `name`, and the loop ends when the fault finds
/// no request. `check` examines the key afterwards, with the outcome of the work. Returns the
/// number of strikes.
pub(crate) fn every_fault_at_every_request(
    server: &Server,
    name: &str,
    faults: Vec<FaultCase>,
    run: impl Fn(&str) -> io::Result<()>,
    mut check: impl FnMut(&str, bool, &str),
) -> usize {
    let mut cases = 0;
    for (number, (fault, count, is_overcome)) in faults.into_iter().enumerate() {
        for skip in 0.. {
            let key = format!("{name}-{number}-{skip}");
            let case = format!("{key} {fault:?}");
            let struck = Struck::new(server, &fault, count, &key, skip);
            let outcome = run(&key);
            let fired = struck.end();
            check(&key, outcome.is_ok(), &case);
            if fired == 0 {
                outcome.expect(&case);
                break;
            }
            if is_overcome {
                assert!(outcome.is_ok(), "{case}: {outcome:?}");
            }
            cases += 1;
        }
    }
    cases
}

/// Lets faults that take time, as silence does, strike all at once.
///
/// Each strikes at the first request for each of the `operations`. A key has a directory of its
/// own, in which a program that waits delays no other one. Returns the number of strikes.
pub(crate) fn slow_faults_at_every_operation(
    server: &Server,
    name: &str,
    faults: &[FaultCase],
    operations: &[Operation],
    run: impl Fn(&str) -> io::Result<()> + Sync,
    mut check: impl FnMut(&str, bool, &str),
) -> usize {
    let run = &run;
    let cases = std::thread::scope(|scope| {
        let mut started = Vec::new();
        for (number, (fault, count, is_overcome)) in faults.iter().enumerate() {
            for operation in operations {
                let key = format!("{name}-{number}-{operation:?}/file");
                let case = format!("{key} {fault:?}");
                let rule = server.faults().add(Rule {
                    key_prefix: key.clone(),
                    count: *count,
                    ..Rule::on(*operation, fault.clone())
                });
                started.push(scope.spawn(move || {
                    let outcome = run(&key);
                    let fired = server.faults().remove(rule).unwrap();
                    if fired == 0 || *is_overcome {
                        assert!(outcome.is_ok(), "{case}: {outcome:?}");
                    }
                    (key, outcome.is_ok(), case, fired > 0)
                }));
            }
        }
        let ended = started.into_iter().map(|thread| thread.join().unwrap());
        ended.collect::<Vec<_>>()
    });
    for (key, is_ok, case, _) in &cases {
        check(key, *is_ok, case);
    }
    cases.iter().filter(|(.., has_struck)| *has_struck).count()
}
