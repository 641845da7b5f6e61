//! Where a bucket's requests go: URL, region, signing name and algorithm, resolved once for a
//! mount, and paths of keys.
//!
//! The rules are AWS's own rule set, as the SDK ships it. The outcome serves both ways to S3, the
//! CRT's and the SDK's, so that their requests go to the same place. Knows no request and no
//! credentials.

mod bucket;
mod check;
mod encode;
mod question;
mod resolve;
#[cfg(test)]
mod tests;

pub use bucket::BucketType;
pub(crate) use bucket::{copy_source, region_of_arn};
pub use encode::{encode_key, encode_query};
pub use question::EndpointQuestion;
pub use resolve::{Endpoint, SigningAlgorithm};
