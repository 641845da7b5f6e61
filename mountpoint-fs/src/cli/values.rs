//! Values of flags: text in, checked value or a text for the user out.

use std::str::FromStr;
use std::time::Duration;

/// How long names and attributes may be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeToLive {
    /// As short as an application can make use of.
    Minimal,
    /// For ever.
    Indefinite,
    /// So many seconds.
    Seconds(u64),
}

impl TimeToLive {
    /// The time, if it is not minimal; at most what counts as for ever, which is 136 years.
    pub(super) fn duration(self) -> Option<Duration> {
        let forever = u64::from(u32::MAX);
        match self {
            Self::Minimal | Self::Seconds(0) => None,
            Self::Indefinite => Some(Duration::from_secs(forever)),
            Self::Seconds(seconds) => Some(Duration::from_secs(seconds.min(forever))),
        }
    }
}

impl FromStr for TimeToLive {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "minimal" => Ok(Self::Minimal),
            "indefinite" => Ok(Self::Indefinite),
            _ => text.parse().map(Self::Seconds).map_err(|_| {
                "a time to live is a number of seconds, 'minimal' or 'indefinite'".to_owned()
            }),
        }
    }
}

/// An empty prefix is as good as none.
pub(super) fn parse_prefix(text: &str) -> Result<String, String> {
    match text {
        _ if !text.is_empty() && !text.ends_with('/') => {
            Err(format!("a prefix must end with '/': --prefix {text}/"))
        }
        _ if text.len() > 1023 => {
            Err("a prefix must be shorter than an S3 key: at most 1023 bytes".to_owned())
        }
        _ => Ok(text.to_owned()),
    }
}

pub(super) fn parse_region(text: &str) -> Result<String, String> {
    let valid = !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if valid {
        Ok(text.to_owned())
    } else {
        Err("a region is a name such as us-east-1".to_owned())
    }
}

/// For the flag and the variables. The text of an error never holds what may be a password.
pub(crate) fn parse_endpoint(text: &str) -> Result<String, String> {
    if text.contains('@') {
        return Err(
            "an endpoint is a scheme, a host and a port, with no user: http://127.0.0.1:9000; credentials come from \
             AWS_ACCESS_KEY_ID, a profile or a role"
                .to_owned(),
        );
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(format!(
            "an endpoint is a URL with a scheme: http://{text} or https://{text}"
        ));
    };
    if !matches!(scheme, "http" | "https") {
        return Err(format!(
            "the scheme of an endpoint is http or https, not {scheme}"
        ));
    }
    let authority = rest.trim_end_matches('/');
    if authority.is_empty() || authority.contains(['/', '?', '#', ' ']) {
        return Err(
            "an endpoint is a scheme, a host and a port, with no path: http://127.0.0.1:9000"
                .to_owned(),
        );
    }
    Ok(format!("{scheme}://{authority}"))
}

pub(super) fn parse_mode(text: &str) -> Result<u16, String> {
    match u16::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("a mode is an octal number from 0 to 0777, such as 0755".to_owned()),
    }
}

pub(super) fn parse_account(text: &str) -> Result<String, String> {
    if text.len() == 12 && text.bytes().all(|b| b.is_ascii_digit()) {
        Ok(text.to_owned())
    } else {
        Err("an AWS account is a number of 12 digits".to_owned())
    }
}

/// The reference takes key ARNs and no other names of keys.
pub(super) fn parse_kms_key(text: &str) -> Result<String, String> {
    if text.starts_with("arn:") && text.contains(":key") {
        Ok(text.to_owned())
    } else {
        Err("a KMS key is named by its ARN, arn:aws:kms:REGION:ACCOUNT:key/ID; no alias".to_owned())
    }
}

/// A name that Linux gives to interfaces.
pub(super) fn parse_interface(text: &str) -> Result<String, String> {
    let legal = |b: u8| b.is_ascii_graphic() && b != b'/';
    if (1..16).contains(&text.len()) && text.bytes().all(legal) {
        Ok(text.to_owned())
    } else {
        Err("an interface is a name such as eth0; `ip link` lists them".to_owned())
    }
}

/// What may stand in a header, and leaves room for the rest of it.
pub(super) fn parse_user_agent(text: &str) -> Result<String, String> {
    let legal = |b: u8| b.is_ascii_graphic() || b == b' ';
    if (1..=256).contains(&text.len()) && text.bytes().all(legal) {
        Ok(text.to_owned())
    } else {
        Err("a User-Agent prefix is 1 to 256 printable ASCII characters".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<T: PartialEq + std::fmt::Debug>(
        parse: impl Fn(&str) -> Result<T, String>,
        good: &[(&str, T)],
        bad: &[&str],
    ) {
        for (text, value) in good {
            assert_eq!(parse(text).as_ref(), Ok(value), "{text}");
        }
        for text in bad {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    /// Values that are what their text is.
    #[track_caller]
    fn check_text(parse: impl Fn(&str) -> Result<String, String>, good: &[&str], bad: &[&str]) {
        let good: Vec<(&str, String)> = good.iter().map(|t| (*t, (*t).to_owned())).collect();
        check(parse, &good, bad);
    }

    #[test]
    fn values() {
        check(
            TimeToLive::from_str,
            &[
                ("minimal", TimeToLive::Minimal),
                ("indefinite", TimeToLive::Indefinite),
                ("0", TimeToLive::Seconds(0)),
                ("60", TimeToLive::Seconds(60)),
            ],
            &["", "1.5", "-1", "Minimal", "1m"],
        );
        check(
            parse_mode,
            &[("0755", 0o755), ("640", 0o640), ("0", 0), ("777", 0o777)],
            &["", "888", "7777", "rwx", "-1"],
        );
        check_text(
            parse_account,
            &["123456789012"],
            &["", "12345678901", "12345678901x"],
        );
        check_text(
            parse_kms_key,
            &["arn:aws:kms:us-east-1:123456789012:key/1234"],
            &[
                "",
                "1234",
                "alias/x",
                "arn:aws:kms:us-east-1:123456789012:alias/x",
            ],
        );
        check_text(
            parse_interface,
            &["eth0", "ens5.1", "lo"],
            &["", "a/b", "e 0", "sixteen-letters-"],
        );
        check_text(parse_user_agent, &["tool/1.0", "a b"], &["", "a\r\nb", "ä"]);
        check_text(parse_region, &["us-east-1", "aws-global"], &["", "us_east"]);
        check_text(parse_prefix, &["", "a/", "a/b/"], &["a"]);
        check_text(
            parse_endpoint,
            &["http://127.0.0.1:9000", "https://[::1]:9000"],
            &[
                "",
                "h:1",
                "ftp://h",
                "http://",
                "http://h/p",
                "http://u@h",
                "u:secret@h",
                "u:secret@h://h",
                "http://h?q",
            ],
        );
    }

    #[test]
    fn endpoints_with_a_password_are_not_shown() {
        for text in [
            "http://u:secret@h",
            "u:secret@h",
            "u:secret@h://h",
            "ftp://u:secret@h",
        ] {
            let error = parse_endpoint(text).unwrap_err();
            assert!(error.contains("with no user"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let error = parse_endpoint("h:1").unwrap_err();
        assert!(error.contains("http://h:1"), "{error}");
    }
}
