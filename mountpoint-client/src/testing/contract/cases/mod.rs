//! The cases, by operation. Each is a few lines over [`Bucket`](super::Bucket).

mod append;
mod copy;
mod delete;
mod get;
mod head;
mod list;
mod list_names;
mod multipart;
mod multipart_refused;
mod names;
mod put;

use super::case::Case;

/// All of them, in the order in which a report shows them.
pub(super) fn all() -> Vec<Case> {
    [
        get::CASES,
        head::CASES,
        list::CASES,
        list_names::CASES,
        names::CASES,
        put::CASES,
        append::CASES,
        multipart::CASES,
        multipart_refused::CASES,
        delete::CASES,
        copy::CASES,
    ]
    .concat()
}
