//! One suite that every [`ObjectClient`](crate::ObjectClient) passes, against every server.
//!
//! [`run_all`] runs the [`cases`] on a [`Subject`]: a client, a prefix of its own, and the
//! capabilities that its server is known to lack. A case that needs one of those is skipped, by
//! name and with the reason; nothing is skipped silently. The suite knows only the trait, not which
//! client or server it tries.
//!
//! Invariant: each case writes only below its own prefix, so cases may run in any order and side by
//! side. Threads: the caller's; GETs are observed on the client's.

mod bucket;
mod capabilities;
mod case;
mod cases;
mod report;
mod wait;

#[cfg(test)]
mod tests;

pub use bucket::{Bucket, Failure, Subject};
pub use capabilities::{Capabilities, Capability, Gap, Server};
pub use case::Case;
pub use report::{CaseReport, Report, Verdict, cases, run_all, run_case};
