//! The outermost element of a document: what the document is, and whether all of it came.
//!
//! A server or a proxy that stops early and still frames its answer well leaves a document without
//! its end. A gateway that answers in the place of the server sends a page of HTML, or a line of
//! text. Pure, and safe on any input.

/// The outermost element of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root<'a> {
    /// Its name, without a namespace; `None` if the document has none or is no XML.
    name: Option<&'a [u8]>,
    /// Whether the document ends where the element does. One that does not begin like XML is whole.
    pub(crate) is_whole: bool,
}

impl<'a> Root<'a> {
    /// The outermost element of `body`.
    pub(crate) fn of(body: &'a [u8]) -> Self {
        let unnamed = |is_whole| Self {
            name: None,
            is_whole,
        };
        let text = body.trim_ascii();
        let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
        let mut rest = text;
        while let Some(end) = end_of_prologue(rest) {
            let Some(at) = rest.windows(end.len()).position(|bytes| bytes == end) else {
                return unnamed(false);
            };
            if rest.starts_with(b"<!DOCTYPE") && rest[..at].contains(&b'[') {
                // Its declarations have angle brackets of their own.
                return unnamed(true);
            }
            rest = rest[at + end.len()..].trim_ascii_start();
        }
        let Some(root) = rest.strip_prefix(b"<") else {
            // Nothing but a prologue is cut.
            return unnamed(!text.starts_with(b"<"));
        };
        let is_delimiter = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>');
        let name = &root[..root.iter().position(is_delimiter).unwrap_or(root.len())];
        Self {
            name: Some(local(name)),
            is_whole: ends_with(rest, name),
        }
    }

    /// Whether the document is a page for people.
    pub(crate) fn is_html(&self) -> bool {
        self.name
            .is_some_and(|name| name.eq_ignore_ascii_case(b"html"))
    }

    /// Whether the document is whole, and its element has this name.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.is_whole && self.name == Some(name.as_bytes())
    }
}

/// Whether `body` is for people: a page of HTML, or any other text that is no XML. S3 sends such
/// only as an object's bytes; no body at all is how it says that it has nothing to say.
pub(crate) fn is_page(body: &[u8]) -> bool {
    let root = Root::of(body);
    !body.trim_ascii().is_empty() && (root.name.is_none() || root.is_html())
}

/// The name without its namespace.
fn local(name: &[u8]) -> &[u8] {
    let colon = name.iter().rposition(|byte| *byte == b':');
    colon.map_or(name, |colon| &name[colon + 1..])
}

/// Whether `text`, which begins with the element `name`, ends with it.
fn ends_with(text: &[u8], name: &[u8]) -> bool {
    let Some(end) = text.strip_suffix(b">").map(<[u8]>::trim_ascii_end) else {
        return false;
    };
    let is_closed = end
        .strip_suffix(name)
        .is_some_and(|before| before.ends_with(b"</"));
    let is_empty_element = end.ends_with(b"/") && !text[..text.len() - 1].contains(&b'>');
    is_closed || is_empty_element
}

/// The end mark of the declaration or comment before the outermost element that `rest` begins with.
fn end_of_prologue(rest: &[u8]) -> Option<&'static [u8]> {
    match rest {
        [b'<', b'!', b'-', b'-', ..] => Some(b"-->"),
        [b'<', b'?', ..] => Some(b"?>"),
        [b'<', b'!', ..] => Some(b">"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- s3 -->\n\
        <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Contents><Key>a</Key>\
        </Contents><Contents><Key>b</Key></Contents></ListBucketResult>";

    #[test]
    fn documents_are_whole_at_their_end_only() {
        for whole in [
            LISTING,
            &format!(" \r\n\r\n{LISTING}\n"),
            "<a/>",
            "<?xml version='1.0'?><a b='c' />",
            "<a></a >",
            "\u{FEFF}<a>1</a>",
            "",
            "  \n",
            "no XML at all",
            "<!-- a -> b > c --><a></a>",
            "<?xml-stylesheet href='a>b'?><a></a>",
            "<!DOCTYPE a><a></a>",
            "<!DOCTYPE a [ <!ELEMENT a (#PCDATA)> ]><a></a>",
        ] {
            assert!(Root::of(whole.as_bytes()).is_whole, "{whole:?}");
        }
        for end in 1..LISTING.len() {
            assert!(
                !Root::of(&LISTING.as_bytes()[..end]).is_whole,
                "{:?}",
                &LISTING[..end]
            );
        }
        for cut in [
            "<",
            "<a>",
            "<a><b/>",
            "<a><b></b>",
            "<?xml version",
            "<!-- s3",
            "<!-- a > <b></b>",
            "<!DOCTYPE a><a>",
        ] {
            assert!(!Root::of(cut.as_bytes()).is_whole, "{cut:?}");
        }
    }

    #[test]
    fn documents_have_a_name() {
        for (body, name) in [
            ("<Error><Code>a</Code></Error>", "Error"),
            (
                " <?xml version='1.0'?>\n<s:Error xmlns:s='x'></s:Error>",
                "Error",
            ),
            ("<Error/>", "Error"),
        ] {
            assert!(Root::of(body.as_bytes()).is(name), "{body:?}");
        }
        for body in ["<Error>", "<Errors></Errors>", "<html></html>", "Error", ""] {
            assert!(!Root::of(body.as_bytes()).is("Error"), "{body:?}");
        }
    }

    #[test]
    fn pages_are_what_people_read() {
        for page in [
            "default backend - 404",
            "<html></html>",
            "<!DOCTYPE html>\n<HTML><body>",
            "{\"message\": \"no\"}",
        ] {
            assert!(is_page(page.as_bytes()), "{page:?}");
        }
        for other in [
            "",
            " \n",
            LISTING,
            "<Error><Code>a",
            "<?xml version='1.0'?><a/>",
        ] {
            assert!(!is_page(other.as_bytes()), "{other:?}");
        }
    }
}
