//! Rows of an inventory in CSV.
//!
//! Pure. Fields are separated by commas and may stand in quotes, with two quotes for one within;
//! keys are URL-encoded, and ETags have no quotes.

use std::borrow::Cow;
use std::str::FromStr;

use mountpoint_client::crt_client::{decode_key, iso_time};

use super::object::RowObject;
use crate::index::IndexEntry;

/// Which field of a row is what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::indexer) struct Columns {
    count: usize,
    key: usize,
    size: usize,
    last_modified: usize,
    etag: usize,
    storage_class: Option<usize>,
    is_latest: Option<usize>,
    is_delete_marker: Option<usize>,
}

impl FromStr for Columns {
    type Err = String;

    /// The names of the columns, as a manifest has them: separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        let place = |name: &str| names.iter().position(|it| it.eq_ignore_ascii_case(name));
        let needed = |name: &str| {
            place(name).ok_or_else(|| {
                format!("the inventory has no column {name}: it needs Key, Size, LastModifiedDate and ETag")
            })
        };
        Ok(Self {
            count: names.len(),
            key: needed("Key")?,
            size: needed("Size")?,
            last_modified: needed("LastModifiedDate")?,
            etag: needed("ETag")?,
            storage_class: place("StorageClass"),
            is_latest: place("IsLatest"),
            is_delete_marker: place("IsDeleteMarker"),
        })
    }
}

impl Columns {
    /// The object of a row; `None` of an older version or a deletion.
    ///
    /// # Errors
    /// The error of the row.
    pub(super) fn entry(&self, row: &str) -> Result<Option<IndexEntry>, &'static str> {
        let fields = fields(row).ok_or("a quote does not end")?;
        if fields.len() != self.count {
            return Err("it has not as many fields as there are columns");
        }
        let flag = |place: Option<usize>| match place.map(|place| &*fields[place]) {
            None | Some("") => Ok(None),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(_) => Err("IsLatest or IsDeleteMarker is neither true nor false"),
        };
        if flag(self.is_latest)? == Some(false) || flag(self.is_delete_marker)? == Some(true) {
            return Ok(None);
        }
        let key = decode_key(&fields[self.key]).ok_or("its key is not URL-encoded")?;
        let object = RowObject::parse(key.into_owned(), &fields[self.etag])?;
        let size = fields[self.size].parse::<i64>().ok();
        let size = size.and_then(|size| u64::try_from(size).ok());
        let size = size.ok_or("its size is no number")?;
        let time = iso_time(&fields[self.last_modified]);
        let time = time.ok_or("its LastModifiedDate is no time")?;
        let class = self.storage_class.map(|place| fields[place].as_bytes());
        Ok(Some(object.entry(size, time, class)))
    }
}

/// The fields of a row; `None` if a quote does not end, or ends within a field.
fn fields(mut rest: &str) -> Option<Vec<Cow<'_, str>>> {
    let mut fields = Vec::new();
    loop {
        let field = match rest.strip_prefix('"') {
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (field, behind) = rest.split_at(end);
                rest = behind;
                Cow::Borrowed(field)
            }
            Some(quoted) => {
                let mut end = 0;
                loop {
                    end += quoted.get(end..)?.find('"')?;
                    if !quoted[end + 1..].starts_with('"') {
                        break;
                    }
                    end += 2;
                }
                rest = &quoted[end + 1..];
                match &quoted[..end] {
                    field if field.contains('"') => Cow::Owned(field.replace("\"\"", "\"")),
                    field => Cow::Borrowed(field),
                }
            }
        };
        fields.push(field);
        match rest.strip_prefix(',') {
            Some(behind) => rest = behind,
            None if rest.is_empty() => return Some(fields),
            None => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use mountpoint_client::types::Key;

    use super::*;

    #[test]
    fn fields_of_rows() {
        for (row, expected) in [
            ("a,b", Some(&["a", "b"][..])),
            ("\"a\",\"b\"", Some(&["a", "b"])),
            ("\"a,b\",c,", Some(&["a,b", "c", ""])),
            ("\"a\"\"b\"\"\",\"\"", Some(&["a\"b\"", ""])),
            ("", Some(&[""])),
            ("\"a", None),
            ("\"a\"b,c", None),
            ("\"a\"\"", None),
        ] {
            let found = fields(row);
            let found = found
                .as_ref()
                .map(|it| it.iter().map(|it| &**it).collect::<Vec<_>>());
            assert_eq!(found.as_deref(), expected, "{row}");
        }
    }

    #[test]
    fn columns_by_their_names() {
        let columns: Columns = "Bucket, Key, Size, LastModifiedDate, ETag".parse().unwrap();
        assert_eq!((columns.count, columns.key, columns.etag), (5, 1, 4));
        let error = "Bucket, Key, Size".parse::<Columns>().unwrap_err();
        assert!(error.contains("no column LastModifiedDate"), "{error}");
    }

    #[test]
    fn rows() {
        let all = "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag, StorageClass";
        let columns: Columns = all.parse().unwrap();
        let row = |key: &str, latest: &str, deleted: &str, size: &str, etag: &str| {
            let class = if size == "7" {
                "DEEP_ARCHIVE"
            } else {
                "STANDARD"
            };
            columns.entry(&format!(
                "\"b\",\"{key}\",\"v\",\"{latest}\",\"{deleted}\",\"{size}\",\"2026-01-02T03:04:05.000Z\",\"{etag}\",\"{class}\""
            ))
        };
        let digest = "0123456789abcdef0123456789abcdef";
        let entry = row("a/b+%C3%A9%2B", "true", "false", "12", digest)
            .unwrap()
            .unwrap();
        assert_eq!(
            (&*entry.key, entry.size, entry.mtime),
            ("a/b é+", 12, 1_767_323_045)
        );
        assert_eq!(entry.etag.unpack().as_str(), format!("\"{digest}\""));
        assert!(!entry.is_archived);
        assert!(
            row("a", "true", "false", "7", digest)
                .unwrap()
                .unwrap()
                .is_archived
        );
        assert_eq!(row("a", "false", "false", "1", digest), Ok(None));
        assert_eq!(row("a", "true", "true", "", ""), Ok(None));
        let without = row("a", "true", "false", "1", "").unwrap().unwrap();
        assert_eq!(without.key, format!("a{}", Key::NO_ETAG));
        for (wrong, part) in [
            (row("%zz", "true", "false", "1", digest), "URL-encoded"),
            (row("", "true", "false", "1", digest), "empty"),
            (row("a", "maybe", "false", "1", digest), "neither"),
            (row("a", "true", "false", "big", digest), "no number"),
            (columns.entry("a,b"), "as many fields"),
            (columns.entry("\"a"), "quote"),
        ] {
            assert!(wrong.unwrap_err().contains(part));
        }
    }
}
