//! ListBucketResult as a document, read in one pass; text is borrowed from the answer where nothing
//! in it is escaped.
//!
//! Pure, and safe on any input. Knows the elements' names and the form of their values;
//! [`listing`](crate::crt_client::control::listing) checks their meaning. Unknown elements are
//! skipped with their content, and so are namespaces.
//!
//! Invariant: every result was read from a complete document.

use std::borrow::Cow;
use std::time::SystemTime;

use quick_xml::Reader;
use quick_xml::errors::{Error, IllFormedError};
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

use crate::crt_client::text::iso_time;

/// A page of a listing as it was sent.
#[derive(Debug, Default, PartialEq)]
pub(in crate::crt_client) struct SentPage<'a> {
    pub(in crate::crt_client) objects: Vec<SentObject<'a>>,
    pub(in crate::crt_client) common_prefixes: Vec<Cow<'a, str>>,
    /// Whether names are URL-encoded.
    pub(in crate::crt_client) is_encoded: bool,
    pub(in crate::crt_client) is_truncated: bool,
    pub(in crate::crt_client) next_token: Option<Cow<'a, str>>,
}

/// An object in a page. A value that is missing or empty is `None`.
#[derive(Debug, Default, PartialEq)]
pub(in crate::crt_client) struct SentObject<'a> {
    pub(in crate::crt_client) key: Cow<'a, str>,
    pub(in crate::crt_client) size: Option<u64>,
    pub(in crate::crt_client) etag: Option<Cow<'a, str>>,
    pub(in crate::crt_client) last_modified: Option<SystemTime>,
    pub(in crate::crt_client) storage_class: Option<Cow<'a, str>>,
    pub(in crate::crt_client) restored: bool,
}

/// Why an answer is no listing.
#[derive(Debug, PartialEq)]
pub(in crate::crt_client) enum Unreadable {
    /// The document stops in the middle, although its length is as announced.
    Cut,
    /// The document is no listing, for this reason.
    Wrong(String),
}

/// The page that `body` is.
pub(in crate::crt_client) fn read(body: &[u8]) -> Result<SentPage<'_>, Unreadable> {
    let mut document = Document::new(body);
    let root = document.root()?;
    match root.local_name().as_ref() {
        b"ListBucketResult" => {}
        other => {
            let other = String::from_utf8_lossy(&other[..other.len().min(NAME_SHOWN_MAX)]);
            return Err(wrong(format!("<{other}> is no listing")));
        }
    }
    let page = page(&mut document)?;
    document.end()?;
    Ok(page)
}

fn page<'a>(document: &mut Document<'a>) -> Result<SentPage<'a>, Unreadable> {
    let mut page = SentPage::default();
    while let Some(element) = document.child()? {
        match element.local_name().as_ref() {
            b"Contents" => page.objects.push(object(document)?),
            b"CommonPrefixes" => page.common_prefixes.push(common_prefix(document)?),
            b"EncodingType" => page.is_encoded = document.text()?.trim() == "url",
            b"IsTruncated" => page.is_truncated = document.truth("IsTruncated")?,
            b"NextContinuationToken" => page.next_token = document.value()?,
            _ => document.skip()?,
        }
    }
    Ok(page)
}

fn object<'a>(document: &mut Document<'a>) -> Result<SentObject<'a>, Unreadable> {
    let mut object = SentObject::default();
    while let Some(element) = document.child()? {
        match element.local_name().as_ref() {
            b"Key" => object.key = document.text()?,
            b"Size" => object.size = size(&document.text()?),
            b"ETag" => object.etag = document.value()?,
            b"LastModified" => object.last_modified = document.time()?,
            b"StorageClass" => object.storage_class = document.value()?,
            b"RestoreStatus" => object.restored = is_restored(document)?,
            _ => document.skip()?,
        }
    }
    Ok(object)
}

/// No object is larger than a signed number can say, and no file.
fn size(text: &str) -> Option<u64> {
    text.trim().parse::<i64>().ok()?.try_into().ok()
}

/// Whether there is a copy that can be read.
fn is_restored(document: &mut Document<'_>) -> Result<bool, Unreadable> {
    let (mut is_in_progress, mut has_expiry) = (false, false);
    while let Some(element) = document.child()? {
        match element.local_name().as_ref() {
            b"IsRestoreInProgress" => is_in_progress = document.truth("IsRestoreInProgress")?,
            b"RestoreExpiryDate" => has_expiry = document.time()?.is_some(),
            _ => document.skip()?,
        }
    }
    Ok(!is_in_progress && has_expiry)
}

fn common_prefix<'a>(document: &mut Document<'a>) -> Result<Cow<'a, str>, Unreadable> {
    let mut prefix = Cow::default();
    while let Some(element) = document.child()? {
        match element.local_name().as_ref() {
            b"Prefix" => prefix = document.text()?,
            _ => document.skip()?,
        }
    }
    Ok(prefix)
}

/// A place in a document: inside of the elements that were opened and not closed.
struct Document<'a> {
    reader: Reader<&'a [u8]>,
    len: u64,
    depth: u32,
}

impl<'a> Document<'a> {
    fn new(body: &'a [u8]) -> Self {
        let mut reader = Reader::from_reader(body);
        reader.config_mut().expand_empty_elements = true;
        Self {
            reader,
            len: body.len() as u64,
            depth: 0,
        }
    }

    fn next(&mut self) -> Result<Event<'a>, Unreadable> {
        let event = match self.reader.read_event() {
            Ok(event) => event,
            Err(Error::Syntax(_)) => return Err(Unreadable::Cut),
            Err(Error::IllFormed(IllFormedError::UnclosedReference)) => {
                return Err(self.bad("an & that begins nothing"));
            }
            Err(error) => return Err(wrong(error.to_string())),
        };
        match &event {
            Event::Start(_) if self.depth == DEPTH_MAX => {
                return Err(wrong(format!("elements in {DEPTH_MAX} others")));
            }
            Event::Start(_) => self.depth += 1,
            Event::End(_) => self.depth -= 1,
            _ => {}
        }
        Ok(event)
    }

    /// The outermost element.
    fn root(&mut self) -> Result<BytesStart<'a>, Unreadable> {
        let mut has_prologue = false;
        loop {
            match self.next()? {
                Event::Start(element) => return Ok(element),
                Event::Eof if has_prologue => return Err(Unreadable::Cut),
                Event::Eof => return Err(wrong("nothing at all".to_owned())),
                Event::Text(text) if text.trim_ascii().is_empty() => {}
                Event::Text(_) | Event::CData(_) | Event::GeneralRef(_) | Event::End(_) => {
                    return Err(wrong("it is not XML".to_owned()));
                }
                Event::Decl(_)
                | Event::PI(_)
                | Event::Comment(_)
                | Event::DocType(_)
                | Event::Empty(_) => has_prologue = true,
            }
        }
    }

    /// The next element in the one that was opened last; `None` at its end, which is passed. Text
    /// is skipped.
    fn child(&mut self) -> Result<Option<BytesStart<'a>>, Unreadable> {
        loop {
            match self.next()? {
                Event::Start(element) => return Ok(Some(element)),
                Event::End(_) => return Ok(None),
                Event::Eof => return Err(Unreadable::Cut),
                _ => {}
            }
        }
    }

    /// Passes the end of the element that was opened last.
    fn skip(&mut self) -> Result<(), Unreadable> {
        let outside = self.depth - 1;
        while self.depth > outside {
            if matches!(self.next()?, Event::Eof) {
                return Err(Unreadable::Cut);
            }
        }
        Ok(())
    }

    /// The text of the element that was opened last. Passes its end.
    fn text(&mut self) -> Result<Cow<'a, str>, Unreadable> {
        let mut text = Cow::Borrowed("");
        loop {
            let piece = match self.next()? {
                Event::Text(piece) => piece.decode(),
                Event::CData(piece) => piece.decode(),
                Event::GeneralRef(name) => Ok(Cow::Owned(self.character(&name)?)),
                Event::End(_) => return Ok(text),
                Event::Eof => return Err(Unreadable::Cut),
                Event::Start(_) => {
                    return Err(wrong("an element where text is expected".to_owned()));
                }
                _ => continue,
            };
            let piece = piece.map_err(|_| self.bad("text that is not UTF-8"))?;
            if text.is_empty() {
                text = piece;
            } else {
                text.to_mut().push_str(&piece);
            }
        }
    }

    /// The character that `&name;` stands for.
    fn character(&self, name: &BytesRef<'_>) -> Result<String, Unreadable> {
        let unknown = || self.bad("an & that stands for nothing known");
        if let Some(character) = name.resolve_char_ref().map_err(|_| unknown())? {
            return Ok(character.into());
        }
        let name = name.decode().map_err(|_| unknown())?;
        let text = resolve_predefined_entity(&name).ok_or_else(unknown)?;
        Ok(text.to_owned())
    }

    /// The text of the element, unless it is empty.
    fn value(&mut self) -> Result<Option<Cow<'a, str>>, Unreadable> {
        let text = self.text()?;
        Ok((!text.is_empty()).then_some(text))
    }

    fn time(&mut self) -> Result<Option<SystemTime>, Unreadable> {
        let text = self.text()?;
        let text = text.trim();
        match iso_time(text) {
            None if !text.is_empty() => Err(wrong(format!("{text:.40?} is not a time"))),
            time => Ok(time),
        }
    }

    fn truth(&mut self, name: &str) -> Result<bool, Unreadable> {
        match self.text()?.trim() {
            "true" => Ok(true),
            "false" | "" => Ok(false),
            other => Err(wrong(format!("{name} is {other:.40?}"))),
        }
    }

    /// The document ends here.
    fn end(&mut self) -> Result<(), Unreadable> {
        loop {
            match self.next()? {
                Event::Eof => return Ok(()),
                Event::Text(text) if text.trim_ascii().is_empty() => {}
                Event::Comment(_) | Event::PI(_) => {}
                _ => return Err(wrong("something stands behind the listing".to_owned())),
            }
        }
    }

    /// The error at this place. At the end of the answer the error is that the answer ends.
    fn bad(&self, what: &str) -> Unreadable {
        if self.reader.buffer_position() >= self.len {
            Unreadable::Cut
        } else {
            wrong(format!("{what} at byte {}", self.reader.buffer_position()))
        }
    }
}

fn wrong(what: String) -> Unreadable {
    Unreadable::Wrong(what)
}

/// S3's listings have elements in three others.
const DEPTH_MAX: u32 = 32;
/// Bytes of an unknown document's name that are shown.
const NAME_SHOWN_MAX: usize = 40;

#[cfg(test)]
mod tests;
