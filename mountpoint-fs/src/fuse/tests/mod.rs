//! Tests of several modules together.

mod mount;
mod task;
