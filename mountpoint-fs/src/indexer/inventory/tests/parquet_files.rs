//! Inventories in Parquet, as S3 writes them and as it does not.

use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::*;
use crate::index::IndexEntry;

/// The columns of S3.
const SCHEMA: &str = "message s3.inventory {
    required binary bucket (UTF8);
    required binary key (UTF8);
    optional binary version_id (UTF8);
    optional boolean is_latest;
    optional boolean is_delete_marker;
    optional int64 size;
    optional int64 last_modified_date (TIMESTAMP_MILLIS);
    optional binary e_tag (UTF8);
    optional binary storage_class (UTF8);
}";

#[derive(Clone)]
struct Object {
    key: String,
    is_latest: Option<bool>,
    is_deleted: Option<bool>,
    size: Option<i64>,
    time: Option<i64>,
    etag: Option<String>,
    class: &'static str,
}

fn object(key: &str, size: i64) -> Object {
    Object {
        key: key.to_owned(),
        is_latest: Some(true),
        is_deleted: Some(false),
        size: Some(size),
        time: Some(1_767_323_045_678),
        etag: Some(format!("{size:032x}")),
        class: "STANDARD",
    }
}

fn texts<'a>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: impl Iterator<Item = Option<&'a str>>,
    is_optional: bool,
) {
    let values: Vec<_> = values.collect();
    let levels: Vec<i16> = values.iter().map(|it| i16::from(it.is_some())).collect();
    let values: Vec<ByteArray> = values.into_iter().flatten().map(ByteArray::from).collect();
    let mut column = group.next_column().unwrap().unwrap();
    let typed = column.typed::<ByteArrayType>();
    typed
        .write_batch(&values, is_optional.then_some(&*levels), None)
        .unwrap();
    column.close().unwrap();
}

fn flags(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: impl Iterator<Item = Option<bool>>,
) {
    let values: Vec<_> = values.collect();
    let levels: Vec<i16> = values.iter().map(|it| i16::from(it.is_some())).collect();
    let values: Vec<bool> = values.into_iter().flatten().collect();
    let mut column = group.next_column().unwrap().unwrap();
    let typed = column.typed::<BoolType>();
    typed.write_batch(&values, Some(&levels), None).unwrap();
    column.close().unwrap();
}

fn numbers(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: impl Iterator<Item = Option<i64>>,
) {
    let values: Vec<_> = values.collect();
    let levels: Vec<i16> = values.iter().map(|it| i16::from(it.is_some())).collect();
    let values: Vec<i64> = values.into_iter().flatten().collect();
    let mut column = group.next_column().unwrap().unwrap();
    let typed = column.typed::<Int64Type>();
    typed.write_batch(&values, Some(&levels), None).unwrap();
    column.close().unwrap();
}

/// A file with these row groups.
fn file(groups: &[&[Object]], compression: Compression) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_data_page_size_limit(16 << 10)
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    for objects in groups {
        let mut group = writer.next_row_group().unwrap();
        texts(&mut group, objects.iter().map(|_| Some("b")), false);
        texts(&mut group, objects.iter().map(|it| Some(&*it.key)), false);
        texts(&mut group, objects.iter().map(|_| None), true);
        flags(&mut group, objects.iter().map(|it| it.is_latest));
        flags(&mut group, objects.iter().map(|it| it.is_deleted));
        numbers(&mut group, objects.iter().map(|it| it.size));
        numbers(&mut group, objects.iter().map(|it| it.time));
        texts(
            &mut group,
            objects.iter().map(|it| it.etag.as_deref()),
            true,
        );
        texts(&mut group, objects.iter().map(|it| Some(it.class)), true);
        group.close().unwrap();
    }
    writer.into_inner().unwrap()
}

fn entries(path: &Path) -> Result<Vec<IndexEntry>, String> {
    let mut entries = Vec::new();
    of(path)?.read("", |entry| {
        entries.push(entry);
        Ok(())
    })?;
    Ok(entries)
}

fn written(groups: &[&[Object]]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let bytes = file(groups, Compression::SNAPPY);
    let path = write(directory.path().join("data.parquet"), bytes);
    (directory, path)
}

#[test]
fn rows_are_objects_but_for_older_versions_and_deletions() {
    let older = Object {
        is_latest: Some(false),
        ..object("older", 1)
    };
    let deleted = Object {
        is_deleted: Some(true),
        size: None,
        etag: None,
        ..object("deleted", 1)
    };
    let unversioned = Object {
        is_latest: None,
        is_deleted: None,
        class: "DEEP_ARCHIVE",
        ..object("a/b c%20é", 9 << 40)
    };
    let without = Object {
        etag: None,
        ..object("without", 3)
    };
    let (_directory, path) =
        written(&[&[older, object("one", 1)], &[deleted, unversioned, without]]);
    let entries = entries(&path).unwrap();
    let found: Vec<_> = entries
        .iter()
        .map(|it| (&*it.key, it.size, it.is_archived))
        .collect();
    let hidden = format!("without{}", mountpoint_client::types::Key::NO_ETAG);
    assert_eq!(
        found,
        [
            ("one", 1, false),
            ("a/b c%20é", 9 << 40, true),
            (&*hidden, 3, false)
        ]
    );
    assert_eq!(entries[0].mtime, 1_767_323_045);
    assert_eq!(entries[0].etag.unpack().as_str(), format!("\"{:032x}\"", 1));
}

#[test]
fn many_rows_of_many_pages_and_groups() {
    let objects: Vec<Object> = (0..20_000)
        .map(|number| object(&format!("k/{number:07}"), number))
        .collect();
    let (_directory, path) = written(&[&objects[..9_000], &[], &objects[9_000..]]);
    let entries = entries(&path).unwrap();
    assert_eq!(entries.len(), objects.len());
    for (entry, object) in entries.iter().zip(&objects) {
        assert_eq!(entry.key, object.key);
        assert_eq!(i64::try_from(entry.size).ok(), object.size);
    }
    let inventory = of(&path).unwrap();
    assert_eq!(keys(&inventory, "k/001999").unwrap().len(), 10);
}

#[test]
fn a_manifest_names_files_in_parquet() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = file(&[&[object("a", 1)]], Compression::SNAPPY);
    write(directory.path().join("data/one.parquet"), &bytes);
    let text = manifest("Parquet", &[("one.parquet", bytes.len() as u64)]);
    let path = write(directory.path().join("day/manifest.json"), text);
    let inventory = of(&path).unwrap();
    assert_eq!(inventory.bucket(), Some("b"));
    assert_eq!(keys(&inventory, "").unwrap(), ["a"]);
}

#[test]
fn what_a_file_lacks_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wrong.parquet");
    let empty = |schema: &str| {
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).unwrap();
        writer.into_inner().unwrap()
    };
    for (from, to, expected) in [
        ("e_tag", "tag", "no column e_tag: it needs key, size"),
        (
            "required binary key",
            "required binary name",
            "no column key",
        ),
        ("(TIMESTAMP_MILLIS)", "", "no times in milliseconds"),
    ] {
        write(path.clone(), empty(&SCHEMA.replace(from, to)));
        let error = entries(&path).unwrap_err();
        assert!(
            error.contains(expected) && error.contains("wrong.parquet"),
            "{error}"
        );
    }
    let wrong = Object {
        size: Some(-1),
        ..object("b", 1)
    };
    for (bytes, expected) in [
        (
            file(
                &[&[object("a", 1)], &[object("a", 1), wrong]],
                Compression::SNAPPY,
            ),
            "wrong.parquet, row 3: its size",
        ),
        (
            file(&[&[object("", 1)]], Compression::UNCOMPRESSED),
            "row 1: its key is empty",
        ),
        (b"PAR1 and no more".to_vec(), "it is damaged"),
    ] {
        write(path.clone(), bytes);
        let error = entries(&path).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

/// A file that is damaged gives an error or other values, and never ends the process.
#[test]
fn damaged_files_are_errors() {
    let objects: Vec<Object> = (0..20)
        .map(|number| object(&format!("key/{number}"), number))
        .collect();
    let (_directory, path) = written(&[&objects]);
    let whole = std::fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut wrong = whole.clone();
        wrong[at] ^= 0x41;
        write(path.clone(), &wrong);
        drop(entries(&path));
    }
    for len in (4..whole.len()).step_by(7) {
        write(path.clone(), &whole[..len]);
        let error = entries(&path).unwrap_err();
        assert!(error.contains("it is damaged"), "{error}");
    }
}
