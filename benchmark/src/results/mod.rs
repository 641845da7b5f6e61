//! Results of a run: medians, the report as Markdown, pictures, and the facts that a report states.

pub(crate) mod digits;
pub(crate) mod document;
pub(crate) mod machine;
pub(crate) mod measurement;
pub(crate) mod plot;
pub(crate) mod report;
pub(crate) mod source;
pub(crate) mod summary;
