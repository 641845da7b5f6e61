//! A client's error as a row: the failure and its remedy. Pure.

use mountpoint_client::{ClientError, ErrorKind};

/// The failure, without the hint that goes into [`advice`].
pub(super) fn what(error: &ClientError) -> String {
    let (what, hint) = parts(&error.message);
    let what = match (hint, has_own_advice(&error.kind)) {
        (Some(hint), true) => format!("{what}; {hint}"),
        _ => what,
    };
    match error.status {
        Some(status) => format!("{what} (HTTP {status})"),
        None => what,
    }
}

/// Whether the doctor's advice is better. The client does not know the needs of a mount.
fn has_own_advice(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::Denied | ErrorKind::NoSuchBucket)
}

/// The remedy: the client's own hint, or that for the kind of error.
pub(super) fn advice(error: &ClientError) -> String {
    if let (_, Some(hint)) = parts(&error.message)
        && !has_own_advice(&error.kind)
    {
        return hint;
    }
    match &error.kind {
        ErrorKind::NoSuchBucket | ErrorKind::NotFound => {
            "check the bucket's name, --region and --endpoint-url; S3-compatible servers need --force-path-style"
                .to_owned()
        }
        ErrorKind::Denied => {
            "the credentials need s3:ListBucket on the bucket and s3:GetObject on its objects; \
             a public bucket needs --no-sign-request"
                .to_owned()
        }
        ErrorKind::Credentials => {
            "check the keys, --profile, and the clock of this machine".to_owned()
        }
        ErrorKind::WrongRegion(Some(region)) => format!("mount with --region {region}"),
        ErrorKind::WrongRegion(None) => "name the bucket's region with --region".to_owned(),
        ErrorKind::Unreachable => "check --endpoint-url, the network and the proxy".to_owned(),
        ErrorKind::Conflict | ErrorKind::Throttled | ErrorKind::Transient => {
            "try again; if it stays, ask the operator of the server".to_owned()
        }
        ErrorKind::InvalidResponse => {
            "check --endpoint-url: the server there may be no S3 server".to_owned()
        }
        ErrorKind::Archived => "restore the object before reading it".to_owned(),
        ErrorKind::Unsupported
        | ErrorKind::InvalidRequest
        | ErrorKind::PreconditionFailed
        | ErrorKind::NoSuchUpload
        | ErrorKind::TooManyParts
        | ErrorKind::Cancelled => "check the flags against `mount-s3 --help`".to_owned(),
    }
}

/// A message and its hint: "what failed: why; what to do".
///
/// Text in brackets or between backticks is not cut.
pub(super) fn split_hint(message: &str) -> (&str, Option<&str>) {
    match ends_of_clauses(message).last() {
        Some(at) => (&message[..*at], Some(&message[at + CLAUSE_END.len()..])),
        None => (message, None),
    }
}

/// The advice without clauses about flags that were given.
pub(super) fn without_given(advice: &str, is_given: impl Fn(&str) -> bool) -> String {
    let mut kept = Vec::new();
    let mut from = 0;
    let ends = ends_of_clauses(advice);
    for end in ends.into_iter().chain([advice.len()]) {
        let clause = &advice[from..end];
        from = end + CLAUSE_END.len();
        let given = SWITCHES
            .iter()
            .find(|(flag, _)| clause.contains(flag) && is_given(flag));
        match given {
            Some((_, instead)) => kept.extend(Some(*instead).filter(|text| !text.is_empty())),
            None => kept.push(clause),
        }
    }
    match kept.is_empty() {
        true => advice.to_owned(),
        false => kept.join(CLAUSE_END),
    }
}

/// Switches that advice may name, and the advice for users who gave them.
const SWITCHES: [(&str, &str); 2] = [
    ("--force-path-style", ""),
    (
        "--no-sign-request",
        "the bucket is not public: leave --no-sign-request out, and use credentials",
    ),
];

const CLAUSE_END: &str = "; ";

/// Ends of clauses, except those in brackets or between backticks.
fn ends_of_clauses(text: &str) -> Vec<usize> {
    let (mut depth, mut is_code) = (0_usize, false);
    let mut ends = Vec::new();
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '`' => is_code = !is_code,
            ';' if depth == 0 && !is_code && text[at..].starts_with(CLAUSE_END) => ends.push(at),
            _ => {}
        }
    }
    ends
}

/// Splits like [`split_hint`], with the number of attempts moved to the failure. The client appends
/// that number to the whole message.
fn parts(message: &str) -> (String, Option<String>) {
    let (message, attempts) = match message.rfind(" (after ") {
        Some(at) if message.ends_with(" attempts)") => message.split_at(at),
        _ => (message, ""),
    };
    let (what, hint) = split_hint(message);
    (format!("{what}{attempts}"), hint.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_split() {
        for (kind, message, status, found, hint) in [
            (
                ErrorKind::Unreachable,
                "ListObjectsV2 s3://b: cannot reach http://x: refused; check this and that (after 3 attempts)",
                None,
                "ListObjectsV2 s3://b: cannot reach http://x: refused (after 3 attempts)",
                "check this and that",
            ),
            (
                ErrorKind::Denied,
                "HeadBucket s3://b: AccessDenied; check this",
                Some(403),
                "HeadBucket s3://b: AccessDenied; check this (HTTP 403)",
                "s3:ListBucket",
            ),
            (
                ErrorKind::WrongRegion(Some("eu-west-1".to_owned())),
                "moved",
                Some(301),
                "moved (HTTP 301)",
                "--region eu-west-1",
            ),
            (
                ErrorKind::NoSuchBucket,
                "gone",
                None,
                "gone",
                "--endpoint-url",
            ),
        ] {
            let mut error = ClientError::new(kind, message);
            error.status = status;
            assert_eq!(what(&error), found);
            assert!(advice(&error).contains(hint), "{}", advice(&error));
        }
    }

    #[test]
    fn brackets_are_not_cut() {
        for (message, what, hint) in [
            ("a; b", "a", Some("b")),
            ("a; b; c", "a; b", Some("c")),
            ("a (x; y), or b", "a (x; y), or b", None),
            (
                "a is mounted; `umount a` (`b`; `umount -l a` if c), or d",
                "a is mounted",
                Some("`umount a` (`b`; `umount -l a` if c), or d"),
            ),
            ("a `x; y`; z", "a `x; y`", Some("z")),
        ] {
            assert_eq!(split_hint(message), (what, hint));
        }
    }

    #[test]
    fn flags_that_were_given_are_not_advised() {
        let denied = advice(&ClientError::new(ErrorKind::Denied, "x"));
        let absent = advice(&ClientError::new(ErrorKind::NoSuchBucket, "x"));
        let none = |_: &str| false;
        assert_eq!(without_given(&denied, none), denied);
        let unsigned = without_given(&denied, |flag| flag == "--no-sign-request");
        assert!(unsigned.ends_with("leave --no-sign-request out, and use credentials"));
        let styled = without_given(&absent, |flag| flag == "--force-path-style");
        assert_eq!(
            styled,
            "check the bucket's name, --region and --endpoint-url"
        );
        assert_eq!(
            without_given("give --force-path-style", |_| true),
            "give --force-path-style"
        );
    }

    #[test]
    fn every_kind_has_advice() {
        for kind in [
            ErrorKind::NotFound,
            ErrorKind::NoSuchUpload,
            ErrorKind::PreconditionFailed,
            ErrorKind::Archived,
            ErrorKind::Credentials,
            ErrorKind::WrongRegion(None),
            ErrorKind::Unsupported,
            ErrorKind::InvalidRequest,
            ErrorKind::InvalidResponse,
            ErrorKind::Throttled,
            ErrorKind::Unreachable,
            ErrorKind::Transient,
            ErrorKind::Cancelled,
        ] {
            assert!(!advice(&ClientError::new(kind, "x")).is_empty());
        }
    }
}
