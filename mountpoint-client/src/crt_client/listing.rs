//! ListObjectsV2, with keys URL-encoded in the answer because XML cannot hold every character a key can.
//!
//! Servers are not believed: names must have the prefix asked for and appear once, and a page must lead on. Some
//! do not sort, so each page is put in order here; across pages the order is the server's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::types::{EncodingType, Object};

use super::core::{Call, Core, reading, refused};
use super::fault::{Fault, Operation};
use super::objects::{invalid, system_time};
use super::sdk_fault::of_sdk;
use super::text::decode_key;
use crate::types::{ETag, Key, ListOutput, ListRequest, ObjectInfo};
use crate::{ErrorKind, Pending};

pub(super) fn list(core: &Arc<Core>, request: ListRequest) -> Pending<ListOutput> {
    let operation = core.on_bucket("ListObjectsV2");
    let delimiter = request.delimiter.as_deref();
    if core.is_directory_bucket
        && let Err(what) = check_whole_directory(&request.prefix, delimiter)
    {
        return refused(operation.error(ErrorKind::InvalidRequest, what));
    }
    if core.is_directory_bucket && request.start_after.is_some() {
        let what = "a directory bucket lists in no order, so from no key on";
        return refused(operation.error(ErrorKind::InvalidRequest, what));
    }
    let core_of_task = Arc::clone(core);
    reading(core, async move {
        let core = core_of_task;
        let slow_downs = AtomicU32::new(0);
        let attempt = || async {
            let call = core
                .sdk
                .list_objects_v2()
                .bucket(&core.bucket)
                .encoding_type(EncodingType::Url)
                .set_prefix((!request.prefix.is_empty()).then(|| request.prefix.clone()))
                .set_delimiter(request.delimiter.clone())
                .set_start_after(request.start_after.clone())
                .set_continuation_token(request.continuation_token.clone())
                .set_max_keys(request.max_keys.map(i32::from));
            let output = call.send().await.map_err(|error| {
                let fault = of_sdk(&operation, &error);
                if fault.error.kind == ErrorKind::Throttled {
                    slow_downs.fetch_add(1, Ordering::Relaxed);
                }
                fault
            })?;
            let page = Page {
                operation: &operation,
                request: &request,
            };
            page.read(&output).map(|listed| ListOutput {
                slow_downs: slow_downs.load(Ordering::Relaxed),
                ..listed
            })
        };
        core.retry(Call::quick(operation.clone()), attempt).await
    })
}

/// What a directory bucket can list: a directory and what is below it.
pub(super) fn check_whole_directory(
    prefix: &str,
    delimiter: Option<&str>,
) -> Result<(), &'static str> {
    if !matches!(delimiter, None | Some("" | "/")) {
        return Err("a directory bucket knows no delimiter but /");
    }
    if !prefix.is_empty() && !prefix.ends_with('/') {
        return Err("a directory bucket lists whole directories: the prefix must end with /");
    }
    Ok(())
}

/// What a page is read against.
struct Page<'a> {
    operation: &'a Operation,
    request: &'a ListRequest,
}

impl Page<'_> {
    fn read(&self, output: &ListObjectsV2Output) -> Result<ListOutput, Fault> {
        let is_encoded = output.encoding_type() == Some(&EncodingType::Url);
        let mut objects = Vec::with_capacity(output.contents().len());
        for object in output.contents() {
            objects.extend(self.object(object, is_encoded)?);
        }
        let mut common_prefixes = Vec::with_capacity(output.common_prefixes().len());
        for common in output.common_prefixes() {
            let prefix = self.name(common.prefix(), is_encoded)?;
            if self
                .request
                .delimiter
                .as_ref()
                .is_none_or(|delimiter| !prefix.ends_with(delimiter.as_str()))
            {
                let what = format!("common prefix {prefix:?} does not end with the delimiter");
                return Err(invalid(self.operation, &what));
            }
            common_prefixes.push(prefix);
        }
        self.put_in_order(&mut objects, |object| object.key.as_str())?;
        self.put_in_order(&mut common_prefixes, String::as_str)?;
        Ok(ListOutput {
            objects,
            common_prefixes,
            continuation_token: self.next_page(output)?,
            slow_downs: 0,
        })
    }

    /// `None` if its key is not UTF-8, or it has no ETag, and it is so long that it cannot even be named.
    fn object(&self, object: &Object, is_encoded: bool) -> Result<Option<ObjectInfo>, Fault> {
        let mut name = self.name(object.key(), is_encoded)?;
        let etag = object.e_tag().filter(|etag| !etag.is_empty());
        if etag.is_none() {
            name.push_str(Key::NO_ETAG);
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
        let Some(size) = object.size().and_then(|size| u64::try_from(size).ok()) else {
            return Err(invalid(
                self.operation,
                &format!("the key {name:?} has no valid size"),
            ));
        };
        let restored = object.restore_status().is_some_and(|status| {
            status.is_restore_in_progress() != Some(true) && status.restore_expiry_date().is_some()
        });
        Ok(Some(ObjectInfo {
            key,
            size,
            etag: ETag::from_header(etag.unwrap_or_default()),
            last_modified: system_time(object.last_modified()),
            storage_class: object
                .storage_class()
                .map(|class| class.as_str().to_owned()),
            restored,
        }))
    }

    /// A key or common prefix as it is in the bucket.
    fn name(&self, sent: Option<&str>, is_encoded: bool) -> Result<String, Fault> {
        let sent = sent.unwrap_or_default();
        let name = if is_encoded {
            decode_key(sent)
        } else {
            Some(sent.to_owned())
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

    fn next_page(&self, output: &ListObjectsV2Output) -> Result<Option<String>, Fault> {
        let token = output
            .next_continuation_token()
            .filter(|token| !token.is_empty());
        match (output.is_truncated().unwrap_or(false), token) {
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
    use aws_sdk_s3::types::CommonPrefix;

    use super::*;

    fn output(
        keys: &[&str],
        prefixes: &[&str],
        encoding: Option<EncodingType>,
    ) -> ListObjectsV2Output {
        let object = |key: &&str| Object::builder().key(*key).size(1).e_tag("e").build();
        let common = |prefix: &&str| CommonPrefix::builder().prefix(*prefix).build();
        ListObjectsV2Output::builder()
            .set_contents(Some(keys.iter().map(object).collect()))
            .set_common_prefixes(Some(prefixes.iter().map(common).collect()))
            .set_encoding_type(encoding)
            .build()
    }

    fn read(prefix: &str, output: &ListObjectsV2Output) -> Result<ListOutput, String> {
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
        page.read(output).map_err(|fault| fault.error.message)
    }

    #[track_caller]
    fn check(
        prefix: &str,
        keys: &[&str],
        prefixes: &[&str],
        encoded: bool,
        expected: Result<&[&str], &str>,
    ) {
        let encoding = encoded.then_some(EncodingType::Url);
        match (read(prefix, &output(keys, prefixes, encoding)), expected) {
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
        let mut output = output(&["a", "b"], &[], None);
        let nameless = Object::builder().key("aa").size(1).build();
        let mut objects = output.contents.take().unwrap();
        objects.insert(1, nameless);
        output.contents = Some(objects);
        let listed = read("", &output).unwrap();
        let keys: Vec<_> = listed
            .objects
            .iter()
            .map(|object| object.key.as_str())
            .collect();
        assert_eq!(keys, ["a", &format!("aa{}", Key::NO_ETAG), "b"]);
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
        let page = |truncated, token: Option<&str>| {
            let output = ListObjectsV2Output::builder()
                .is_truncated(truncated)
                .set_next_continuation_token(token.map(str::to_owned))
                .build();
            read("", &output).map(|page| page.continuation_token)
        };
        assert_eq!(page(false, None), Ok(None));
        assert_eq!(page(false, Some("t2")), Ok(None));
        assert_eq!(page(true, Some("t2")), Ok(Some("t2".to_owned())));
        assert!(page(true, None).unwrap_err().contains("names no next page"));
        assert!(
            page(true, Some(""))
                .unwrap_err()
                .contains("names no next page")
        );
        assert!(
            page(true, Some("t1"))
                .unwrap_err()
                .contains("same page again")
        );
    }
}
