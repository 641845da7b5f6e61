//! Reads and writes over TLS through a mount: the bytes, and whom it trusts.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};

use mountpoint_client::testing::server::{Operation, Server, ServerOptions, SyntheticChecker};
use sha2::{Digest as _, Sha256};

use crate::harness::{ACCESS_KEY, BUCKET, Mounted, SECRET_KEY, mount_s3, shell};

const SIZE: u64 = 96 << 20;
const SEED: u64 = 12;

fn with_tls() -> Server {
    let server = Server::start(ServerOptions {
        credentials: Some((ACCESS_KEY.to_owned(), SECRET_KEY.to_owned())),
        has_tls: true,
        ..ServerOptions::default()
    })
    .unwrap();
    server.store().create_bucket(BUCKET);
    server.store().put_synthetic(BUCKET, "file", SIZE, SEED);
    server
}

fn mounted(server: &Server) -> (Mounted, tempfile::NamedTempFile) {
    let mut bundle = tempfile::NamedTempFile::new().unwrap();
    bundle.write_all(Server::AUTHORITY.as_bytes()).unwrap();
    let mut command = mount_s3();
    command
        .args([BUCKET, "--endpoint-url", &server.tls_url()])
        .args(["--force-path-style", "--allow-overwrite", "--ca-bundle"])
        .arg(bundle.path());
    (Mounted::start(command), bundle)
}

#[test]
fn what_is_read_is_what_is_stored() {
    let server = with_tls();
    let (mounted, _bundle) = mounted(&server);
    for block in [1 << 20, 4096 * 3 + 1] {
        let mut file = File::open(mounted.join("file")).unwrap();
        let mut check = SyntheticChecker::new(SEED, 0);
        let mut bytes = vec![0; block];
        let mut size = 0;
        loop {
            let len = file.read(&mut bytes).unwrap();
            if len == 0 {
                break;
            }
            check.check(&bytes[..len]).unwrap();
            size += len as u64;
        }
        assert_eq!(size, SIZE);
    }
    let sums = shell(
        mounted.path(),
        "for n in 1 2 3 4; do sha256sum file & done; wait",
    );
    let sums: Vec<_> = sums.lines().collect();
    assert_eq!(sums.len(), 4);
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    assert!(server.log().count(Operation::GetObject) > 0);
}

#[test]
fn what_is_written_is_what_is_stored() {
    let server = with_tls();
    let (mounted, _bundle) = mounted(&server);
    for size in [0_u32, 1, 5000, 1 << 20, (40 << 20) + 7] {
        let bytes: Vec<u8> = (0..size)
            .map(|at: u32| (at.wrapping_mul(31) + at / 255).to_le_bytes()[0])
            .collect();
        let name = format!("written-{size}");
        fs::write(mounted.join(&name), &bytes).unwrap();
        let stored = server.store().object(BUCKET, &name).unwrap().bytes();
        assert!(Sha256::digest(&stored) == Sha256::digest(&bytes), "{size}");
        assert!(fs::read(mounted.join(&name)).unwrap() == bytes, "{size}");
    }
}
