//! Whether a write was done whose answer does not tell.
//!
//! A request whose answer was lost is sent again, and the effect of the first one may refuse the
//! second; a proxy may do the same by itself. Only the token in the object's metadata tells then
//! whose the object is: other hosts write equal bytes, at the same time, with equal ETags. Without
//! that proof the refusal counts, or the outcome is unknown.

use mountpoint_client::types::{ETag, Key, ObjectInfo, PutOutput, Upload, WriteToken};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};

use super::fault::{Doubt, unknown};

/// The object at `key`, if the write with `token`, which failed with `error`, has made it.
///
/// An error if an answer was lost, and the bucket does not tell.
pub(crate) async fn made_by(
    client: &dyn ObjectClient,
    key: &Key,
    token: Option<&WriteToken>,
    error: &ClientError,
) -> Result<Option<ObjectInfo>, ClientError> {
    let Some(doubt) = Doubt::of(error) else {
        return Ok(None);
    };
    let is_refused = doubt == Doubt::Twice;
    let Some(token) = token else {
        return match is_refused {
            true => Ok(None),
            false => Err(unknown(error, NO_TOKEN)),
        };
    };
    match client.head_details(key).await {
        Ok(there) if there.token.as_ref() == Some(token) => {
            tracing::warn!(
                %key,
                "the bucket has the object of this write, so the change was made, although its last answer was: {error}"
            );
            Ok(Some(there.info))
        }
        Ok(_) => Ok(None),
        Err(there) if there.kind == ErrorKind::NotFound => Ok(None),
        // The first error is true, or tells as much.
        Err(there) if is_refused && !there.kind.is_retryable() => Ok(None),
        Err(_) if error.kind.is_retryable() => Ok(None),
        Err(there) => Err(unknown(error, there)),
    }
}

/// Aborts `upload`. An error if it may still exist.
pub(crate) async fn abandon(client: &dyn ObjectClient, upload: &Upload) -> Result<(), ClientError> {
    match client.abort_upload(upload).await {
        Err(error) if error.kind != ErrorKind::NoSuchUpload => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The version that the write of `key` with `token` has made, whatever its `answer` was.
pub(super) async fn settled(
    client: &dyn ObjectClient,
    key: &Key,
    token: Option<&WriteToken>,
    answer: Result<PutOutput, ClientError>,
) -> Result<ETag, ClientError> {
    let error = match answer {
        Ok(output) => return Ok(output.etag),
        Err(error) => error,
    };
    let made = made_by(client, key, token, &error).await?;
    made.map(|there| there.etag).ok_or(error)
}

/// Why nothing tells whose an object is.
pub(super) const NO_TOKEN: &str = "its metadata leave no room for a token";

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use mountpoint_client::SimClient;
    use mountpoint_client::testing::sim::{Content, Operation, SimObject, SimOptions};
    use mountpoint_client::types::ObjectHeaders;

    use super::*;

    /// What the bucket has.
    enum There {
        Nothing,
        Token(WriteToken),
        NoToken,
        Unreadable(ErrorKind),
    }

    /// `Ok` with whether the object is ours, or the kind of the error.
    fn check(
        token: Option<&WriteToken>,
        error: &ClientError,
        there: There,
    ) -> Result<bool, ErrorKind> {
        let client = SimClient::new(SimOptions::default());
        let key = Key::parse("key").unwrap();
        let put = |token| {
            client.insert(SimObject {
                headers: ObjectHeaders {
                    token,
                    ..ObjectHeaders::default()
                },
                ..SimObject::new(key.clone(), Content::bytes("equal bytes"))
            });
        };
        match there {
            There::Nothing => {}
            There::Token(token) => put(Some(token)),
            There::NoToken => put(None),
            There::Unreadable(kind) => client.fail_next(Operation::HeadObject, 1, kind),
        }
        let made = made_by(&client, &key, token, error).now_or_never().unwrap();
        made.map(|made| made.is_some()).map_err(|error| error.kind)
    }

    #[test]
    fn only_the_token_proves_that_a_write_was_done() {
        let token = WriteToken::random();
        let refused = || ClientError::new(ErrorKind::PreconditionFailed, "412");
        let lost = ClientError {
            answer_was_lost: true,
            ..refused()
        };
        let twice = ClientError {
            maybe_twice: true,
            ..refused()
        };
        let open = ClientError::new(ErrorKind::Transient, "500").with_status(500);
        let denied = || There::Unreadable(ErrorKind::Denied);
        for error in [&lost, &twice, &open] {
            let case = format!("{error:?}");
            let ours = There::Token(token.clone());
            assert_eq!(check(Some(&token), error, ours), Ok(true), "{case}");
            let theirs = There::Token(WriteToken::random());
            assert_eq!(check(Some(&token), error, theirs), Ok(false), "{case}");
            for there in [There::NoToken, There::Nothing] {
                assert_eq!(check(Some(&token), error, there), Ok(false), "{case}");
            }
        }
        // A refusal that nothing contradicts counts; else the outcome is unknown.
        assert_eq!(check(Some(&token), &twice, denied()), Ok(false));
        assert_eq!(check(Some(&token), &open, denied()), Ok(false));
        let unknown = Err(ErrorKind::Transient);
        assert_eq!(check(Some(&token), &lost, denied()), unknown);
        assert_eq!(check(None, &lost, There::NoToken), unknown);
        assert_eq!(check(None, &twice, There::NoToken), Ok(false));
        // Nothing is in doubt.
        let ours = There::Token(token.clone());
        assert_eq!(check(Some(&token), &refused(), ours), Ok(false));
    }
}
