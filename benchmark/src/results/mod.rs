//! Results of a run: medians, the report as Markdown, pictures, and the facts that a report states.

pub(crate) mod document;
pub(crate) mod machine;
pub(crate) mod plot;
pub(crate) mod report;
pub(crate) mod source;
pub(crate) mod summary;
