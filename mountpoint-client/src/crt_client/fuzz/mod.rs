//! Answers of servers, as the fuzzer makes them.

use std::time::SystemTime;

use super::control::listing::xml;

/// A page of a listing.
pub(crate) fn listing_page(data: &[u8]) {
    let Ok(page) = xml::read(data) else { return };
    for object in &page.objects {
        assert!(
            object
                .last_modified
                .is_none_or(|at| at >= SystemTime::UNIX_EPOCH)
        );
    }
}
