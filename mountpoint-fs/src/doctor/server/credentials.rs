//! The credentials and their source. Pure. Never shows a key.

use mountpoint_client::ClientError;
use mountpoint_client::credentials::CredentialsMode;

use crate::doctor::finding::{Area, Check, Finding};

const CHECK: &str = "credentials";

/// The finding on existing or unneeded credentials.
pub(in crate::doctor) fn found(mode: &CredentialsMode, source: Option<&str>) -> Finding {
    let found = match (mode, source) {
        (CredentialsMode::Unsigned, _) => "none: requests are not signed".to_owned(),
        (_, Some(source)) => format!("from {source}"),
        (_, None) => "found".to_owned(),
    };
    Check(Area::Credentials, CHECK).ok(found)
}

/// The finding on missing credentials, which prevent a client.
pub(in crate::doctor) fn missing(error: &ClientError) -> Finding {
    Check(Area::Credentials, CHECK).failed(error)
}

/// The finding on a credentials provider that did not answer.
pub(in crate::doctor) fn slow(seconds: u64) -> Finding {
    Check(Area::Credentials, CHECK).error(format!("none within {seconds} s: their provider does not answer"),
        "check the profile's credential_process, the role, or the instance metadata (AWS_EC2_METADATA_DISABLED=true \
         skips it)",
    )
}

#[cfg(test)]
mod tests {
    use mountpoint_client::ErrorKind;
    use mountpoint_client::credentials::StaticKeys;

    use super::*;
    use crate::doctor::finding::Level;
    use crate::doctor::finding::tests::expect;

    #[test]
    fn sources() {
        let default = CredentialsMode::Default { profile: None };
        let keys = CredentialsMode::Static(StaticKeys {
            access_key_id: "AKID".to_owned(),
            secret_access_key: "hush".to_owned(),
            session_token: None,
        });
        for (mode, source, text) in [
            (&CredentialsMode::Unsigned, None, "not signed"),
            (&default, Some("the profile x"), "from the profile x"),
            (&default, None, "found"),
            (&keys, None, "found"),
        ] {
            let row = found(mode, source);
            assert!(!format!("{row:?}").contains("hush"));
            expect(&[row], "credentials", Level::Ok, text);
        }
        let error = ClientError::new(
            ErrorKind::Credentials,
            "no usable AWS credentials: x; set y",
        );
        expect(&[missing(&error)], "credentials", Level::Error, "-> set y");
        expect(&[slow(8)], "credentials", Level::Error, "8 s");
    }
}
