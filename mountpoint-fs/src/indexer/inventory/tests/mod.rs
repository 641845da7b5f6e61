//! Inventories as files: manifests, compression, and what is wrong with them.

mod parquet_files;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::Inventory;

const COLUMNS: &str = "Bucket, Key, Size, LastModifiedDate, ETag";

fn row(key: &str, size: u64) -> String {
    format!("\"b\",\"{key}\",\"{size}\",\"2026-01-02T03:04:05.000Z\",\"{size:032x}\"\n")
}

fn compressed(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn manifest(format: &str, files: &[(&str, u64)]) -> String {
    let files: Vec<_> = files
        .iter()
        .map(|(name, size)| serde_json::json!({"key": format!("inventory/{name}"), "size": size, "MD5checksum": "x"}))
        .collect();
    serde_json::json!({
        "sourceBucket": "b", "destinationBucket": "arn:aws:s3:::d", "version": "2016-11-30",
        "fileFormat": format, "fileSchema": COLUMNS, "files": files,
    })
    .to_string()
}

fn keys(inventory: &Inventory, prefix: &str) -> Result<Vec<String>, String> {
    let mut keys = Vec::new();
    inventory.read(prefix, |entry| {
        keys.push(entry.key);
        Ok(())
    })?;
    Ok(keys)
}

fn write(path: PathBuf, content: impl AsRef<[u8]>) -> PathBuf {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    path
}

fn of(path: &Path) -> Result<Inventory, String> {
    Inventory::of(&[path.to_owned()], None)
}

#[test]
fn files_of_a_manifest_are_found_and_read() {
    let directory = tempfile::tempdir().unwrap();
    let at = |path: &str| directory.path().join(path);
    let one = compressed(&(row("b/1", 1) + &row("a/2", 2)));
    let two = row("b/3", 3);
    write(at("data/one.csv.gz"), &one);
    write(at("2026-01-01/two.csv"), &two);
    let files = [
        ("data/one.csv.gz", one.len() as u64),
        ("two.csv", two.len() as u64),
    ];
    let path = write(at("2026-01-01/manifest.json"), manifest("CSV", &files));
    let inventory = of(&path).unwrap();
    assert_eq!(inventory.bucket(), Some("b"));
    assert_eq!(keys(&inventory, "").unwrap(), ["b/1", "a/2", "b/3"]);
    assert_eq!(keys(&inventory, "b/").unwrap(), ["b/1", "b/3"]);
}

#[test]
fn csv_files_need_their_columns() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(
        directory.path().join("a.csv"),
        row("a", 1) + "\n" + &row("c", 2),
    );
    let error = of(&path).unwrap_err();
    assert!(error.contains("--inventory-columns"), "{error}");
    let columns = COLUMNS.parse().unwrap();
    let inventory = Inventory::of(&[path.clone(), path], Some(&columns)).unwrap();
    assert_eq!(keys(&inventory, "").unwrap(), ["a", "c", "a", "c"]);
    assert_eq!(inventory.bucket(), None);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let at = |path: &str| directory.path().join(path);
    let wrong = row("a", 1) + "no row\n";
    let cut = compressed(&row("a", 1).repeat(100));
    let cut = &cut[..cut.len() - 9];
    write(at("wrong.csv"), &wrong);
    write(at("cut.csv.gz"), cut);
    write(at("long.csv"), "x".repeat(70_000));
    for (format, files, expected) in [
        (
            "CSV",
            [("wrong.csv", wrong.len() as u64)],
            "wrong.csv, line 2: it has not as many",
        ),
        (
            "CSV",
            [("cut.csv.gz", cut.len() as u64)],
            "cut.csv.gz, line",
        ),
        (
            "Parquet",
            [("wrong.csv", wrong.len() as u64)],
            "wrong.csv: it is damaged, or no file in Parquet",
        ),
        ("CSV", [("long.csv", 70_000)], "line 1: the line is longer"),
        ("CSV", [("none.csv", 1)], "none.csv, which"),
        ("CSV", [("wrong.csv", 1)], "says 1"),
        (
            "ORC",
            [("wrong.csv", 1)],
            "format ORC: have S3 write one in Parquet or CSV",
        ),
    ] {
        let path = write(at("manifest.json"), manifest(format, &files));
        let outcome = of(&path).and_then(|inventory| keys(&inventory, ""));
        let error = outcome.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let path = write(at("manifest.json"), "{}");
    let error = of(&path).unwrap_err();
    assert!(error.contains("no manifest"), "{error}");
    let two = [path.clone(), path.clone()];
    assert!(Inventory::of(&two, None).unwrap_err().contains("alone"));
    let columns = COLUMNS.parse().unwrap();
    let error = Inventory::of(&[path], Some(&columns)).unwrap_err();
    assert!(error.contains("leave --inventory-columns out"), "{error}");
}
