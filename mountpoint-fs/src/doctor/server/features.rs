//! Features of the server, as requests without side effects show them.
//!
//! Pure: answers in, findings out.

use mountpoint_client::crt_client::ListingShape;
use mountpoint_client::{ClientError, ErrorKind};

use crate::doctor::error_text;
use crate::doctor::finding::{Area, Check, Finding};

/// The finding on a GET of a range.
pub(in crate::doctor) fn range(outcome: &Result<(), ClientError>) -> Finding {
    const CHECK: &str = "range requests";
    match outcome {
        Ok(()) => Check(Area::Server, CHECK).ok("a range of an object came as asked"),
        Err(error) if error.kind == ErrorKind::InvalidResponse => {
            let advice = "files cannot be read through this server: use a server, or a proxy, that keeps Range, \
                          Content-Range and ETag";
            Check(Area::Server, CHECK).warning(error_text::what(error), advice)
        }
        Err(error) => unknown(CHECK, error),
    }
}

/// The finding on a GET of a version that does not exist.
pub(in crate::doctor) fn if_match(outcome: &Result<(), ClientError>) -> Finding {
    const CHECK: &str = "conditional reads";
    match outcome {
        // The client gives the status only if the server itself refused.
        Err(error) if error.kind == ErrorKind::PreconditionFailed && error.status.is_some() => {
            Check(Area::Server, CHECK).ok("If-Match is honoured")
        }
        Ok(()) => ignored(),
        Err(error) if error.kind == ErrorKind::PreconditionFailed => ignored(),
        Err(error) => unknown(CHECK, error),
    }
}

fn ignored() -> Finding {
    Check(Area::Server, "conditional reads").warning(
        "the server ignores If-Match; only the ETags of the answers reveal replaced objects",
        "nothing for reading: versions are never mixed; do not count on conditional writes there",
    )
}

/// The findings on a page of a listing, in the server's order.
pub(in crate::doctor) fn listing(
    outcome: &Result<ListingShape, ClientError>,
    is_directory_bucket: bool,
) -> Vec<Finding> {
    const ORDER: &str = "listing order";
    let shape = match outcome {
        Ok(shape) => shape,
        Err(error) => return vec![unknown(ORDER, error)],
    };
    let is_ordered = shape.keys.is_sorted_by(|a, b| a.as_bytes() < b.as_bytes());
    let order = match (shape.keys.len(), is_ordered) {
        (0 | 1, _) => Check(Area::Server, ORDER).ok("not known: too few objects"),
        (len, true) => Check(Area::Server, ORDER).ok(format!("{len} keys in order of bytes")),
        (_, false) if is_directory_bucket => {
            Check(Area::Server, ORDER).ok("none, as in every directory bucket")
        }
        (_, false) => Check(Area::Server, ORDER).warning("keys are not in order of their bytes, or come twice",
            "directories are shown in the server's order; names that come twice on a page are refused: tell the operator of \
             the server",
        ),
    };
    let encoding = if shape.is_encoded {
        Check(Area::Server, ENCODING).ok("keys are URL-encoded, as asked")
    } else {
        Check(Area::Server, ENCODING).warning(
            "keys are not URL-encoded although that was asked",
            "avoid keys with control characters: XML cannot hold them",
        )
    };
    vec![order, encoding]
}

/// The finding on checksums that HeadObject named.
pub(in crate::doctor) fn checksums(key: &str, names: &[String]) -> Finding {
    let found = match names {
        [] => format!("none with '{key}'; {COMPARED}"),
        names => format!("{} with '{key}'; {COMPARED}", names.join(", ")),
    };
    Check(Area::Server, "checksums").ok(found)
}

/// The use of checksums by this version when it reads.
const COMPARED: &str =
    "small files that are read whole are compared with CRC64NVME, CRC32C or CRC32";

/// The finding on RenameObject, which is never tried.
///
/// A server that does not know `?renameObject` would empty the destination.
pub(in crate::doctor) fn rename(is_directory_bucket: bool) -> Finding {
    let found = if is_directory_bucket {
        "a directory bucket has RenameObject, by which files are renamed"
    } else {
        "RenameObject is for directory buckets only, and is never tried elsewhere"
    };
    Check(Area::Server, "rename").ok(found)
}

/// The finding on a feature that an answer does not show.
pub(in crate::doctor) fn unknown(check: &'static str, error: &ClientError) -> Finding {
    Check(Area::Server, check).warning(
        format!("not known: {}", error_text::what(error)),
        error_text::advice(error),
    )
}

const ENCODING: &str = "listing encoding";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;
    use crate::doctor::finding::tests::expect;

    fn error(kind: ErrorKind, status: Option<u16>) -> Result<(), ClientError> {
        let mut error = ClientError::new(kind, "because");
        error.status = status;
        Err(error)
    }

    #[test]
    fn reading() {
        for (outcome, level, text) in [
            (Ok(()), Level::Ok, "as asked"),
            (
                error(ErrorKind::InvalidResponse, None),
                Level::Warning,
                "Content-Range",
            ),
            (
                error(ErrorKind::Denied, Some(403)),
                Level::Warning,
                "not known",
            ),
        ] {
            expect(&[range(&outcome)], "range requests", level, text);
        }
        for (outcome, level, text) in [
            (
                error(ErrorKind::PreconditionFailed, Some(412)),
                Level::Ok,
                "honoured",
            ),
            (
                error(ErrorKind::PreconditionFailed, None),
                Level::Warning,
                "ignores",
            ),
            (Ok(()), Level::Warning, "ignores"),
            (
                error(ErrorKind::Transient, None),
                Level::Warning,
                "not known",
            ),
        ] {
            expect(&[if_match(&outcome)], "conditional reads", level, text);
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of listings")]
    fn listings() {
        for (keys, is_encoded, is_directory, check, level, text) in [
            (
                &["a", "b"][..],
                true,
                false,
                "listing order",
                Level::Ok,
                "2 keys",
            ),
            (
                &["B", "a", "é"],
                true,
                false,
                "listing order",
                Level::Ok,
                "3 keys",
            ),
            (
                &["b", "a"],
                true,
                false,
                "listing order",
                Level::Warning,
                "not in order",
            ),
            (
                &["a", "a"],
                true,
                false,
                "listing order",
                Level::Warning,
                "twice",
            ),
            (
                &["b", "a"],
                true,
                true,
                "listing order",
                Level::Ok,
                "directory bucket",
            ),
            (&["a"], true, false, "listing order", Level::Ok, "too few"),
            (&[], true, false, "listing order", Level::Ok, "too few"),
            (
                &["a"],
                true,
                false,
                "listing encoding",
                Level::Ok,
                "URL-encoded",
            ),
            (
                &["a"],
                false,
                false,
                "listing encoding",
                Level::Warning,
                "XML",
            ),
        ] {
            let shape = ListingShape {
                keys: keys.iter().map(|key| (*key).to_owned()).collect(),
                is_encoded,
            };
            expect(&listing(&Ok(shape), is_directory), check, level, text);
        }
        let failed = Err(ClientError::new(ErrorKind::Transient, "because"));
        expect(
            &listing(&failed, false),
            "listing order",
            Level::Warning,
            "not known",
        );
    }

    #[test]
    fn what_is_only_reported() {
        let names = ["crc32c".to_owned(), "crc64nvme".to_owned()];
        expect(
            &[checksums("k", &names)],
            "checksums",
            Level::Ok,
            "crc32c, crc64nvme",
        );
        expect(
            &[checksums("k", &[])],
            "checksums",
            Level::Ok,
            "none with 'k'",
        );
        expect(&[rename(true)], "rename", Level::Ok, "directory bucket has");
        expect(&[rename(false)], "rename", Level::Ok, "never tried");
    }
}
