//! Another client changes the object while the file is written.

use std::io::{BufRead as _, BufReader, Write as _};

use super::{Mode, Promised};
use crate::harness::put;

/// What the close prints while `old` is written in the way of `script` and another client replaces
/// it, in each mode; and the object afterwards, which is always that of the other client.
fn check(row: &str, script: &str, printed: [&str; 3]) {
    for (mode, printed) in Mode::ALL.into_iter().zip(printed) {
        let mount = Promised::new(mode);
        let script =
            format!("{script}\nprint('written', flush=True); input(); say('close', os.close, fd)");
        let mut child = mount.process(&script).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "written");
        put(&mount.server, "old", "theirs");
        writeln!(child.stdin.take().unwrap()).unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), printed, "{mode:?}: {row}");
        assert!(child.wait().unwrap().success());
        mount.check(row, "old", Some("theirs"));
    }
}

/// Nothing replaces a version that it is not based on; with write-back the loser is kept in the
/// staging directory, because `close` has returned before.
#[test]
fn the_object_of_another_client_is_never_replaced() {
    check(
        "append to an object that is replaced meanwhile",
        "fd = os.open('old', os.O_WRONLY | os.O_APPEND); os.write(fd, b'X')",
        ["close ESTALE", "close ESTALE", "close 0"],
    );
}
