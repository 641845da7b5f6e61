//! Panics of this program: a number, and a line of the log for each.
//!
//! A thread or task that panics ends, or goes on with its next work; either way something is wrong,
//! and a daemon has no terminal to say so.

use std::panic;
use std::thread;

use metrics::{Counter, counter};

use super::names::PANICS;
use crate::executor::panic_message;

/// Counts and logs panics from now on, beside what is done with them already.
pub fn observe() {
    // The handle is taken now: a panic may come from the code that hands them out.
    let panics: Counter = counter!(PANICS);
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        panics.increment(1);
        let thread = thread::current();
        let thread = thread.name().unwrap_or("without a name");
        let place = panic.location().map(ToString::to_string);
        let message = panic_message(panic.payload());
        tracing::error!(
            thread,
            place,
            message,
            "panic: a part of this program has failed"
        );
        before(panic);
    }));
}

#[cfg(test)]
mod tests {
    use super::super::registry::with_registry;
    use super::*;

    #[test]
    fn a_panic_of_any_thread_is_counted() {
        let registry = with_registry(observe);
        assert_eq!(registry.snapshot().series.len(), 1);
        let thread = thread::Builder::new().name("panics".to_owned());
        let panics = thread.spawn(|| panic!("of a test")).unwrap();
        panics.join().unwrap_err();
        // Other tests may panic meanwhile.
        assert!(registry.snapshot().sum(PANICS, &[]) >= 1.0);
    }
}
