//! An upload that is given up, and whether it had become an object before: its completion may have been answered to nobody.
//!
//! Nobody else knows the id of an upload. So one that is gone when it is to be aborted was completed, unless it was aborted
//! by who lists uploads, or a lifecycle rule: then the object that is there is not what it was to become, as far as can be
//! seen. A tag that is made of those of its parts says for certain that an object has their bytes. After a conflict with
//! another request S3 may have dropped the upload: then, and where no answer was lost, nothing but such a tag is a proof.

use mountpoint_client::types::{ETag, ObjectInfo, Part, Upload};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};

use super::fault::{Doubt, LOOKS_THE_SAME, tell_own, unknown};

/// What became of an upload that was given up.
#[derive(Debug)]
pub(crate) enum Abandoned {
    /// The server has forgotten it, and its parts.
    Aborted,
    /// The server did not know it any more.
    WasGone,
    /// It is there still.
    Stays(ClientError),
}

/// Has the server forget `upload`, of which the completion was answered to nobody if `may_be_complete`.
///
/// Some servers (MinIO) say of every abort that it was done, so then its parts are asked for first.
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

/// What an upload was to become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// Bytes.
    pub(crate) size: u64,
    /// What it was to be made of.
    pub(crate) parts: &'a [Part],
    /// The version that it was to replace, as far as that is known.
    pub(crate) old: Option<&'a ETag>,
    /// Why it may have become that.
    pub(crate) doubt: Doubt,
}

/// Whether the object that is there is the one that an upload was to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ours,
    NotOurs,
    /// It looks so, and that is no proof.
    Unknown,
}

/// The version that `upload`, which was given up after its completion had failed with `error`, had become before; `None` if
/// it had not. An error if nobody can tell.
pub(crate) async fn became(
    client: &dyn ObjectClient,
    (upload, abandoned): (&Upload, &Abandoned),
    wanted: Wanted<'_>,
    error: &ClientError,
) -> Result<Option<ETag>, ClientError> {
    // A refusal is true unless the contrary is proven.
    let is_refused = wanted.doubt == Doubt::Twice;
    let is_gone = match abandoned {
        Abandoned::Stays(_) if is_refused => return Ok(None),
        Abandoned::Stays(why) => return Err(unknown(error, why)),
        Abandoned::Aborted => false,
        Abandoned::WasGone => true,
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

impl Wanted<'_> {
    /// Whether the object is what was wanted. If the upload is gone, what could be it is: nobody else knows of it. If it was
    /// there, or the server says so, the object must be made of these parts, and be another version than the one before: of
    /// the same bytes that one may be, with something else that it carries.
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
    /// An object of others.
    const THEIRS: &str = "\"33333333333333333333333333333333-2\"";

    #[test]
    fn what_an_object_says_of_an_upload_whose_answer_was_lost() {
        let ours = ETag::of_parts([&ETag::from_header(ONE), &ETag::from_header(TWO)]).unwrap();
        let ours = ours.as_str();
        // As Garage makes it of the same parts.
        let text = "\"846561904750555293980a84ecdee8a9-2\"";
        #[rustfmt::skip]
        let cases = [
            // What is there, its size, what was there: whether it is ours if the upload is gone, and if it was aborted.
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
                let wanted = Wanted {
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
            // Without a tag of its parts nothing is believed.
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
