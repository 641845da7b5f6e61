//! An answer in the bytes of a fuzz input, and what holds for every error that tells of one.

use mountpoint_crt_sys::{ResponseHead, text_of_bytes};

use crate::{ClientError, ErrorKind};

/// Lines of the input, up to an empty one, are what was asked, the status and the headers. The body
/// is behind them.
pub(in crate::crt_client) struct Answer<'a> {
    /// The first line.
    pub(in crate::crt_client) asked: String,
    pub(in crate::crt_client) head: ResponseHead,
    pub(in crate::crt_client) body: &'a [u8],
}

impl<'a> Answer<'a> {
    pub(in crate::crt_client) fn read(data: &'a [u8]) -> Self {
        let mut rest = data;
        let asked = text_of_bytes(line(&mut rest));
        let status = text_of_bytes(line(&mut rest)).parse().unwrap_or(200);
        let mut headers = Vec::new();
        while !rest.is_empty() {
            let header = line(&mut rest);
            if header.is_empty() {
                break;
            }
            let header = text_of_bytes(header);
            let (name, value) = header.split_once(':').unwrap_or((&header, ""));
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        Self {
            asked,
            head: ResponseHead { status, headers },
            body: rest,
        }
    }
}

/// The next line, which is taken away.
fn line<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let end = rest.iter().position(|byte| *byte == b'\n');
    let (line, behind) = rest.split_at(end.unwrap_or(rest.len()));
    *rest = behind.get(1..).unwrap_or_default();
    line
}

/// A person can be shown the error: it is one line, and not a whole page.
#[track_caller]
pub(crate) fn assert_shown(error: &ClientError) {
    assert!(error.message.len() <= MESSAGE_LEN_MAX, "{error}");
    if let ErrorKind::WrongRegion(Some(region)) = &error.kind {
        assert!(!region.contains(|c: char| !c.is_ascii_alphanumeric() && c != '-'));
    }
    assert!(!error.message.contains(char::is_control), "{error:?}");
}

/// 4096 characters of at most four bytes, and the mark of what is left out.
const MESSAGE_LEN_MAX: usize = 16 << 10 | 3;
