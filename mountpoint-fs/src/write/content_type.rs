//! The content type of a new object, by the extension of its name.

/// Content type of `key` by its extension; `None` if the extension is unknown.
pub(in crate::write) fn of(key: &str) -> Option<&'static str> {
    let name = key.rsplit('/').next().unwrap_or(key);
    let (stem, extension) = name.rsplit_once('.')?;
    if stem.is_empty() {
        return None;
    }
    let registered = REGISTERED
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(extension))
        .map(|(_, registered)| *registered);
    registered.or_else(|| mime_guess::from_ext(extension).first_raw())
}

/// Types that IANA has registered since the library's table was made, or that the library lacks.
const REGISTERED: [(&str, &str); 9] = [
    ("jsonl", "application/jsonl"),
    // RFC 9239.
    ("mjs", "text/javascript"),
    // RFC 8081.
    ("otf", "font/otf"),
    // A container of its own for the library.
    ("tgz", "application/gzip"),
    // TypeScript far more often than a video stream.
    ("ts", "text/plain"),
    ("woff", "font/woff"),
    // RFC 9512.
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    // RFC 8878.
    ("zst", "application/zstd"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_extension() {
        for (key, expected) in [
            ("a/b.html", Some("text/html")),
            ("B.JSON", Some("application/json")),
            ("a.tar.gz", Some("application/gzip")),
            ("a.parquet", Some("application/vnd.apache.parquet")),
            ("a.YAML", Some("application/yaml")),
            (
                "a.docx",
                Some("application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
            ),
            ("a.b/c", None),
            (".png", None),
            ("a.", None),
            ("a.unheard-of", None),
        ] {
            assert_eq!(of(key), expected, "{key}");
        }
    }

    #[test]
    fn no_row_repeats_the_library() {
        for (extension, registered) in REGISTERED {
            let guessed = mime_guess::from_ext(extension).first_raw();
            assert_ne!(guessed, Some(registered), "{extension}");
        }
    }
}
