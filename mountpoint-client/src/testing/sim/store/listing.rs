//! ListObjectsV2 over the store.
//!
//! Pure. A page visits as many entries as it returns, however many keys hide behind a common
//! prefix.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::types::{ListOutput, ListRequest, ObjectInfo};
use crate::{ClientError, ErrorKind};

use super::bucket::Store;
use super::check::refuse;
use crate::testing::sim::seeded_numbers::rank;

/// Most entries of one page.
const PAGE_ENTRIES_MAX: usize = 1000;

/// An object, or a prefix for all objects below it.
enum Entry {
    Object(ObjectInfo),
    CommonPrefix(String),
}

impl Entry {
    fn name(&self) -> &str {
        match self {
            Self::Object(info) => info.key.as_str(),
            Self::CommonPrefix(prefix) => prefix,
        }
    }
}

impl Store {
    pub(crate) fn list(&self, request: &ListRequest) -> Result<ListOutput, ClientError> {
        let entries_max = request.max_keys.map_or(PAGE_ENTRIES_MAX, |max| {
            usize::from(max).min(PAGE_ENTRIES_MAX)
        });
        if entries_max == 0 {
            // S3 calls an empty page complete.
            return Ok(ListOutput::default());
        }
        if let Some(seed) = self.listing_seed {
            return self.list_directory_bucket(request, entries_max, seed);
        }
        let mut from = Bound::Unbounded;
        if let Some(token) = &request.continuation_token {
            from = parse_token(token)?;
        } else if let Some(key) = &request.start_after {
            from = Bound::Excluded(key.clone().into_bytes());
        }
        let entries = self.entries(request, from);
        Ok(page(entries, entries_max, |last| match last {
            Entry::Object(info) => format!("k{}", info.key),
            Entry::CommonPrefix(prefix) => format!("p{prefix}"),
        }))
    }

    /// Directory buckets list in no order that means anything, by whole directories, and from the
    /// start.
    fn list_directory_bucket(
        &self,
        request: &ListRequest,
        entries_max: usize,
        seed: u64,
    ) -> Result<ListOutput, ClientError> {
        let is_directory = request.prefix.is_empty() || request.prefix.ends_with('/');
        let is_slash = matches!(request.delimiter.as_deref(), None | Some("" | "/"));
        if !is_directory || !is_slash || request.start_after.is_some() {
            let what = "a directory bucket lists by directories, and not from a key on";
            return Err(refuse(ErrorKind::InvalidRequest, "InvalidRequest", what));
        }
        let place = |name: &str| (rank(seed, name.as_bytes()), name.to_owned());
        let after = match &request.continuation_token {
            Some(token) => Some(place(token.strip_prefix('d').ok_or_else(wrong_token)?)),
            None => None,
        };
        let ordered: BTreeMap<_, _> = self
            .entries(request, Bound::Unbounded)
            .map(|entry| (place(entry.name()), entry))
            .filter(|(place, _)| after.as_ref().is_none_or(|after| place > after))
            .collect();
        Ok(page(ordered.into_values(), entries_max, |last| {
            format!("d{}", last.name())
        }))
    }

    /// Every entry from a bound on, in byte order.
    fn entries<'a>(
        &'a self,
        request: &'a ListRequest,
        from: Bound<Vec<u8>>,
    ) -> impl Iterator<Item = Entry> + 'a {
        let prefix = request.prefix.as_bytes();
        let delimiter = request.delimiter.as_deref().filter(|text| !text.is_empty());
        let mut next = later(from, Bound::Included(prefix.to_vec()));
        std::iter::from_fn(move || {
            let range = (as_slice(&next), Bound::Unbounded);
            let (key, object) = self.objects.range::<[u8], _>(range).next()?;
            if !key.starts_with(prefix) {
                return None;
            }
            let text = object.key.as_str();
            let rest = text.get(request.prefix.len()..).unwrap_or_default();
            let rolled_up = delimiter.and_then(|delimiter| {
                rest.find(delimiter)
                    .map(|at| request.prefix.len() + at + delimiter.len())
            });
            if let Some(end) = rolled_up {
                let common = &text[..end];
                next = after_prefix(common);
                return Some(Entry::CommonPrefix(common.to_owned()));
            }
            next = Bound::Excluded(key.clone());
            Some(Entry::Object(object.listed()))
        })
    }
}

/// The first `entries_max` entries; `token` names the last one if there are more.
fn page(
    mut entries: impl Iterator<Item = Entry>,
    entries_max: usize,
    token: impl Fn(&Entry) -> String,
) -> ListOutput {
    let mut output = ListOutput::default();
    let mut last = None;
    for entry in entries.by_ref().take(entries_max) {
        last = Some(token(&entry));
        match entry {
            Entry::Object(info) => output.objects.push(info),
            Entry::CommonPrefix(prefix) => output.common_prefixes.push(prefix),
        }
    }
    if entries.next().is_some() {
        output.continuation_token = last;
    }
    output
}

/// Where a page goes on: behind a key, or behind all keys below a prefix.
fn parse_token(token: &str) -> Result<Bound<Vec<u8>>, ClientError> {
    if let Some(key) = token.strip_prefix('k') {
        return Ok(Bound::Excluded(key.as_bytes().to_vec()));
    }
    token
        .strip_prefix('p')
        .map(after_prefix)
        .ok_or_else(wrong_token)
}

fn wrong_token() -> ClientError {
    let what = "the continuation token is not one of ours";
    refuse(ErrorKind::InvalidRequest, "InvalidArgument", what)
}

/// The first place behind all keys that begin with `prefix`. UTF-8 has no byte 0xff, so adding one
/// is safe.
fn after_prefix(prefix: &str) -> Bound<Vec<u8>> {
    let mut bytes = prefix.as_bytes().to_vec();
    if let Some(last) = bytes.last_mut() {
        *last += 1;
    }
    Bound::Included(bytes)
}

/// The later of two lower bounds.
fn later(a: Bound<Vec<u8>>, b: Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    let place = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Unbounded => None,
        Bound::Included(key) => Some((key.clone(), false)),
        Bound::Excluded(key) => Some((key.clone(), true)),
    };
    if place(&a) >= place(&b) { a } else { b }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
    }
}
