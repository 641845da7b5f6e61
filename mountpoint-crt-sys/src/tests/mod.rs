//! Requests against a server in this process, through the public interface.

mod endless;
mod get;
#[path = "servers/http.rs"]
mod http;
mod idle_connections;
mod in_place;
mod logs;
mod probe;
mod reentry;
mod send;
mod server;
mod signing;
mod tls;

use std::sync::OnceLock;

use crate::{Runtime, RuntimeOptions};

/// One runtime for all tests.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new(&RuntimeOptions::default()).unwrap())
}

/// A panic of a callback that prints nothing: a person who looks for a failure would find the text.
fn panic_silently() -> ! {
    std::panic::resume_unwind(Box::new("on purpose"))
}
