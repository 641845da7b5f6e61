//! Features of the server that only writing shows.
//!
//! Pure: answers in, findings out.

use std::time::Duration;

use mountpoint_client::types::{DeleteFailure, ETag};
use mountpoint_client::{ClientError, ErrorKind};

use super::DOCTOR_STEP;
use super::features;
use crate::doctor::error_text;
use crate::doctor::finding::{Area, Check, Finding};

pub(in crate::doctor) fn allowed<T>(
    check: &'static str,
    outcome: &Result<T, ClientError>,
) -> Finding {
    match outcome {
        Ok(_) => Check(AREA, check).ok("allowed"),
        Err(error) => unclear(check, error),
    }
}

/// The finding on a write to a key that has an object, on the condition `header`, which does not
/// hold: that there is none, or that it has another version.
pub(in crate::doctor) fn condition<T>(
    check: &'static str,
    header: &'static str,
    outcome: &Result<T, ClientError>,
) -> Finding {
    let lack = match outcome {
        Err(error) if error.kind == ErrorKind::PreconditionFailed => {
            return Check(AREA, check).ok(format!("{header} is honoured"));
        }
        Ok(_) => "ignores",
        Err(error) if error.kind == ErrorKind::Unsupported => "refuses",
        Err(error) => return unclear(check, error),
    };
    Check(AREA, check).warning(format!(
            "the server {lack} {header}: of two hosts that create or change one file, the second may replace the first's"
        ),
        "no flag helps: let one host write there, or give each host names of its own",
    )
}

pub(in crate::doctor) fn copy_condition<T>(outcome: &Result<T, ClientError>) -> Finding {
    const CHECK: &str = "conditional CopyObject";
    let lack = match outcome {
        Err(error) if error.kind == ErrorKind::PreconditionFailed => {
            return Check(AREA, CHECK).ok("If-None-Match is honoured");
        }
        Ok(_) => "ignores",
        Err(error) if error.kind == ErrorKind::Unsupported => "refuses",
        Err(error) => return unclear(CHECK, error),
    };
    Check(AREA, CHECK).warning(format!(
            "the server {lack} If-None-Match of copies: changes of attributes and renames to new names are uploads of \
             copied parts, which take three requests and lose tags"
        ),
        "nothing to do",
    )
}

pub(in crate::doctor) fn upload_checksums<T>(outcome: &Result<T, ClientError>) -> Finding {
    const CHECK: &str = "upload checksums";
    match outcome {
        Ok(_) => Check(AREA, CHECK).ok("accepted"),
        Err(error) if is_refusal(error) => Check(AREA, CHECK).warning(
            format!(
                "{}; damage on the way would not be noticed",
                error_text::what(error)
            ),
            "mount with --upload-checksums off, and reach the server over https",
        ),
        Err(error) => unclear(CHECK, error),
    }
}

/// The finding on a request for an object's checksums, and their names.
pub(in crate::doctor) fn read_checksums(outcome: &Result<Vec<String>, ClientError>) -> Finding {
    const CHECK: &str = "checksums of reads";
    match outcome {
        Ok(names) if names.is_empty() => Check(AREA, CHECK).ok("may be asked for; none told"),
        Ok(names) => Check(AREA, CHECK).ok(names.join(", ")),
        Err(error) if is_refusal(error) => Check(AREA, CHECK).warning("the server refuses x-amz-checksum-mode: the bytes of small files are compared with no checksum",
            "no flag helps: reach the server over https, which notices damage on the way",
        ),
        Err(error) => unclear(CHECK, error),
    }
}

pub(in crate::doctor) fn copies<T>(outcome: &Result<T, ClientError>) -> Finding {
    const CHECK: &str = "CopyObject";
    match outcome {
        Ok(_) => Check(AREA, CHECK).ok("an object was copied on the server"),
        Err(error) if is_lack(error) => Check(AREA, CHECK).warning(
            format!(
                "{}; files cannot be renamed, nor their mode or times changed",
                error_text::what(error)
            ),
            "no flag helps: write files under their final names",
        ),
        Err(error) => unclear(CHECK, error),
    }
}

pub(in crate::doctor) fn part_copies<T>(outcome: &Result<T, ClientError>) -> Finding {
    match outcome {
        Ok(_) => Check(AREA, PART_COPY).ok("a part was copied on the server"),
        Err(error) if is_lack(error) => Check(AREA, PART_COPY).warning(format!(
                "{}; bytes go through this machine where a large file is copied, renamed or appended to",
                error_text::what(error)
            ),
            "no flag helps: copy large files with a tool of the server",
        ),
        Err(error) => unclear(PART_COPY, error),
    }
}

/// The finding on a DeleteObject of another version than there is.
pub(in crate::doctor) fn deletion(outcome: &Result<(), ClientError>) -> Finding {
    const CHECK: &str = "conditional DeleteObject";
    let lack = match outcome {
        Err(error) if error.kind == ErrorKind::PreconditionFailed => {
            return Check(AREA, CHECK).ok("If-Match is honoured");
        }
        Ok(()) => "ignores",
        Err(error) if is_refusal(error) => "refuses",
        Err(error) => return unclear(CHECK, error),
    };
    Check(AREA, CHECK).warning(format!(
            "the server {lack} If-Match: the rename of a file deletes what another host writes under its old name in the moment before the deletion"
        ),
        "no flag helps: rename files while no other host writes them",
    )
}

/// The finding on a DeleteObjects of another version than there is, and on one without versions.
pub(in crate::doctor) fn deletions(
    versions: &Result<Vec<DeleteFailure>, ClientError>,
    lists: &Result<Vec<DeleteFailure>, ClientError>,
) -> Finding {
    const CHECK: &str = "DeleteObjects";
    let lack = match (versions, lists) {
        (Ok(failures), _) => match failures.first().map(|failure| &failure.error) {
            Some(error) if error.kind == ErrorKind::PreconditionFailed => {
                return Check(AREA, CHECK).ok("ETags in lists are honoured");
            }
            None => {
                return Check(AREA, CHECK).warning("the server ignores ETags in lists: the rename of a directory deletes its objects one by one",
                    "no flag helps: large directories take longer",
                );
            }
            Some(error) if !is_lack(error) => return unclear(CHECK, error),
            Some(_) => "lists with ETags",
        },
        (Err(error), _) if !is_lack(error) => return unclear(CHECK, error),
        (Err(_), Ok(failures)) if failures.is_empty() => "lists with ETags",
        (Err(_), _) => "lists",
    };
    Check(AREA, CHECK).warning(
        format!(
            "the server refuses {lack}: the rename of a directory deletes its objects one by one"
        ),
        "no flag helps: large directories take longer",
    )
}

/// The finding on the ETags of one object: at its completion, in HEAD and in a listing.
pub(in crate::doctor) fn etags(
    completed: &ETag,
    head: &Result<ETag, ClientError>,
    listed: &Result<Option<ETag>, ClientError>,
) -> Finding {
    const CHECK: &str = "ETags of uploads";
    let (head, listed) = match (head, listed) {
        (Ok(head), Ok(Some(listed))) => (head, listed),
        (Ok(_), Ok(None)) => {
            return Check(AREA, CHECK).warning(
                "a listing lacks an object that was just made: new files may appear late",
                "no flag helps: ask the operator of the server",
            );
        }
        (Err(error), _) | (_, Err(error)) => return unclear(CHECK, error),
    };
    let (found, advice) = match (head.matches(completed), head.matches(listed)) {
        (true, true) => return Check(AREA, CHECK).ok("the same at completion, HEAD and LIST"),
        (false, true) => (
            "CompleteMultipartUpload tells another ETag than HEAD and LIST: each large file that is written costs a request more",
            "no flag helps, and nothing is lost",
        ),
        (_, false) => (
            "HEAD and LIST tell different ETags of one object: files seem changed by another host (ESTALE)",
            "no flag helps: ask the operator of the server",
        ),
    };
    Check(AREA, CHECK).warning(found, advice)
}

/// The finding on the removal; `left` may still be there.
pub(in crate::doctor) fn removed(left: &[String], folder: &str, is_unanswered: bool) -> Finding {
    const CHECK: &str = "temporary objects";
    let advice = format!("delete the objects below {folder}, and abort its uploads");
    let found = match (left, is_unanswered) {
        ([], false) => {
            let found = format!("nothing stays below {folder}");
            return Check(AREA, CHECK).ok(found);
        }
        ([], true) => "removed, but a request without an answer may take effect later".to_owned(),
        (left, _) => format!("not removed: {}", left.join(", ")),
    };
    Check(AREA, CHECK).warning(found, advice)
}

/// The finding on a trial that was not begun.
pub(in crate::doctor) fn not_tried(why: &str, advice: &str) -> Finding {
    Check(AREA, WRITES).warning(format!("not tried: {why}"), advice)
}

pub(in crate::doctor) fn interrupted() -> Finding {
    Check(AREA, WRITES).error("broken off by a signal", "run it again")
}

pub(in crate::doctor) fn slow() -> Finding {
    Check(AREA, WRITES).warning(
        format!(
            "broken off: no answer within {} s, or not all within {} s",
            DOCTOR_STEP.as_secs(),
            DOCTOR_WRITES.as_secs()
        ),
        "check the network, and run it again",
    )
}

/// Whether the server does not know the feature.
fn is_refusal(error: &ClientError) -> bool {
    matches!(
        error.kind,
        ErrorKind::Unsupported | ErrorKind::InvalidRequest
    )
}

/// Likewise, also by a malformed answer.
fn is_lack(error: &ClientError) -> bool {
    is_refusal(error) || error.kind == ErrorKind::InvalidResponse
}

/// The finding on an answer that shows nothing of the feature.
pub(in crate::doctor) fn unclear(check: &'static str, error: &ClientError) -> Finding {
    if error.kind != ErrorKind::Denied {
        return features::unknown(check, error);
    }
    let advice = "the credentials need s3:PutObject, s3:GetObject, s3:DeleteObject and s3:AbortMultipartUpload to \
                  write";
    Check(AREA, check).warning(error_text::what(error), advice)
}

const AREA: Area = Area::Server;
const WRITES: &str = "write checks";
pub(in crate::doctor) const PART_COPY: &str = "UploadPartCopy";

/// How long the doctor tries writes. 20 requests, one of them with 5 MiB.
pub(super) const DOCTOR_WRITES: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use mountpoint_client::types::Key;

    use super::*;
    use crate::doctor::finding::Level;
    use crate::doctor::finding::tests::expect;

    fn error<T>(kind: ErrorKind) -> Result<T, ClientError> {
        Err(ClientError::new(kind, "because"))
    }

    /// Checks the finding on each outcome of a request.
    #[track_caller]
    fn check(judge: impl Fn(&Result<(), ClientError>) -> Finding, rows: &[Row]) {
        for (outcome, level, text) in rows {
            let row = judge(&outcome.clone().map_or(Ok(()), error));
            let check = row.check;
            expect(&[row], check, *level, text);
        }
    }

    /// The kind of failure, if there was one; the finding's level and text.
    type Row = (Option<ErrorKind>, Level, &'static str);

    #[test]
    fn one_request_each() {
        let denied = (Some(ErrorKind::Denied), Level::Warning, "s3:DeleteObject");
        let failed = (Some(ErrorKind::Transient), Level::Warning, "not known");
        let rows = [denied.clone(), failed.clone(), (None, Level::Ok, "allowed")];
        check(|outcome| allowed("PutObject", outcome), &rows);
        let held = (Some(ErrorKind::PreconditionFailed), Level::Ok, "honoured");
        let ignored = (None, Level::Warning, "ignores If-None-Match");
        let refused = (Some(ErrorKind::Unsupported), Level::Warning, "refuses If");
        let rows = [denied.clone(), failed.clone(), held, ignored, refused];
        let header = "If-None-Match";
        check(|outcome| condition("conditional", header, outcome), &rows);
        let held = (Some(ErrorKind::PreconditionFailed), Level::Ok, "honoured");
        let ignored = (None, Level::Warning, "ignores If-Match");
        let refused = (Some(ErrorKind::Unsupported), Level::Warning, "refuses If");
        let rows = [denied.clone(), failed.clone(), held, ignored, refused];
        let header = "If-Match";
        check(|outcome| condition("replacing", header, outcome), &rows);
        check(deletion, &rows);
        for (judge, text) in [
            (upload_checksums as fn(&_) -> _, "--upload-checksums off"),
            (copies, "cannot be renamed"),
            (part_copies, "through this machine"),
        ] {
            let refused = (Some(ErrorKind::Unsupported), Level::Warning, text);
            let invalid = (Some(ErrorKind::InvalidRequest), Level::Warning, text);
            let done = (None, Level::Ok, "");
            let rows = [denied.clone(), failed.clone(), refused, invalid, done];
            check(judge, &rows);
        }
    }

    #[test]
    fn checksums_of_reads() {
        let names = vec!["crc32c".to_owned()];
        for (outcome, level, text) in [
            (Ok(names), Level::Ok, "crc32c"),
            (Ok(Vec::new()), Level::Ok, "none told"),
            (
                error(ErrorKind::Unsupported),
                Level::Warning,
                "refuses x-amz-checksum-mode",
            ),
            (error(ErrorKind::Transient), Level::Warning, "not known"),
        ] {
            let row = read_checksums(&outcome);
            expect(&[row], "checksums of reads", level, text);
        }
    }

    #[test]
    fn lists_of_deletions() {
        let gone = || Ok(Vec::new());
        let stays = |kind| {
            Ok(vec![DeleteFailure {
                key: Key::parse("k").unwrap(),
                error: ClientError::new(kind, "because"),
            }])
        };
        let refused = || error(ErrorKind::Unsupported);
        for (versions, lists, level, text) in [
            (
                stays(ErrorKind::PreconditionFailed),
                gone(),
                Level::Ok,
                "honoured",
            ),
            (gone(), gone(), Level::Warning, "ignores ETags"),
            (
                stays(ErrorKind::Unsupported),
                gone(),
                Level::Warning,
                "lists with ETags",
            ),
            (
                stays(ErrorKind::Denied),
                gone(),
                Level::Warning,
                "s3:DeleteObject",
            ),
            (refused(), gone(), Level::Warning, "lists with ETags"),
            (refused(), refused(), Level::Warning, "refuses lists:"),
            (
                error(ErrorKind::Transient),
                gone(),
                Level::Warning,
                "not known",
            ),
        ] {
            let row = deletions(&versions, &lists);
            expect(&[row], "DeleteObjects", level, text);
        }
    }

    #[test]
    fn etags_of_one_object() {
        let etag = |text| ETag::from_header(text);
        let (one, two) = (etag("\"1\""), etag("\"2\""));
        for (head, listed, level, text) in [
            (Ok(one.clone()), Ok(Some(one.clone())), Level::Ok, "same"),
            (
                Ok(two.clone()),
                Ok(Some(two.clone())),
                Level::Warning,
                "another ETag than HEAD and LIST",
            ),
            (
                Ok(one.clone()),
                Ok(Some(two)),
                Level::Warning,
                "HEAD and LIST tell different",
            ),
            (Ok(one.clone()), Ok(None), Level::Warning, "lacks"),
            (
                error(ErrorKind::Transient),
                Ok(None),
                Level::Warning,
                "not known",
            ),
        ] {
            let row = etags(&one, &head, &listed);
            expect(&[row], "ETags of uploads", level, text);
        }
    }

    #[test]
    fn the_end() {
        let left = ["a/b".to_owned(), "the upload 7".to_owned()];
        for (left, is_unanswered, level, text) in [
            (&[][..], false, Level::Ok, "nothing stays below a/"),
            (&[], true, Level::Warning, "may take effect later"),
            (
                &left,
                false,
                Level::Warning,
                "not removed: a/b, the upload 7",
            ),
        ] {
            let row = removed(left, "a/", is_unanswered);
            expect(&[row], "temporary objects", level, text);
        }
        expect(&[interrupted()], "write checks", Level::Error, "signal");
        expect(
            &[slow()],
            "write checks",
            Level::Warning,
            "no answer within",
        );
        let row = not_tried("why", "do that");
        expect(&[row], "write checks", Level::Warning, "why");
    }
}
