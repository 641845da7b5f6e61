//! Headers of new objects, as received and stored: for small, large, appended and copied files.

use std::fs::OpenOptions;
use std::io::Write as _;

use mountpoint_client::testing::server::{Operation, Server};

use crate::harness::{BUCKET, Mounted, server};

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
    // small and more; the proof of the permission, large, more, synced and more; copied.
    assert_eq!(seen, [2, 5, 1]);
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
