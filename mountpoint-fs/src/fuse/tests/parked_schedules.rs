//! Operations that wait, in every order of a wake-up, a signal and the end of the mount.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use nix::errno::Errno;

use super::parked::{Gate, Harness};
use crate::executor;
use crate::sync::explore;

/// How an operation may end; each is a thread beside the one that starts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The bytes arrive, and the thread that brings them resumes the operation.
    Delivered,
    /// The bytes arrive, and the runtime resumes the operation.
    Woken,
    /// Its program is killed.
    Killed,
    /// The mount ends.
    Unmounted,
}

impl End {
    fn errno(self) -> i32 {
        match self {
            Self::Delivered | Self::Woken => 0,
            Self::Killed => libc::EINTR,
            Self::Unmounted => libc::EIO,
        }
    }
}

/// Each operation is answered once, by an end that came, and none is left.
#[test]
fn one_answer_in_any_schedule() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let ends: [&[End]; 6] = [
        &[End::Delivered],
        &[End::Woken],
        &[End::Killed],
        &[End::Delivered, End::Killed],
        &[End::Woken, End::Killed, End::Unmounted],
        &[End::Delivered, End::Woken, End::Unmounted],
    ];
    for ends in ends {
        let handle = runtime.handle().clone();
        explore(move || answer_once(ends, Harness::on(&handle)));
    }
}

fn answer_once(ends: &[End], mut harness: Harness) {
    const UNIQUE: u64 = 7;
    let gate = Gate::new();
    let threads: Vec<_> = ends
        .iter()
        .map(|end| {
            let (end, gate, parked) = (*end, Arc::clone(&gate), Arc::clone(&harness.parked));
            shuttle::thread::spawn(move || match end {
                End::Delivered => executor::deliver(gate.open()),
                End::Woken => gate.open().into_iter().for_each(Waker::wake),
                End::Killed => parked.interrupt(UNIQUE),
                // The mount ends after its session threads: the operation has been started.
                End::Unmounted => {
                    while parked.count() == 0 && gate.dropped.load(Ordering::SeqCst) == 0 {
                        shuttle::thread::yield_now();
                    }
                    parked.cancel_all(Errno::EIO);
                }
            })
        })
        .collect();
    harness.start(UNIQUE, gate.operation());
    threads.into_iter().for_each(|it| it.join().unwrap());
    while !harness.kernel.has_answer() {
        shuttle::thread::yield_now();
    }
    let (unique, errno) = harness.reply();
    assert_eq!(unique, UNIQUE);
    let possible: Vec<_> = ends.iter().map(|end| end.errno()).collect();
    assert!(possible.contains(&errno), "{errno} of {ends:?}");
    harness.check_silent();
    assert_eq!(harness.parked.count(), 0);
    assert_eq!(gate.dropped.load(Ordering::SeqCst), 1);
}
