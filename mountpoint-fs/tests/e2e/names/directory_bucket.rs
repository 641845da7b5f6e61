//! A directory bucket: sessions, and a listing in no order.

use mountpoint_client::testing::server::{Operation, Server};

use crate::harness::{Mounted, mount_s3, read, shell};

const BUCKET: &str = "mounted--usw2-az1--x-s3";

/// More than a page of a listing holds.
const FILES: usize = 1500;

fn mounted(server: &Server) -> Mounted {
    let mut command = mount_s3();
    command.args([BUCKET, "--endpoint-url", &server.url()]);
    Mounted::start(command)
}

#[test]
fn a_directory_bucket_is_mounted_listed_and_read() {
    let server = Server::start_with_bucket(BUCKET).unwrap();
    for number in 0..FILES {
        let key = format!("many/{number:04}");
        server.store().put(BUCKET, &key, "x");
    }
    let big: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    server.store().put(BUCKET, "a/b/big", big.clone());
    let mounted = mounted(&server);

    let names = shell(mounted.path(), "ls -U many");
    let mut names: Vec<_> = names.lines().collect();
    names.sort_unstable();
    let expected: Vec<_> = (0..FILES).map(|number| format!("{number:04}")).collect();
    assert!(names == expected, "{} names", names.len());
    assert_eq!(shell(mounted.path(), "ls").trim(), "a\nmany");
    assert_eq!(
        shell(mounted.path(), "find a | sort").trim(),
        "a\na/b\na/b/big"
    );

    // The server forgets the session; no reader notices.
    server.end_sessions();
    assert!(read(&mounted.join("a/b/big")) == big);
    assert_eq!(shell(mounted.path(), "stat -c %s many/0007").trim(), "1");
    shell(mounted.path(), "test ! -e many/absent");

    let refused: Vec<_> = server
        .log()
        .take()
        .into_iter()
        .filter(|record| record.status >= 400 && ![403, 404].contains(&record.status))
        .collect();
    assert!(refused.is_empty(), "{refused:?}");
    assert_eq!(server.log().count(Operation::CreateSession), 2);
    assert!(mounted.unmount().success());
}
