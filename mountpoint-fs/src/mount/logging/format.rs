//! Safe lines for the log and the terminal: one for each event, without secrets.
//!
//! Many texts contain names of objects and answers of servers. They are made safe here, behind all
//! call sites, so that none can forget it. Pure, except [`OneLine`], which runs on the thread that
//! logs.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Writes the output of another format on one line and without secrets.
#[derive(Debug)]
pub(in crate::mount) struct OneLine<F>(pub(in crate::mount) F);

impl<S, N, F> FormatEvent<S, N> for OneLine<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut text = String::new();
        // Without colours: their escapes could not be told from those of a name.
        self.0
            .format_event(context, Writer::new(&mut text), event)?;
        let line = safe_line(text.strip_suffix('\n').unwrap_or(&text));
        match colour(*event.metadata().level()).filter(|_| writer.has_ansi_escapes()) {
            Some(colour) => writeln!(writer, "\x1b[{colour}m{line}\x1b[0m"),
            None => writeln!(writer, "{line}"),
        }
    }
}

/// The terminal's colour number for lines that stand out.
fn colour(level: Level) -> Option<u8> {
    match level {
        Level::ERROR => Some(31),
        Level::WARN => Some(33),
        _ => None,
    }
}

/// Excludes foreign libraries from the level on which they print whole requests, whatever the
/// filter.
#[derive(Clone, Copy, Debug)]
pub(in crate::mount) struct NoForeignTrace;

impl<S: Subscriber> Layer<S> for NoForeignTrace {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let target = metadata.target();
        *metadata.level() < Level::TRACE || OURS.iter().any(|ours| target.starts_with(ours))
    }
}

/// Targets of this project. Messages of the C library have the target `crt`.
const OURS: [&str; 3] = ["mountpoint_", "mount_s3", "crt"];

/// `text` on one line and without secrets.
pub(crate) fn safe_line(text: &str) -> String {
    on_one_line(&without_secrets(text)).into_owned()
}

/// Escapes control characters and those that change the text's direction, as `\n` and `\u{1b}`.
fn on_one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(misleads) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if misleads(character) {
            // Writing into a string cannot fail.
            match character {
                '\n' | '\r' | '\t' => write!(line, "{}", character.escape_default()).ok(),
                _ => write!(line, "{}", character.escape_unicode()).ok(),
            };
        } else {
            line.push(character);
        }
    }
    Cow::Owned(line)
}

/// Whether a terminal or a line reader may misinterpret the character.
fn misleads(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Replaces the value of each name of a secret by its length. A value extends to the end of its
/// line.
fn without_secrets(text: &str) -> Cow<'_, str> {
    if first_secret(text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match first_secret(line) {
            None => safe.push_str(line),
            Some(from) => {
                let value = line[from..].trim_end_matches('\n');
                // Writing into a string cannot fail.
                write!(safe, "{}<{} bytes>", &line[..from], value.len()).ok();
                safe.push_str(&line[from + value.len()..]);
            }
        }
    }
    Cow::Owned(safe)
}

/// The position of the first secret's value.
fn first_secret(text: &str) -> Option<usize> {
    let found = SECRETS.iter().filter_map(|name| value_of(text, name));
    found.min()
}

/// The position of the first value of `name`: `name: value`, `name=value`, `"name": "value"`,
/// `<name>value`.
fn value_of(text: &str, name: &str) -> Option<usize> {
    let (bytes, name) = (text.as_bytes(), name.as_bytes());
    let mut from = 0;
    while let Some(place) = find(&bytes[from..], name) {
        from += place + name.len();
        let mut rest = bytes[from..].iter().copied().enumerate();
        let separator = rest.find(|(_, byte)| !matches!(byte, b'"' | b'\'' | b' ' | b'\\'));
        let Some((gap, b':' | b'=' | b'>')) = separator else {
            continue;
        };
        let value = from + gap + 1;
        let is_there = bytes[value..].first().is_some_and(|byte| *byte != b'\n');
        if is_there {
            return Some(value);
        }
    }
    None
}

/// The first position of `wanted`, in any case.
fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let is_wanted = |window: &[u8]| window.eq_ignore_ascii_case(wanted);
    text.windows(wanted.len()).position(is_wanted)
}

/// Names of secrets in headers, queries, documents and structures.
const SECRETS: [&str; 17] = [
    "authorization",
    "x-amz-security-token",
    "x-amz-s3session-token",
    "server-side-encryption-customer-key",
    "server-side-encryption-customer-key-md5",
    "signature",
    "signatureprovided",
    "secretaccesskey",
    "secret_access_key",
    "secret-access-key",
    "sessiontoken",
    "session_token",
    "securitytoken",
    "accesstoken",
    "metadata-token",
    "set-cookie",
    "cookie",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_on_its_line() {
        for (text, line) in [
            ("plain ü €", "plain ü €"),
            ("a\n2026-01-01 ERROR forged", r"a\n2026-01-01 ERROR forged"),
            ("a\r\n\tb", r"a\r\n\tb"),
            ("\u{1b}[2Jx\u{7}", r"\u{1b}[2Jx\u{7}"),
            ("a\u{9b}31mb\u{7f}", r"a\u{9b}31mb\u{7f}"),
            (
                "a\u{202e}b\u{2028}c\u{2066}",
                r"a\u{202e}b\u{2028}c\u{2066}",
            ),
            (r"C:\n", r"C:\n"),
        ] {
            assert_eq!(safe_line(text), line, "{text:?}");
        }
    }

    #[test]
    fn secrets_are_lengths() {
        for (text, line) in [
            ("Authorization: AWS4 x y", "Authorization:<9 bytes>"),
            (
                "canonical\nhost:h\nx-amz-security-token:abc\n\nhost;x-amz-security-token\n",
                r"canonical\nhost:h\nx-amz-security-token:<3 bytes>\n\nhost;x-amz-security-token\n",
            ),
            (
                "X-Amz-Server-Side-Encryption-Customer-Key:k=\nX-Amz-Server-Side-Encryption-Customer-Key-MD5:m=\nx",
                r"X-Amz-Server-Side-Encryption-Customer-Key:<2 bytes>\nX-Amz-Server-Side-Encryption-Customer-Key-MD5:<2 bytes>\nx",
            ),
            (
                "x-amz-copy-source-server-side-encryption-customer-key = k",
                "x-amz-copy-source-server-side-encryption-customer-key =<2 bytes>",
            ),
            (
                "AWS4-HMAC-SHA256 Credential=c, SignedHeaders=host, Signature=ff00",
                "AWS4-HMAC-SHA256 Credential=c, SignedHeaders=host, Signature=<4 bytes>",
            ),
            (
                "/k?X-Amz-Date=d&X-Amz-Security-Token=t&X-Amz-Signature=s",
                "/k?X-Amz-Date=d&X-Amz-Security-Token=<19 bytes>",
            ),
            (
                r#"{"proxy-authorization": "Basic eA=="}"#,
                r#"{"proxy-authorization":<14 bytes>"#,
            ),
            (
                "<SecretAccessKey>abc</SecretAccessKey>",
                "<SecretAccessKey><21 bytes>",
            ),
            (r#""SessionToken" : "t""#, r#""SessionToken" :<4 bytes>"#),
            ("Cookie: a", "Cookie:<2 bytes>"),
            (
                "SignatureDoesNotMatch: the signature is wrong",
                "SignatureDoesNotMatch: the signature is wrong",
            ),
            ("session_token:", "session_token:"),
        ] {
            assert_eq!(safe_line(text), line, "{text:?}");
        }
    }
}
