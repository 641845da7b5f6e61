//! Headers of new objects, as received and stored: for small, large, appended and copied files.

use std::fs::OpenOptions;
use std::io::Write as _;

use mountpoint_client::testing::server::{Headers, Operation, Server};
use mountpoint_client::types::{Key, ObjectHeaders, PutCondition, PutRequest};
use mountpoint_client::{CrtClient, ObjectClient};

use crate::harness::{BUCKET, Mounted, client_of, server, shell};
use crate::servers::Program;

const MIB: usize = 1 << 20;
const KEY: &str = "arn:aws:kms:us-east-1:111122223333:key/1";

/// Writes small, large and synchronised files, appends to each, and renames one.
fn write(mounted: &Mounted) {
    for (name, len) in [("small.json", 10), ("large.json", 9 * MIB)] {
        std::fs::write(mounted.join(name), vec![1; len]).unwrap();
        let mut file = OpenOptions::new()
            .append(true)
            .open(mounted.join(name))
            .unwrap();
        file.write_all(b"more").unwrap();
        nix::unistd::close(file).unwrap();
    }
    let mut file = std::fs::File::create_new(mounted.join("synced.json")).unwrap();
    for _ in 0..9 {
        file.write_all(&vec![2; MIB]).unwrap();
    }
    file.sync_all().unwrap();
    file.write_all(b"more").unwrap();
    nix::unistd::close(file).unwrap();
    std::fs::rename(mounted.join("small.json"), mounted.join("copied.json")).unwrap();
}

const FLAGS: [&str; 2] = ["--allow-append", "--allow-rename"];
const KEYS: [&str; 3] = ["copied.json", "large.json", "synced.json"];

fn check_content(server: &Server) {
    assert_eq!(server.store().keys(BUCKET), KEYS);
    for (key, len) in [
        (KEYS[0], 14),
        (KEYS[1], 9 * MIB + 4),
        (KEYS[2], 9 * MIB + 4),
    ] {
        let bytes = server.store().object(BUCKET, key).unwrap().bytes();
        assert_eq!(
            (bytes.len(), &bytes[len - 4..]),
            (len, &b"more"[..]),
            "{key}"
        );
    }
    assert!(server.store().uploads(BUCKET).is_empty());
}

#[test]
fn encryption_storage_class_and_content_type_are_on_every_object() {
    let server = server();
    let settings = [
        "--sse",
        "aws:kms",
        "--sse-kms-key-id",
        KEY,
        "--storage-class",
        "STANDARD_IA",
        "--infer-content-type",
    ];
    let mounted = Mounted::new(&server, &[&FLAGS[..], &settings].concat());
    write(&mounted);
    check_content(&server);
    for key in KEYS {
        let headers = server.store().object(BUCKET, key).unwrap().headers();
        assert_eq!(
            headers.storage_class.as_deref(),
            Some("STANDARD_IA"),
            "{key}"
        );
        assert_eq!(
            headers.content_type.as_deref(),
            Some("application/json"),
            "{key}"
        );
    }
    let mut seen = [0; 3];
    for record in server.log().take() {
        let makes = [
            Operation::PutObject,
            Operation::CreateMultipartUpload,
            Operation::CopyObject,
        ];
        let Some(which) = makes.iter().position(|it| *it == record.operation) else {
            continue;
        };
        seen[which] += 1;
        let setting = |name: &str| record.setting(&format!("x-amz-server-side-encryption{name}"));
        assert_eq!(setting(""), Some("aws:kms"), "{record:?}");
        assert_eq!(setting("-aws-kms-key-id"), Some(KEY), "{record:?}");
    }
    // small and more, and a trial of the server; the proof of the permission, large, more, synced
    // and more; another trial and copied.
    assert_eq!(seen, [2 + 1, 5, 1 + 1]);
}

#[test]
fn checksums_are_those_that_were_asked_for() {
    for (flag, expected) in [
        (None, Some("CRC32C")),
        (Some("crc32c"), Some("CRC32C")),
        (Some("crc64nvme"), Some("CRC64NVME")),
        (Some("off"), None),
    ] {
        let server = server();
        let mut args = FLAGS.to_vec();
        args.extend(flag.iter().flat_map(|flag| ["--upload-checksums", flag]));
        let mounted = Mounted::new(&server, &args);
        std::fs::write(mounted.join("small"), b"x").unwrap();
        std::fs::write(mounted.join("large"), vec![1; 9 * MIB]).unwrap();
        for key in ["small", "large"] {
            let object = server.store().object(BUCKET, key).unwrap();
            let stored = object.checksum().map(|(algorithm, _)| algorithm);
            match expected {
                Some(expected) => assert_eq!(stored, Some(expected), "{flag:?} {key}"),
                // S3 computes its own checksum if the request has none.
                None => assert_ne!(stored, Some("CRC32C"), "{flag:?} {key}"),
            }
        }
        write(&mounted);
        server.store().delete(BUCKET, "small");
        server.store().delete(BUCKET, "large");
        check_content(&server);
    }
}

/// What other clients have stored: a name in UTF-8, and a name of metadata that has a `+`.
const DISPOSITION: &str = "attachment; filename=\"\u{fc}ber.txt\"";
const METADATA: [(&str, &str); 2] = [("a+b", "plus"), ("note", "na\u{ef}ve \u{1f600}")];

/// Changes of files whose headers are not plain, in the mount that `flags` make. `o` and `d/o` are
/// such objects, and `d/e` is an empty one.
fn change_odd(mounted: &Mounted) {
    shell(
        mounted.path(),
        "touch o && chmod 600 o && printf more >> o && mv o p && grep -qx bytesmore p \
         && chmod 640 d/e && mv d n && test ! -e d && printf more >> n/o && mv n/e n/f && test ! -s n/f",
    );
}

const ODD_KEYS: [&str; 3] = ["o", "d/e", "d/o"];
const CHANGED_ODD_KEYS: [&str; 3] = ["p", "n/f", "n/o"];

fn content_of(key: &str) -> &'static str {
    if key.ends_with('e') { "" } else { "bytes" }
}

#[test]
fn odd_headers_of_other_clients_are_sent_back() {
    for flags in [
        &["--allow-changes"][..],
        &["--posix-metadata", "--allow-changes"],
    ] {
        let server = server();
        let headers = Headers {
            metadata: METADATA
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..Headers::default()
        };
        for key in ODD_KEYS {
            let store = server.store();
            store.put_with(BUCKET, key, content_of(key), headers.clone());
        }
        let mounted = Mounted::new(&server, flags);
        change_odd(&mounted);
        assert!(mounted.unmount().success());
        for key in CHANGED_ODD_KEYS {
            let found = server.store().object(BUCKET, key).unwrap().headers();
            for (name, value) in METADATA {
                let found = found.metadata.get(name).map(String::as_str);
                assert_eq!(found, Some(value), "{key} {flags:?}");
            }
        }
    }
}

/// The values that a foreign server tells, also of a byte that is not UTF-8.
#[test]
fn odd_headers_on_minio_are_sent_back() {
    let staging = tempfile::tempdir().unwrap();
    let staging = staging.path().to_str().unwrap();
    let write_back = ["--allow-changes", "--staging", staging, "--write-back"];
    for flags in [
        &["--allow-changes"][..],
        &["--posix-metadata", "--allow-changes"],
        &write_back,
    ] {
        let server = Program::minio();
        let (runtime, client) = client_of(&server);
        let told = |key: &str| {
            let key = Key::parse(key).unwrap();
            runtime.block_on(client.head_details(&key)).unwrap().headers
        };
        for key in ODD_KEYS {
            runtime.block_on(put_odd(&client, key));
        }
        let before = ODD_KEYS.map(told);
        let mounted = Mounted::on(&server, flags);
        change_odd(&mounted);
        assert!(mounted.unmount().success());
        for (key, before) in CHANGED_ODD_KEYS.iter().zip(before) {
            let after = told(key);
            assert_eq!(
                after.content_disposition, before.content_disposition,
                "{key}"
            );
            for (name, value) in before.metadata {
                let found = after.metadata.iter().find(|(it, _)| *it == name);
                assert_eq!(
                    found.map(|(_, value)| value),
                    Some(&value),
                    "{key} {name} {flags:?}"
                );
            }
        }
    }
}

async fn put_odd(client: &CrtClient, key: &str) {
    let odd = [("latin-1", "f\0fcr")];
    let metadata = METADATA.iter().chain(&odd);
    let metadata = metadata.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let put = PutRequest {
        key: Key::parse(key).unwrap(),
        body: content_of(key).into(),
        condition: PutCondition::None,
        checksum: None,
        headers: ObjectHeaders {
            content_disposition: Some(DISPOSITION.to_owned()),
            metadata: metadata.collect(),
            ..ObjectHeaders::default()
        },
    };
    client.put(put).await.unwrap();
}
