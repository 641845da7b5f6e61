//! One case of the suite.

use super::bucket::{Bucket, Failure};
use super::capabilities::Capability;

/// One behaviour of S3.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Unique; also the last part of the prefix below which it writes.
    pub name: &'static str,
    /// The case is skipped where one of these is lacking.
    pub needs: &'static [Capability],
    /// The case is about the lack of this capability, and skipped where it is there.
    pub lacks: Option<Capability>,
    /// The behaviour.
    pub run: fn(&Bucket) -> Result<(), Failure>,
}

impl Case {
    pub(super) const fn new(name: &'static str, run: fn(&Bucket) -> Result<(), Failure>) -> Self {
        Self {
            name,
            needs: &[],
            lacks: None,
            run,
        }
    }

    pub(super) const fn needs(mut self, needs: &'static [Capability]) -> Self {
        self.needs = needs;
        self
    }

    pub(super) const fn lacks(mut self, lacks: Capability) -> Self {
        self.lacks = Some(lacks);
        self
    }
}
