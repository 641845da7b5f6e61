//! Each fault at each request of a piece of work: the loop that tests of what writes share.

use std::io;

use mountpoint_client::server::{Fault, Rule, Server};

/// A fault, how often it strikes, and whether it is to be overcome.
pub(crate) type FaultCase = (Fault, Option<u64>, bool);

/// Those that befall whatever writes.
pub(crate) fn faults_of_writes() -> Vec<FaultCase> {
    let error = |status, code| Fault::Error { status, code };
    let lost = Fault::ErrorAfterwards {
        status: 500,
        code: "InternalError",
    };
    vec![
        (error(400, "InvalidArgument"), None, false),
        (error(500, "InternalError"), Some(1), true),
        (Fault::SlowDown, Some(1), true),
        (Fault::DropConnection, Some(1), true),
        (Fault::DropConnectionAfterwards, Some(1), true),
        (lost, Some(1), true),
        (Fault::WrongETag, Some(1), false),
        (Fault::NoETag, Some(1), false),
    ]
}

/// Has `run` work on a key of its own, which begins with `name`, again and again: each time one of the `faults` strikes one
/// request later, until there is no such request. `check` looks at the key afterwards, and whether the work succeeded. The
/// number of faults that struck.
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
            let rule = server.faults().add(Rule {
                key_prefix: key.clone(),
                skip,
                count,
                ..Rule::always(fault.clone())
            });
            let outcome = run(&key);
            let fired = server.faults().remove(rule).unwrap();
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
