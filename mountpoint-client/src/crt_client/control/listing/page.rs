//! One page of a listing, read against the request for it.

use std::borrow::Cow;
use std::time::UNIX_EPOCH;

use mountpoint_crt_sys::Response;

use super::xml::{self, SentObject, SentPage, Unreadable};
use crate::ErrorKind;
use crate::crt_client::control::answer::invalid;
use crate::crt_client::fault::{Fault, Operation, of_page};
use crate::crt_client::text::{decode_key, printable};
use crate::types::{ETag, Key, ListOutput, ListRequest, ObjectInfo};
use crate::xml_root::is_page;

/// The request that a page answers.
pub(in crate::crt_client) struct Page<'a> {
    pub(in crate::crt_client) operation: &'a Operation,
    pub(in crate::crt_client) request: &'a ListRequest,
}

impl Page<'_> {
    pub(in crate::crt_client) fn of_answer(&self, answer: &Response) -> Result<ListOutput, Fault> {
        match xml::read(&answer.body) {
            Ok(sent) => self.read(&sent),
            Err(Unreadable::Cut) => {
                let what = "the answer's XML ends early, although its length is as announced";
                Err(self.operation.error(ErrorKind::Transient, what).into())
            }
            Err(Unreadable::Wrong(_)) if is_page(&answer.body) => {
                Err(of_page(self.operation, &answer.head, &answer.body))
            }
            Err(Unreadable::Wrong(what)) => {
                let what = format!("the answer cannot be read: {}", printable(&what));
                Err(invalid(self.operation, &what))
            }
        }
    }

    fn read(&self, sent: &SentPage<'_>) -> Result<ListOutput, Fault> {
        let mut objects = Vec::with_capacity(sent.objects.len());
        for object in &sent.objects {
            objects.extend(self.object(object, sent.is_encoded)?);
        }
        let mut common_prefixes = Vec::with_capacity(sent.common_prefixes.len());
        for common in &sent.common_prefixes {
            let prefix = self.name(common, sent.is_encoded)?;
            if self
                .request
                .delimiter
                .as_ref()
                .is_none_or(|delimiter| !prefix.ends_with(delimiter.as_str()))
            {
                let what = format!("common prefix {prefix:?} does not end with the delimiter");
                return Err(invalid(self.operation, &what));
            }
            common_prefixes.push(prefix.into_owned());
        }
        self.put_in_order(&mut objects, |object| object.key.as_str())?;
        self.put_in_order(&mut common_prefixes, String::as_str)?;
        Ok(ListOutput {
            objects,
            common_prefixes,
            continuation_token: self.next_page(sent)?,
            slow_downs: 0,
        })
    }

    /// `None` if its key is not UTF-8, or it has no ETag, and it is so long that it cannot even be
    /// named.
    fn object(
        &self,
        object: &SentObject<'_>,
        is_encoded: bool,
    ) -> Result<Option<ObjectInfo>, Fault> {
        let mut name = self.name(&object.key, is_encoded)?;
        // One that no condition can name tells no version either.
        let etag = object.etag.as_deref().and_then(ETag::parse);
        // Some servers have the object that marks a directory be one of theirs, which has neither:
        // nothing is read of it.
        let is_marker =
            name.ends_with('/') && object.etag.is_none() && object.size.unwrap_or(0) == 0;
        if etag.is_none() && !is_marker {
            name.to_mut().push_str(Key::NO_ETAG);
        }
        let Some(key) = Key::parse(&name) else {
            if name.contains('\0') {
                return Ok(None);
            }
            return Err(invalid(
                self.operation,
                &format!("the key {name:?} is not a possible key"),
            ));
        };
        let Some(size) = object.size.or_else(|| is_marker.then_some(0)) else {
            return Err(invalid(
                self.operation,
                &format!("the key {name:?} has no valid size"),
            ));
        };
        Ok(Some(ObjectInfo {
            key,
            size,
            etag: etag.unwrap_or_else(ETag::none),
            last_modified: object.last_modified.unwrap_or(UNIX_EPOCH),
            storage_class: object.storage_class.as_deref().map(str::to_owned),
            restored: object.restored,
        }))
    }

    /// A key or common prefix as it is in the bucket.
    fn name<'a>(&self, sent: &'a str, is_encoded: bool) -> Result<Cow<'a, str>, Fault> {
        let name = if is_encoded {
            decode_key(sent)
        } else {
            Some(Cow::Borrowed(sent))
        };
        match name {
            Some(name) if name.starts_with(&self.request.prefix) => Ok(name),
            Some(name) => {
                let what = format!(
                    "{name:?} is not under the prefix {:?} that was asked for",
                    self.request.prefix
                );
                Err(invalid(self.operation, &what))
            }
            None => Err(invalid(
                self.operation,
                &format!("{sent:?} is not a URL-encoded key"),
            )),
        }
    }

    /// Sorts what should be in order already; names that appear twice are a server's mistake.
    fn put_in_order<T>(&self, entries: &mut [T], name: impl Fn(&T) -> &str) -> Result<(), Fault> {
        if !entries.is_sorted_by(|a, b| name(a) < name(b)) {
            tracing::debug!(
                "a page of the listing of {:?} came out of order",
                self.request.prefix
            );
            entries.sort_unstable_by(|a, b| name(a).cmp(name(b)));
        }
        match entries
            .windows(2)
            .find(|pair| name(&pair[0]) == name(&pair[1]))
        {
            Some(pair) => Err(invalid(
                self.operation,
                &format!("{:?} is listed twice", name(&pair[0])),
            )),
            None => Ok(()),
        }
    }

    fn next_page(&self, sent: &SentPage<'_>) -> Result<Option<String>, Fault> {
        match (sent.is_truncated, sent.next_token.as_deref()) {
            (false, _) => Ok(None),
            (true, None) => Err(invalid(
                self.operation,
                "the listing is truncated but names no next page",
            )),
            (true, Some(token)) if self.request.continuation_token.as_deref() == Some(token) => {
                Err(invalid(
                    self.operation,
                    "the listing's next page is the same page again",
                ))
            }
            (true, Some(token)) => Ok(Some(token.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(key: &str) -> SentObject<'_> {
        SentObject {
            key: key.into(),
            size: Some(1),
            etag: Some("e".into()),
            ..SentObject::default()
        }
    }

    fn page<'a>(keys: &[&'a str], prefixes: &[&'a str], is_encoded: bool) -> SentPage<'a> {
        SentPage {
            objects: keys.iter().map(|key| object(key)).collect(),
            common_prefixes: prefixes.iter().map(|prefix| (*prefix).into()).collect(),
            is_encoded,
            ..SentPage::default()
        }
    }

    fn read(prefix: &str, sent: &SentPage<'_>) -> Result<ListOutput, String> {
        let operation = Operation::on_bucket("ListObjectsV2", "b");
        let request = ListRequest {
            prefix: prefix.to_owned(),
            delimiter: Some("/".to_owned()),
            continuation_token: Some("t1".to_owned()),
            ..ListRequest::default()
        };
        let page = Page {
            operation: &operation,
            request: &request,
        };
        page.read(sent).map_err(|fault| fault.error.message)
    }

    #[track_caller]
    fn check(
        prefix: &str,
        keys: &[&str],
        prefixes: &[&str],
        encoded: bool,
        expected: Result<&[&str], &str>,
    ) {
        match (read(prefix, &page(keys, prefixes, encoded)), expected) {
            (Ok(found), Ok(names)) => {
                let mut all: Vec<&str> = found
                    .objects
                    .iter()
                    .map(|object| object.key.as_str())
                    .collect();
                all.extend(found.common_prefixes.iter().map(String::as_str));
                assert_eq!(all, names);
            }
            (Err(found), Err(reason)) => assert!(found.contains(reason), "{found}"),
            (found, expected) => panic!("{found:?} where {expected:?} was expected"),
        }
    }

    #[test]
    fn names_are_decoded_only_if_the_server_encoded_them() {
        check(
            "",
            &["a+b", "c%2Bd"],
            &["e%20/"],
            true,
            Ok(&["a b", "c+d", "e /"]),
        );
        check(
            "",
            &["a+b", "c%2Bd"],
            &["e%20/"],
            false,
            Ok(&["a+b", "c%2Bd", "e%20/"]),
        );
        check("", &["%01%0A"], &[], true, Ok(&["\u{1}\n"]));
        check("", &["100%"], &[], true, Err("not a URL-encoded key"));
        // A key that is not UTF-8 keeps no other from being listed.
        check(
            "",
            &["a", "a%FF", "b"],
            &["%80/"],
            true,
            Ok(&["a", "a\0ff", "b", "\080/"]),
        );
        let long = "%FF".repeat(1000);
        check("", &["a", &long], &[], true, Ok(&["a"]));
        check(
            "a b/",
            &["a+b/c"],
            &["a+b/d/"],
            true,
            Ok(&["a b/c", "a b/d/"]),
        );
    }

    #[test]
    fn an_object_without_an_etag_keeps_no_other_from_being_listed() {
        let mut sent = page(&["a", "aa", "b"], &[], false);
        sent.objects[1].etag = None;
        let listed = read("", &sent).unwrap();
        let keys: Vec<_> = listed
            .objects
            .iter()
            .map(|object| object.key.as_str())
            .collect();
        assert_eq!(keys, ["a", &format!("aa{}", Key::NO_ETAG), "b"]);
    }

    /// s3proxy lists the directories of its file system like this.
    #[test]
    fn what_marks_a_directory_needs_neither_an_etag_nor_a_size() {
        for (size, etag, expected) in [
            (None, None, Some("d/")),
            (Some(0), None, Some("d/")),
            (Some(0), Some("e"), Some("d/")),
            (Some(1), None, Some("d/\0no ETag")),
            (None, Some("e"), None),
        ] {
            let mut sent = page(&["d/"], &[], false);
            sent.objects[0].size = size;
            sent.objects[0].etag = etag.map(Cow::Borrowed);
            let listed = read("", &sent).ok();
            let key = listed.as_ref().map(|page| page.objects[0].key.as_str());
            assert_eq!(key, expected, "{size:?} {etag:?}");
        }
    }

    #[test]
    fn an_object_needs_a_size() {
        let mut sent = page(&["a"], &[], false);
        sent.objects[0].size = None;
        assert!(read("", &sent).unwrap_err().contains("no valid size"));
    }

    #[test]
    fn a_page_is_put_in_order() {
        check(
            "",
            &["b", "a", "ä", "c"],
            &["e/", "d/"],
            false,
            Ok(&["a", "b", "c", "ä", "d/", "e/"]),
        );
    }

    #[test]
    fn wrong_listings_are_refused() {
        check("p/", &["q/x"], &[], false, Err("not under the prefix"));
        check("", &["a", "b", "a"], &[], false, Err("listed twice"));
        check("", &[], &["a/", "a/"], false, Err("listed twice"));
        check(
            "",
            &[],
            &["a"],
            false,
            Err("does not end with the delimiter"),
        );
        check("", &[""], &[], false, Err("not a possible key"));
        check(
            "",
            &[&"x".repeat(1025)],
            &[],
            false,
            Err("not a possible key"),
        );
        check(
            "",
            &["a", "ä", "€", "😀"],
            &[],
            false,
            Ok(&["a", "ä", "€", "😀"]),
        );
    }

    #[test]
    fn pages_lead_on() {
        let page = |is_truncated, token: Option<&'static str>| {
            let sent = SentPage {
                is_truncated,
                next_token: token.map(Cow::Borrowed),
                ..SentPage::default()
            };
            read("", &sent).map(|page| page.continuation_token)
        };
        assert_eq!(page(false, None), Ok(None));
        assert_eq!(page(false, Some("t2")), Ok(None));
        assert_eq!(page(true, Some("t2")), Ok(Some("t2".to_owned())));
        assert!(page(true, None).unwrap_err().contains("names no next page"));
        assert!(
            page(true, Some("t1"))
                .unwrap_err()
                .contains("same page again")
        );
    }
}
