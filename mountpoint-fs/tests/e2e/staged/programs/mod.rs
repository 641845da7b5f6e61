//! What doc/PROGRAMS.md says of programs that write in place, with `--staging` and without.

mod data;
mod git_over_http;
mod in_place;
mod killed;

use super::{BOTH, Make, Staged, mount, stored};

use mountpoint_client::testing::server::Server;

use crate::harness::server;

/// Runs `check` on each kind of mount that writes in place, with a server of its own.
fn on_both(check: impl Fn(&Server, &Staged)) {
    for make in BOTH {
        let server = server();
        let staged = make(&server, &[]);
        check(&server, &staged);
    }
}
