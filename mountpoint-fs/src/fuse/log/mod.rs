//! What keeps the log short where programs repeat what fails.

mod log_limit;
mod logged_failures;

pub(super) use log_limit::LogLimit;
pub(super) use logged_failures::LoggedFailures;
