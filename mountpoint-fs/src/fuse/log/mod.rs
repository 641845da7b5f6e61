//! What keeps the log short where programs repeat what fails.

mod log_limit;
mod told_failures;

pub(super) use log_limit::LogLimit;
pub(super) use told_failures::ToldFailures;
