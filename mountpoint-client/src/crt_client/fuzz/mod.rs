//! Answers of servers, as the fuzzer makes them.

mod answer;
mod error_answer;
mod listing_page;
mod object_head;
mod range_head;
mod texts;

pub(crate) use answer::assert_shown;
pub(crate) use error_answer::error_answer;
pub(crate) use listing_page::listing_page;
pub(crate) use object_head::object_head;
pub(crate) use range_head::range_head;
pub(crate) use texts::texts;
