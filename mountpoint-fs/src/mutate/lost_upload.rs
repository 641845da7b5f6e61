//! An upload whose completion failed, and whether it has become an object nevertheless.
//!
//! The answer to its completion may have been lost. No other client knows the id of an upload, so
//! an upload that is gone before its abort was completed, unless a lifecycle rule or a client that
//! lists uploads has aborted it: then the current object does not look like the intended one. An
//! ETag computed from those of the parts proves that an object has their bytes. After a conflict
//! with another request S3 may have dropped the upload: then, and where no answer was lost, only
//! such an ETag is a proof.

use mountpoint_client::types::{ETag, ObjectInfo, Part, Upload};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};

use super::fault::{Doubt, LOOKS_THE_SAME, tell_own, unknown};

/// The state of an upload that was given up.
#[derive(Debug)]
pub(crate) enum Abandoned {
    /// The server has forgotten the upload and its parts.
    Aborted,
    /// The server had already forgotten the upload.
    WasGone,
    /// The upload may still exist: the server did not say, or did not abort it.
    Stays(ClientError),
}

/// Asks for `upload`. `None` if the server has it, so that a later attempt continues it. It is
/// aborted where only an abort tells.
pub(crate) async fn find(client: &dyn ObjectClient, upload: &Upload) -> Option<Abandoned> {
    match client.list_parts(upload).await {
        Ok(_) => None,
        Err(error) if error.kind == ErrorKind::NoSuchUpload => Some(Abandoned::WasGone),
        Err(error) if error.kind.is_retryable() => Some(Abandoned::Stays(error)),
        Err(_) => Some(abandon(client, upload, false).await),
    }
}

/// Aborts `upload`; if `may_be_complete`, the answer to its completion was lost.
///
/// Some servers (MinIO) report success for every abort, so in that case the parts are listed first.
pub(crate) async fn abandon(
    client: &dyn ObjectClient,
    upload: &Upload,
    may_be_complete: bool,
) -> Abandoned {
    let is_unknown = |error: &ClientError| error.kind == ErrorKind::NoSuchUpload;
    if may_be_complete
        && client
            .list_parts(upload)
            .await
            .is_err_and(|error| is_unknown(&error))
    {
        return Abandoned::WasGone;
    }
    match client.abort_upload(upload).await {
        Ok(()) => Abandoned::Aborted,
        Err(error) if is_unknown(&error) => Abandoned::WasGone,
        Err(error) => Abandoned::Stays(error),
    }
}

/// The object that an upload was to become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntendedObject<'a> {
    /// Its size in bytes.
    pub(crate) size: u64,
    /// Its parts.
    pub(crate) parts: &'a [Part],
    /// The version to replace, if it is known.
    pub(crate) old: Option<&'a ETag>,
    /// The reason why the upload may have become that object.
    pub(crate) doubt: Doubt,
}

/// Whether the current object is the one that an upload was to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ours,
    NotOurs,
    /// The object looks like it, without proof.
    Unknown,
}

/// The version that `upload` had become before; `None` if it had not. It is `abandoned`, or else it
/// still exists.
///
/// Its completion had failed with `error`. An error if the bucket does not tell.
pub(crate) async fn became(
    client: &dyn ObjectClient,
    (upload, abandoned): (&Upload, Option<&Abandoned>),
    wanted: IntendedObject<'_>,
    error: &ClientError,
) -> Result<Option<ETag>, ClientError> {
    // A refusal is believed unless the contrary is proven.
    let is_refused = wanted.doubt == Doubt::Twice;
    let is_gone = match abandoned {
        Some(Abandoned::Stays(_)) if is_refused => return Ok(None),
        Some(Abandoned::Stays(why)) => return Err(unknown(error, why)),
        Some(Abandoned::Aborted) | None => false,
        Some(Abandoned::WasGone) => true,
    };
    let info = match client.head(&upload.key).await {
        Ok(info) => info,
        Err(there) if is_refused || there.kind == ErrorKind::NotFound => return Ok(None),
        Err(there) => return Err(unknown(error, there)),
    };
    match wanted.is(&info, is_gone) {
        Verdict::Ours => {
            tell_own(&upload.key, error);
            Ok(Some(info.etag))
        }
        Verdict::NotOurs => Ok(None),
        Verdict::Unknown => Err(unknown(error, LOOKS_THE_SAME)),
    }
}

impl IntendedObject<'_> {
    /// Whether the object is the intended one.
    ///
    /// If the upload is gone, an object that fits is the intended one: no other client knows the
    /// upload. If the upload still existed, or the server says so, the object must be made of these
    /// parts and be a new version: the old version may have equal bytes and other headers.
    fn is(&self, info: &ObjectInfo, is_gone: bool) -> Verdict {
        if info.size != self.size {
            return Verdict::NotOurs;
        }
        let is_old = self.old.is_some_and(|old| old.matches(&info.etag));
        if info
            .etag
            .is_of_parts(self.parts.iter().map(|part| &part.etag))
        {
            let is_new = !is_old && self.doubt != Doubt::Twice;
            return match is_gone || is_new {
                true => Verdict::Ours,
                false => Verdict::NotOurs,
            };
        }
        let has_parts = info
            .etag
            .parts()
            .is_none_or(|count| count == self.parts.len());
        match self.doubt {
            Doubt::Lost if is_gone && has_parts && !is_old => Verdict::Ours,
            Doubt::Conflict if is_gone && has_parts && !is_old => Verdict::Unknown,
            _ => Verdict::NotOurs,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use mountpoint_client::types::{Key, PartNumber};

    use super::*;

    /// Part `number`, of 5 bytes.
    fn part(number: u16, etag: &str) -> Part {
        Part {
            number: PartNumber(number),
            etag: ETag::from_header(etag),
            size: 5,
            checksum: None,
        }
    }

    const ONE: &str = "\"11111111111111111111111111111111\"";
    const TWO: &str = "\"22222222222222222222222222222222\"";
    /// An object of another client.
    const THEIRS: &str = "\"33333333333333333333333333333333-2\"";

    #[test]
    fn what_an_object_says_of_an_upload_whose_answer_was_lost() {
        let ours = ETag::of_parts([&ETag::from_header(ONE), &ETag::from_header(TWO)]).unwrap();
        let ours = ours.as_str();
        // Garage computes this ETag from the same parts.
        let text = "\"846561904750555293980a84ecdee8a9-2\"";
        #[rustfmt::skip]
        let cases = [
            // ETag and size of the current object, the old ETag; whether it is ours if the upload
            // is gone, and if it was aborted.
            (ours, 10, None, (true, true)),
            (ours, 10, Some(ours), (true, false)),
            (ours, 10, Some(THEIRS), (true, true)),
            (ours, 9, None, (false, false)),
            (text, 10, Some(THEIRS), (true, true)),
            (text, 10, Some(text), (true, false)),
            (THEIRS, 10, None, (true, false)),
            (THEIRS, 10, Some(THEIRS), (false, false)),
            (THEIRS, 10, Some(ours), (true, false)),
            (ONE, 10, None, (true, false)),
            ("\"33333333333333333333333333333333-3\"", 10, None, (false, false)),
            ("\"any\"", 10, Some(THEIRS), (true, false)),
            ("\"any\"", 10, Some("any"), (false, false)),
        ];
        for (there, size, old, expected) in cases {
            let info = ObjectInfo {
                key: Key::parse("key").unwrap(),
                size,
                etag: ETag::from_header(there),
                last_modified: SystemTime::UNIX_EPOCH,
                storage_class: None,
                restored: false,
            };
            let old = old.map(ETag::from_header);
            let is = |doubt| {
                let wanted = IntendedObject {
                    size: 10,
                    parts: &[part(1, ONE), part(2, TWO)],
                    old: old.as_ref(),
                    doubt,
                };
                [wanted.is(&info, true), wanted.is(&info, false)]
            };
            let case = format!("{there} {size} {old:?}");
            let verdict = |is_ours| match is_ours {
                true => Verdict::Ours,
                false => Verdict::NotOurs,
            };
            let expected = [verdict(expected.0), verdict(expected.1)];
            assert_eq!(is(Doubt::Lost), expected, "{case}");
            // Without an ETag of its parts no object is believed.
            let is_proven = [ours, text].contains(&there) && size == 10;
            let looks_so = |verdict| match verdict {
                Verdict::Ours if !is_proven => Verdict::Unknown,
                verdict => verdict,
            };
            assert_eq!(is(Doubt::Conflict), expected.map(looks_so), "{case}");
            let is_done = [verdict(is_proven), Verdict::NotOurs];
            assert_eq!(is(Doubt::Twice), is_done, "{case}");
        }
    }
}
