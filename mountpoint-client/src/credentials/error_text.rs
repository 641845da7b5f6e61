//! Errors of the SDK as texts for a person.

/// An error with what caused it, on one line; the SDK's errors say little without.
pub(crate) fn chain_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    // A message is one line; some of the SDK's are lists.
    text.split_inclusive('\n')
        .map(str::trim)
        .collect::<Vec<_>>()
        .join(" ")
}
