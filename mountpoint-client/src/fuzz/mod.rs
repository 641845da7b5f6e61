//! Fuzz targets: what servers, configuration files and metadata services answer.
//!
//! `make fuzz` runs them with a fuzzer. The unit tests run them over the saved inputs in
//! `mountpoint-fs/fuzz/corpus`, and over variants of these.

mod document_answer;
#[expect(dead_code, reason = "requests are answered unread")]
#[path = "../../../mountpoint-crt-sys/src/tests/servers/http.rs"]
mod http;
mod http_answer;
mod peer;
mod scene;
mod settings;
mod tls_answer;
mod tls_peer;

use crate::crt_client::fuzz as crt_client;

/// A name, which a folder of saved inputs has too, and a function that panics if it finds a fault.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[FuzzTarget] = &[
    ("answer_texts", crt_client::texts),
    ("ca_bundle", settings::ca_bundle),
    ("document_answer", document_answer::document_answer),
    ("endpoint", settings::endpoint),
    ("error_answer", crt_client::error_answer),
    ("http_answer", http_answer::http_answer),
    ("listing_page", crt_client::listing_page),
    ("object_head", crt_client::object_head),
    ("profile_file", settings::profile_file),
    ("proxies", settings::proxies),
    ("range_head", crt_client::range_head),
    ("tls_answer", tls_answer::tls_answer),
];

#[cfg(test)]
#[path = "../../../mountpoint-fs/fuzz/saved_inputs.rs"]
mod saved_inputs;
