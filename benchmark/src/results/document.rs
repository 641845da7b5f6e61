//! Puts a run's tables into a document, between the markers of each group. Pure.

use anyhow::{Result, ensure};

/// The text with what is between `<!-- NAME: begin -->` and `<!-- NAME: end -->` replaced.
pub(crate) fn replaced(document: &str, name: &str, section: &str) -> Result<String> {
    let (begin, end) = (
        format!("<!-- {name}: begin -->"),
        format!("<!-- {name}: end -->"),
    );
    let found = document.split_once(&begin);
    let found = found.and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    ensure!(
        found.is_some(),
        "the document has no markers {begin} and {end}"
    );
    let (before, after) = found.unwrap_or_default();
    Ok(format!(
        "{before}{begin}\n\n{}\n\n{end}{after}",
        section.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_markers_is_replaced() {
        let document =
            "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb <!-- y: begin --> <!-- y: end -->";
        let expected =
            "a\n<!-- x: begin -->\n\nnew\n\n<!-- x: end -->\nb <!-- y: begin --> <!-- y: end -->";
        assert_eq!(replaced(document, "x", "\nnew\n").unwrap(), expected);
        assert_eq!(replaced(expected, "x", "new").unwrap(), expected);
    }

    #[test]
    fn a_document_without_markers_is_an_error() {
        for document in ["", "<!-- x: begin -->", "<!-- x: end --> <!-- x: begin -->"] {
            assert!(replaced(document, "x", "new").is_err(), "{document:?}");
        }
    }
}
