//! Limits that keep the log short when programs repeat failing operations.

mod log_limit;
mod logged_failures;

pub(super) use log_limit::LogLimit;
pub(super) use logged_failures::LoggedFailures;
