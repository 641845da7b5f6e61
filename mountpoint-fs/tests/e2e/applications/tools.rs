//! Everyday tools on a mount, on the embedded server and on a foreign one.

use std::collections::BTreeMap;
use std::path::Path;

use mountpoint_client::credentials::{CredentialsMode, StaticKeys};
use mountpoint_client::testing::server::synthetic_bytes;
use mountpoint_client::types::{Key, ObjectHeaders, PutCondition, PutRequest};
use mountpoint_client::{CrtClient, CrtClientOptions, ObjectClient as _};

use crate::harness::{Mounted, put, server, shell};
use crate::servers::{self, Program};

/// Objects of the tree, and the same tree on disk to compare with.
fn tree() -> BTreeMap<String, Vec<u8>> {
    let mut objects = BTreeMap::new();
    for index in 0..300_u64 {
        let key = format!("small/{}/file-{index:04}", index % 10);
        objects.insert(key, synthetic_bytes(index, 0..index * 37));
    }
    for index in 0..3_u64 {
        objects.insert(
            format!("large/{index}"),
            synthetic_bytes(index, 0..(12 << 20) + index),
        );
    }
    objects
}

fn write_tree(root: &Path, objects: &BTreeMap<String, Vec<u8>>) {
    for (key, bytes) in objects {
        let path = root.join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

fn compare(mounted: &Path, local: &Path) {
    for script in [
        "find . -type f -printf '%P %s\\n' | LC_ALL=C sort",
        "find . -type f -print0 | LC_ALL=C sort -z | xargs -0 -n 20 -P 8 md5sum | LC_ALL=C sort",
        "ls -R . | cksum",
        "tar -C . --sort=name --mtime=@0 --owner=0 --group=0 --mode=0644 -cf - . | cksum",
        "for f in large/*; do tail -c 12345 $f | cksum; dd if=$f bs=4099 skip=77 count=333 2>/dev/null | cksum; done",
        "grep -rc . . | LC_ALL=C sort | cksum",
        "wc -c large/*",
    ] {
        assert_eq!(shell(mounted, script), shell(local, script), "{script}");
    }
    let copy = tempfile::tempdir().unwrap();
    shell(
        mounted,
        &format!("cp -r . {0} && diff -r . {0}", copy.path().display()),
    );
}

#[test]
fn tools_on_the_embedded_server() {
    let (server, objects) = (server(), tree());
    for (key, bytes) in &objects {
        put(&server, key, bytes.clone());
    }
    let local = tempfile::tempdir().unwrap();
    write_tree(local.path(), &objects);
    let mounted = Mounted::new(&server, &[]);
    compare(mounted.path(), local.path());
}

/// Puts the tree into a server's bucket, mounts it, and compares.
fn compare_on(server: &Program, objects: &BTreeMap<String, Vec<u8>>, local: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let options = CrtClientOptions {
        endpoint_url: Some(server.endpoint().to_owned()),
        force_path_style: true,
        credentials: CredentialsMode::Static(StaticKeys {
            access_key_id: servers::ACCESS_KEY.to_owned(),
            secret_access_key: servers::SECRET_KEY.to_owned(),
            session_token: None,
        }),
        ..CrtClientOptions::new(servers::BUCKET)
    };
    runtime.block_on(async {
        let client = CrtClient::connect(options, runtime.handle().clone())
            .await
            .unwrap();
        for (key, bytes) in objects {
            let put = PutRequest {
                key: Key::parse(key).unwrap(),
                body: bytes.clone().into(),
                condition: PutCondition::None,
                checksum: None,
                headers: ObjectHeaders::default(),
            };
            client.put(put).await.unwrap();
        }
    });
    let mounted = Mounted::on(server, &[]);
    compare(mounted.path(), local);
}

#[test]
fn tools_on_minio() {
    let (objects, local) = (tree(), tempfile::tempdir().unwrap());
    write_tree(local.path(), &objects);
    compare_on(&Program::minio(), &objects, local.path());
}

#[test]
fn tools_on_versitygw() {
    let (objects, local) = (tree(), tempfile::tempdir().unwrap());
    write_tree(local.path(), &objects);
    compare_on(&Program::versitygw(), &objects, local.path());
}
