//! Values of flags: text in, checked value or a text for the user out.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// How long names and attributes may be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeToLive {
    /// As short as is useful to an application.
    Minimal,
    /// For ever.
    Indefinite,
    /// So many seconds.
    Seconds(u64),
}

impl TimeToLive {
    /// The time, if it is not minimal. Indefinite is the largest value, 136 years.
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
                let seconds = without_unit(text, TIMES).map(|seconds| format!(" ({seconds})"));
                let seconds = seconds.unwrap_or_default();
                format!("a time to live is a number of seconds{seconds}, 'minimal' or 'indefinite'")
            }),
        }
    }
}

/// A number of bytes without a unit, as in mountpoint-s3. The error for a unit gives the number.
pub(super) fn bytes(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    number("bytes", SIZES, 1, range)
}

/// A number of MiB without a unit.
pub(crate) fn mebibytes(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    number("MiB", SIZES, 1 << 20, range)
}

/// A number of seconds without a unit.
pub(crate) fn seconds(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    number("seconds", TIMES, 1, range)
}

/// A time as a number of seconds, which may have a fraction.
pub(crate) fn short_time(
    range: RangeInclusive<f64>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let seconds = text.parse::<f64>().ok();
        let seconds = seconds.filter(|seconds| range.contains(seconds));
        let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let (least, most) = (range.start(), range.end());
        time.ok_or_else(|| format!("it is a number of seconds from {least} to {most}"))
    }
}

/// A number of a unit, which is `size` of the smallest one in `units`.
fn number(
    unit: &'static str,
    units: &'static [(&'static str, u64)],
    size: u64,
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let least = range.start();
        let (bounds, within) = match *range.end() {
            u64::MAX => (format!("{least} on"), format!("{least}..")),
            most => (format!("{least} to {most}"), format!("{least}..={most}")),
        };
        let count: u64 = text.parse().map_err(|_| {
            let count = without_unit(text, units).map(|count| count / size);
            // The hint must not suggest a number out of range.
            match count.filter(|count| range.contains(count)) {
                Some(count) => format!("a number of {unit} is written without a unit: {count}"),
                None => format!("a number of {unit} from {bounds}, without a unit"),
            }
        })?;
        if range.contains(&count) {
            Ok(count)
        } else {
            Err(format!("{count} is not in {within}"))
        }
    }
}

/// The number that `8MiB` or `5m` stands for, if the unit is known.
fn without_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    let unit = unit.trim();
    let is_unit = |known: &str| unit.eq_ignore_ascii_case(known);
    let (_, factor) = units.iter().find(|(known, _)| is_unit(known))?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

const SIZES: &[(&str, u64)] = &[
    ("k", 1 << 10),
    ("kb", 1 << 10),
    ("kib", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1 << 20),
    ("mib", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1 << 30),
    ("gib", 1 << 30),
    ("t", 1 << 40),
    ("tb", 1 << 40),
    ("tib", 1 << 40),
];

const TIMES: &[(&str, u64)] = &[("s", 1), ("m", 60), ("min", 60), ("h", 3600), ("d", 86_400)];

/// A user or a group, by its number.
pub(super) fn parse_id(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("0 is not in 1..: files cannot be made to belong to root".to_owned()),
        Ok(id) => Ok(id),
        Err(_) => Err("a user or group is a number; `id NAME` tells it".to_owned()),
    }
}

/// An empty prefix counts as none.
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

/// Checks the endpoint of the flag and of the variables. An error text never contains a possible
/// password.
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

/// mountpoint-s3 takes key ARNs and no other names of keys.
pub(super) fn parse_kms_key(text: &str) -> Result<String, String> {
    if text.starts_with("arn:") && text.contains(":key") {
        Ok(text.to_owned())
    } else {
        Err("a KMS key is named by its ARN, arn:aws:kms:REGION:ACCOUNT:key/ID; no alias".to_owned())
    }
}

/// An interface name that Linux accepts.
pub(super) fn parse_interface(text: &str) -> Result<String, String> {
    let legal = |b: u8| b.is_ascii_graphic() && b != b'/';
    if (1..16).contains(&text.len()) && text.bytes().all(legal) {
        Ok(text.to_owned())
    } else {
        Err("an interface is a name such as eth0; `ip link` lists them".to_owned())
    }
}

/// A text that fits into a header and leaves room for the rest. Scripts pass an empty one if they
/// have none.
pub(super) fn parse_user_agent(text: &str) -> Result<String, String> {
    let legal = |b: u8| b.is_ascii_graphic() || b == b' ';
    if text.len() <= 256 && text.bytes().all(legal) {
        Ok(text.to_owned())
    } else {
        Err("a User-Agent prefix is at most 256 printable ASCII characters".to_owned())
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

    /// Checks that good values are stored as typed, and bad ones refused.
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
        check(parse_id, &[("1000", 1000)], &["", "root", "0", "-1"]);
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
        check_text(parse_user_agent, &["tool/1.0", "a b", ""], &["a\r\nb", "ä"]);
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
    fn numbers_have_no_unit_and_the_error_says_what_to_write() {
        let check = |parse: &dyn Fn(&str) -> Result<u64, String>, text: &str, expected: &str| {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        };
        let part = bytes(1 << 20..=5 << 30);
        assert_eq!(part("8388608"), Ok(8 << 20));
        for (text, expected) in [
            ("8MiB", "without a unit: 8388608"),
            ("8 m", "without a unit: 8388608"),
            ("1GB", "without a unit: 1073741824"),
            ("1k", "from 1048576 to 5368709120"),
            ("18446744073709551615g", "from 1048576"),
            ("", "from 1048576"),
            ("-1", "from 1048576"),
            ("8.5MiB", "from 1048576"),
            ("1048575", "1048575 is not in 1048576..=5368709120"),
        ] {
            check(&part, text, expected);
        }
        let memory = mebibytes(512..=1 << 30);
        assert_eq!(memory("512"), Ok(512));
        check(&memory, "2G", "without a unit: 2048");
        check(&memory, "100M", "from 512 to");
        check(&memory, "511", "511 is not in 512..=");
        check(&mebibytes(0..=u64::MAX), "10G", "without a unit: 10240");
        check(&mebibytes(0..=u64::MAX), "1TiB", "without a unit: 1048576");
        check(
            &seconds(1..=3600),
            "5m",
            "of seconds is written without a unit: 300",
        );
        let ttl = |text: &str| TimeToLive::from_str(text).map(|_| 0);
        check(&ttl, "5m", "seconds (300),");
        check(&ttl, "soon", "seconds, 'minimal' or 'indefinite'");
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
