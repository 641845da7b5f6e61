//! ListObjects and ListObjectsV2.
//!
//! Keys are in UTF-8 byte order. Keys that share a prefix up to the delimiter count as one, and a
//! page that ends with such a prefix continues behind everything in it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use s3s::dto::{
    CommonPrefix, EncodingType, ListObjectsInput, ListObjectsOutput, ListObjectsV2Input,
    ListObjectsV2Output, ObjectStorageClass, RestoreStatus, Timestamp,
};
use s3s::{S3Request, S3Response, S3Result, dto, s3_error};

use super::express::listing_order;
use super::objects::quirks;
use crate::testing::server::http::faults::Quirks;
use crate::testing::server::store::buckets::{Store, is_directory_bucket};
use crate::testing::server::store::object::{Object, Restore};

/// Most entries of a page (S3's API reference).
const PAGE_LEN_MAX: i32 = 1000;

/// The keys that a page is cut out of.
struct Listing<'a> {
    prefix: &'a str,
    delimiter: Option<&'a str>,
    /// Only entries behind this; a common prefix that equals it is behind it only by its keys, so
    /// it is not.
    after: &'a str,
    /// Whether everything under `after` was in an earlier page too.
    after_is_prefix: bool,
    len_max: usize,
}

/// One page.
#[derive(Default)]
struct Page {
    objects: Vec<(Box<str>, Arc<Object>)>,
    prefixes: Vec<String>,
    /// The last entry, and whether it is a common prefix, if more follow.
    next: Option<(String, bool)>,
}

impl Listing<'_> {
    fn page(&self, objects: &BTreeMap<Box<str>, Arc<Object>>) -> Page {
        let mut page = Page::default();
        let mut last: Option<(String, bool)> = None;
        let mut from = self.start();
        if self.len_max == 0 {
            return page;
        }
        'seek: while let Some(start) = from.take() {
            for (key, object) in objects.range::<str, _>((borrow(&start), Bound::Unbounded)) {
                if !key.starts_with(self.prefix) {
                    break;
                }
                let group = self.group(key);
                if group.is_some_and(|group| group == self.after) {
                    from = successor(self.after).map(Bound::Included);
                    continue 'seek;
                }
                if page.objects.len() + page.prefixes.len() == self.len_max {
                    page.next = last;
                    return page;
                }
                if let Some(group) = group {
                    page.prefixes.push(group.to_owned());
                    last = Some((group.to_owned(), true));
                    from = successor(group).map(Bound::Included);
                    continue 'seek;
                }
                if page.objects.len() + page.prefixes.len() + 1 == self.len_max {
                    last = Some((key.to_string(), false));
                }
                page.objects.push((key.clone(), Arc::clone(object)));
            }
        }
        page
    }

    /// A page of a directory bucket's listing. Costs as much as the whole listing.
    fn unordered_page(&self, objects: &BTreeMap<Box<str>, Arc<Object>>) -> Page {
        let all = Listing {
            after: "",
            after_is_prefix: false,
            len_max: usize::MAX,
            ..*self
        };
        let all = all.page(objects);
        let mut entries: Vec<_> = all
            .objects
            .into_iter()
            .map(|(key, object)| (key.into_string(), Some(object)))
            .chain(all.prefixes.into_iter().map(|prefix| (prefix, None)))
            .filter(|(name, _)| self.after.is_empty() || listing_order(name, self.after).is_gt())
            .collect();
        entries.sort_unstable_by(|(a, _), (b, _)| listing_order(a, b));
        let mut page = Page::default();
        let more = entries.len() > self.len_max;
        for (name, object) in entries.into_iter().take(self.len_max) {
            page.next = more.then(|| (name.clone(), object.is_none()));
            match object {
                Some(object) => page.objects.push((name.into_boxed_str(), object)),
                None => page.prefixes.push(name),
            }
        }
        page
    }

    /// Where to begin; `None` if nothing can follow.
    fn start(&self) -> Option<Bound<String>> {
        let behind = match self.after_is_prefix {
            true => Bound::Included(successor(self.after)?),
            false => Bound::Excluded(self.after.to_owned()),
        };
        let is_before = match &behind {
            Bound::Included(key) | Bound::Excluded(key) => key.as_str() < self.prefix,
            Bound::Unbounded => true,
        };
        Some(if is_before || self.after.is_empty() {
            Bound::Included(self.prefix.to_owned())
        } else {
            behind
        })
    }

    /// The common prefix that a key counts under.
    fn group<'k>(&self, key: &'k str) -> Option<&'k str> {
        let delimiter = self.delimiter?;
        let at = key[self.prefix.len()..].find(delimiter)?;
        Some(&key[..self.prefix.len() + at + delimiter.len()])
    }
}

fn borrow(bound: &Bound<String>) -> Bound<&str> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// The smallest string behind every string that begins with `prefix`; `None` if there is none.
fn successor(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // The surrogates are no characters: behind U+D7FF comes U+E000.
        let next = match last {
            '\u{D7FF}' => Some('\u{E000}'),
            other => char::from_u32(other as u32 + 1),
        };
        if let Some(next) = next {
            text.push(next);
            return Some(text);
        }
    }
    None
}

/// Continuation tokens are opaque to clients: the kind of the last entry, and the entry.
fn to_token((entry, is_prefix): &(String, bool)) -> String {
    URL_SAFE_NO_PAD.encode(format!("{}{entry}", if *is_prefix { 'p' } else { 'k' }))
}

fn from_token(token: &str) -> S3Result<(String, bool)> {
    let text = URL_SAFE_NO_PAD
        .decode(token)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    let parsed = text
        .as_deref()
        .and_then(|text| match text.split_at_checked(1)? {
            ("k", entry) => Some((entry.to_owned(), false)),
            ("p", entry) => Some((entry.to_owned(), true)),
            _ => None,
        });
    parsed.ok_or_else(|| {
        s3_error!(
            InvalidArgument,
            "The continuation token provided is incorrect"
        )
    })
}

/// A listing's token under fault rules: `e`, a count, a colon and the real token.
#[derive(Default)]
struct Detour {
    is_empty_page: bool,
    /// The next page's token, in the place of the real one.
    next: Option<String>,
}

impl Detour {
    /// The real token, and the answer in the place of its page.
    fn take(sent: Option<&str>, quirks: Quirks) -> (Option<&str>, Self) {
        let detoured = sent.and_then(|sent| sent.strip_prefix('e')?.split_once(':'));
        let (count, token) = match detoured {
            Some((count, token)) => (
                count.parse().unwrap_or(0),
                Some(token).filter(|token| !token.is_empty()),
            ),
            None => (0, sent),
        };
        let next = || Some(format!("e{}:{}", count + 1, token.unwrap_or_default()));
        if quirks.repeat_pages {
            let detour = Self {
                is_empty_page: false,
                next: next(),
            };
            return (None, detour);
        }
        if count < quirks.empty_pages {
            let detour = Self {
                is_empty_page: true,
                next: next(),
            };
            return (token, detour);
        }
        (token, Self::default())
    }
}

fn page_len(max_keys: Option<i32>) -> S3Result<i32> {
    match max_keys.unwrap_or(PAGE_LEN_MAX) {
        negative @ ..0 => Err(s3_error!(
            InvalidArgument,
            "max-keys {negative} is not between 0 and 2147483647"
        )),
        len => Ok(len.min(PAGE_LEN_MAX)),
    }
}

/// Whether names are to be URL-encoded in the answer.
pub(crate) fn is_encoded(encoding: Option<&EncodingType>) -> S3Result<bool> {
    match encoding.map(EncodingType::as_str) {
        None => Ok(false),
        Some("url") => Ok(true),
        Some(_) => Err(s3_error!(
            InvalidArgument,
            "Invalid Encoding Method specified in Request"
        )),
    }
}

/// Encodes a name as S3 does with `encoding-type=url`.
pub(crate) fn encode(text: &str, encoded: bool) -> String {
    if !encoded {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' | b'/' => {
                out.push(char::from(byte));
            }
            b' ' => out.push('+'),
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                out.push('%');
                out.push(char::from(DIGITS[usize::from(byte >> 4)]));
                out.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
        }
    }
    out
}

impl Page {
    fn contents(&self, encoded: bool, with_restore: bool) -> Vec<dto::Object> {
        let entry = |(key, object): &(Box<str>, Arc<Object>)| dto::Object {
            key: Some(encode(key, encoded)),
            size: i64::try_from(object.size()).ok(),
            e_tag: Some(dto::ETag::Strong(object.tag.text())),
            last_modified: Some(Timestamp::from(object.modified)),
            storage_class: Some(match object.storage_class() {
                Some(class) => ObjectStorageClass::from(class.to_owned()),
                None => ObjectStorageClass::from_static(ObjectStorageClass::STANDARD),
            }),
            restore_status: object
                .restore()
                .filter(|_| with_restore)
                .map(restore_status),
            ..dto::Object::default()
        };
        self.objects.iter().map(entry).collect()
    }

    fn common_prefixes(&self, encoded: bool) -> Vec<CommonPrefix> {
        let prefixes = self.prefixes.iter();
        prefixes
            .map(|prefix| CommonPrefix {
                prefix: Some(encode(prefix, encoded)),
            })
            .collect()
    }
}

fn restore_status(restore: Restore) -> RestoreStatus {
    match restore {
        Restore::InProgress => RestoreStatus {
            is_restore_in_progress: Some(true),
            ..RestoreStatus::default()
        },
        Restore::Until(time) => RestoreStatus {
            is_restore_in_progress: Some(false),
            restore_expiry_date: Some(Timestamp::from(time)),
        },
    }
}

fn check_whole_directory(input: &ListObjectsV2Input) -> S3Result<()> {
    let prefix = input.prefix.as_deref().unwrap_or_default();
    let is_slash = matches!(input.delimiter.as_deref(), None | Some("" | "/"));
    if !is_slash || !(prefix.is_empty() || prefix.ends_with('/')) || input.start_after.is_some() {
        return Err(s3_error!(
            InvalidArgument,
            "A directory bucket lists by whole directories, with the delimiter / and from the start"
        ));
    }
    Ok(())
}

impl Store {
    pub(crate) fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let quirks = quirks(&request);
        let input = request.input;
        let bucket = self.require_bucket(&input.bucket)?;
        let encoded = is_encoded(input.encoding_type.as_ref())?;
        let len_max = page_len(input.max_keys)?;
        let (token, detour) = Detour::take(input.continuation_token.as_deref(), quirks);
        let (after, after_is_prefix) = match token {
            Some(token) => from_token(token)?,
            None => (input.start_after.clone().unwrap_or_default(), false),
        };
        let is_unordered = is_directory_bucket(&input.bucket);
        if is_unordered {
            check_whole_directory(&input)?;
        }
        let listing = Listing {
            prefix: input.prefix.as_deref().unwrap_or_default(),
            delimiter: input
                .delimiter
                .as_deref()
                .filter(|delimiter| !delimiter.is_empty()),
            after: &after,
            after_is_prefix,
            len_max: usize::try_from(len_max).unwrap_or(0),
        };
        let page = match is_unordered {
            _ if detour.is_empty_page => Page::default(),
            true => listing.unordered_page(&bucket.objects.read()),
            false => listing.page(&bucket.objects.read()),
        };
        let next_token = detour.next.or_else(|| page.next.as_ref().map(to_token));
        let attributes = input.optional_object_attributes.unwrap_or_default();
        let with_restore = attributes
            .iter()
            .any(|attribute| attribute.as_str() == "RestoreStatus");
        Ok(S3Response::new(ListObjectsV2Output {
            name: Some(input.bucket),
            key_count: i32::try_from(page.objects.len() + page.prefixes.len()).ok(),
            max_keys: Some(len_max),
            is_truncated: Some(next_token.is_some()),
            next_continuation_token: next_token,
            contents: Some(page.contents(encoded, with_restore)),
            common_prefixes: Some(page.common_prefixes(encoded)),
            prefix: Some(encode(&input.prefix.unwrap_or_default(), encoded)),
            delimiter: input.delimiter.map(|delimiter| encode(&delimiter, encoded)),
            start_after: input.start_after.map(|key| encode(&key, encoded)),
            continuation_token: input.continuation_token,
            encoding_type: input.encoding_type,
            ..ListObjectsV2Output::default()
        }))
    }

    pub(crate) fn list_objects(
        &self,
        request: S3Request<ListObjectsInput>,
    ) -> S3Result<S3Response<ListObjectsOutput>> {
        let input = request.input;
        let bucket = self.require_bucket(&input.bucket)?;
        let encoded = is_encoded(input.encoding_type.as_ref())?;
        let len_max = page_len(input.max_keys)?;
        let listing = Listing {
            prefix: input.prefix.as_deref().unwrap_or_default(),
            delimiter: input
                .delimiter
                .as_deref()
                .filter(|delimiter| !delimiter.is_empty()),
            after: input.marker.as_deref().unwrap_or_default(),
            after_is_prefix: false,
            len_max: usize::try_from(len_max).unwrap_or(0),
        };
        let page = listing.page(&bucket.objects.read());
        // S3 names the next marker only with a delimiter; without one it is the last key.
        let next = page.next.as_ref().filter(|_| listing.delimiter.is_some());
        Ok(S3Response::new(ListObjectsOutput {
            name: Some(input.bucket.clone()),
            max_keys: Some(len_max),
            is_truncated: Some(page.next.is_some()),
            next_marker: next.map(|(entry, _)| encode(entry, encoded)),
            contents: Some(page.contents(encoded, false)),
            common_prefixes: Some(page.common_prefixes(encoded)),
            prefix: Some(encode(listing.prefix, encoded)),
            delimiter: input
                .delimiter
                .as_deref()
                .map(|delimiter| encode(delimiter, encoded)),
            marker: Some(encode(listing.after, encoded)),
            encoding_type: input.encoding_type.clone(),
            ..ListObjectsOutput::default()
        }))
    }
}
