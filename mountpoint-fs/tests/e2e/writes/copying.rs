//! Server-side copies for everyday programs.

use mountpoint_client::testing::server::{Headers, Operation, Server};

use crate::harness::{BUCKET, Mounted, put, server, shell};

/// Requests that carry bytes of files.
const DATA: [Operation; 3] = [
    Operation::GetObject,
    Operation::PutObject,
    Operation::UploadPart,
];

#[track_caller]
fn nothing_passed_through(server: &Server) {
    for operation in DATA {
        assert_eq!(server.log().count(operation), 0, "{operation:?}");
    }
}

#[test]
fn cp_in_a_mount_moves_no_bytes_through_it() {
    const LARGE: u64 = 1200 << 20;
    let server = server();
    server.store().put_synthetic(BUCKET, "f", 100 << 20, 1);
    server.store().put_synthetic(BUCKET, "large", LARGE, 2);
    let mounted = Mounted::new(&server, &[]);
    server.log().clear();
    shell(
        mounted.path(),
        "cp f copy && stat -c %s copy | grep -qx 104857600",
    );
    nothing_passed_through(&server);
    assert_eq!(server.log().count(Operation::UploadPartCopy), 1);
    shell(mounted.path(), "cmp f copy");
    server.log().clear();
    // In parallel parts, because S3 copies no faster than some 100 MB/s in one request.
    shell(mounted.path(), "mkdir d && cp large d/");
    nothing_passed_through(&server);
    assert_eq!(server.log().count(Operation::UploadPartCopy), 3);
    let (source, copy) = ("large", "d/large");
    let bytes = |key: &str| {
        let object = server.store().object(BUCKET, key).unwrap();
        assert_eq!(object.size(), LARGE);
        shell(
            mounted.path(),
            &format!("dd if={key} bs=1M skip=500 count=20 status=none | cksum"),
        )
    };
    assert_eq!(bytes(source), bytes(copy));
    assert!(server.store().uploads(BUCKET).is_empty());
}

#[test]
fn a_copy_is_a_new_file() {
    let server = server();
    let headers = Headers {
        content_type: Some("text/plain".to_owned()),
        ..Headers::default()
    };
    server.store().put_with(BUCKET, "a", "bytes", headers);
    put(&server, "old", "old content");
    let mounted = Mounted::new(
        &server,
        &["--allow-overwrite", "--storage-class", "STANDARD_IA"],
    );
    shell(
        mounted.path(),
        "cp a b && grep -qx bytes b && cp a old && cmp a old && ! cp -n a b 2>/dev/null || true",
    );
    for key in ["b", "old"] {
        let stored = server.store().object(BUCKET, key).unwrap().headers();
        assert_eq!(
            stored.storage_class.as_deref(),
            Some("STANDARD_IA"),
            "{key}"
        );
        assert_ne!(stored.content_type.as_deref(), Some("text/plain"), "{key}");
    }
    // Without the flag no copy is allowed.
    drop(mounted);
    let mounted = Mounted::new(&server, &[]);
    shell(
        mounted.path(),
        "! cp a old 2>/dev/null && grep -q bytes old",
    );
}

#[test]
fn programs_copy_ranges() {
    let server = server();
    server.store().put_synthetic(BUCKET, "f", 30 << 20, 1);
    put(&server, "small", "0123456789");
    let mounted = Mounted::new(&server, &[]);
    server.log().clear();
    shell(
        mounted.path(),
        "python3 - <<'END'
import os
def copy(ranges, name, source='f'):
    with open(source, 'rb') as a, open(name, 'wb') as b:
        for start, length in ranges:
            while length > 0:
                copied = os.copy_file_range(a.fileno(), b.fileno(), length, offset_src=start)
                if copied == 0: break
                start, length = start + copied, length - copied
M = 1 << 20
copy([(6 * at * M, 6 * M) for at in range(5)], 'pieces')
copy([(5, 7 * M)], 'range')
copy([(20 * M, 10 * M), (0, 20 * M)], 'turned')
END",
    );
    nothing_passed_through(&server);
    shell(
        mounted.path(),
        "cmp f pieces && cmp <(tail -c +6 f | head -c $((7 << 20))) range \
         && cmp <(tail -c +$(((20 << 20) + 1)) f) <(head -c $((10 << 20)) turned) \
         && cmp <(head -c $((20 << 20)) f) <(tail -c +$(((10 << 20) + 1)) turned)",
    );
    // The kernel copies ranges that the server cannot: ranges below a part, sequential ranges, and
    // bytes between them.
    shell(
        mounted.path(),
        "python3 - <<'END'
import os
M = 1 << 20
with open('f', 'rb') as a, open('fine', 'wb') as b:
    while os.copy_file_range(a.fileno(), b.fileno(), M) > 0: pass
assert os.path.getsize('fine') == 30 * M
with open('small', 'rb') as a, open('mixed', 'wb', buffering=0) as b:
    os.write(b.fileno(), b'head ')
    os.copy_file_range(a.fileno(), b.fileno(), 4, offset_src=2)
    os.write(b.fileno(), b' middle ')
    os.copy_file_range(a.fileno(), b.fileno(), 10, offset_src=0)
with open('small', 'rb') as a, open('begun', 'wb', buffering=0) as b:
    os.copy_file_range(a.fileno(), b.fileno(), 4, offset_src=2)
    os.write(b.fileno(), b' tail')
assert open('mixed').read() == 'head 2345 middle 0123456789'
assert open('begun').read() == '2345 tail'
END
cmp f fine",
    );
}

#[test]
fn copies_from_elsewhere_are_read_and_written() {
    let (server, other) = (server(), server());
    put(&other, "there", "their bytes");
    let mounted = Mounted::new(&server, &[]);
    let theirs = Mounted::new(&other, &[]);
    let again = Mounted::new(&server, &[]);
    put(&server, "here", "our bytes");
    shell(
        mounted.path(),
        &format!(
            "cp {0}/there . && grep -qx 'their bytes' there && cp /etc/passwd . && cmp /etc/passwd passwd \
             && cp here {0}/ && cp here {1}/again && cmp here again",
            theirs.path().display(),
            again.path().display()
        ),
    );
    assert_eq!(other.store().keys(BUCKET), ["here", "there"]);
}

#[test]
fn a_source_may_be_removed_when_it_was_copied() {
    const SIZE: u64 = 13 << 20;
    let server = server();
    for key in ["f", "g", "same"] {
        server.store().put_synthetic(BUCKET, key, SIZE, 1);
    }
    let mounted = Mounted::new(&server, &["--allow-delete"]);
    shell(
        mounted.path(),
        "{ cat f && rm f; } > c
python3 - <<'END'
import os
with open('g', 'rb') as a, open('d', 'wb') as b:
    while os.copy_file_range(a.fileno(), b.fileno(), 1 << 30) > 0: pass
    os.remove('g')
    assert not os.path.exists('g')
END
cmp c same && cmp d same",
    );
    assert_eq!(server.store().keys(BUCKET), ["c", "d", "same"]);
    // 8 MiB of each, so that the rest is as large as a part.
    assert!(server.log().count(Operation::UploadPartCopy) >= 2);
}
