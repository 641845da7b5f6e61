//! S3 goes away and comes back: the log of a mount meanwhile.

use std::net::{Ipv4Addr, SocketAddr};

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server, ServerOptions};

use crate::harness::{ACCESS_KEY, BUCKET, Mounted, SECRET_KEY, put, read, wait_until};

const BEGINS: &str = "S3 does not answer as it should";
const REFUSES: &str = "S3 has not answered anything for";
const SENDS: &str = "requests are sent again";
const ENDS: &str = "S3 answers again";

/// A server with a file, at an address that no other process takes meanwhile.
fn server_at(address: SocketAddr) -> std::io::Result<Server> {
    let credentials = Some((ACCESS_KEY.to_owned(), SECRET_KEY.to_owned()));
    let server = Server::start(ServerOptions {
        address,
        credentials,
        ..ServerOptions::default()
    })?;
    server.store().create_bucket(BUCKET);
    put(&server, "file", "contents");
    Ok(server)
}

fn server() -> Server {
    server_at(SocketAddr::from((Ipv4Addr::new(127, 0, 71, 7), 0))).unwrap()
}

/// Reads the file repeatedly until `meanwhile` has made that possible.
fn while_reading(mounted: &Mounted, meanwhile: impl FnOnce()) {
    std::thread::scope(|scope| {
        let path = mounted.join("file");
        let reader = scope.spawn(move || {
            wait_until("the file", || {
                std::fs::read(&path).is_ok_and(|bytes| bytes == b"contents")
            });
        });
        meanwhile();
        reader.join().unwrap();
    });
}

#[track_caller]
fn line(mounted: &Mounted, words: &str) -> String {
    let log = mounted.log();
    let line = log.lines().find(|line| line.contains(words));
    line.expect(words).to_owned()
}

#[test]
fn a_server_that_is_stopped_and_started_again_is_told_of() {
    let server = server();
    let (address, url) = (server.address(), server.url());
    let mounted = Mounted::new(&server, &[]);
    assert_eq!(read(&mounted.join("file")), b"contents");
    assert!(!mounted.log().contains(BEGINS));
    drop(server);
    let mut started = None;
    while_reading(&mounted, || {
        wait_until("the line", || mounted.log().contains(BEGINS));
        wait_until("the address", || {
            started = server_at(address).ok();
            started.is_some()
        });
    });
    wait_until("the end", || mounted.log().contains(ENDS));
    let begins = line(&mounted, BEGINS);
    for words in [" WARN ", "s3://test-bucket", "cannot reach", &url] {
        assert!(begins.contains(words), "{words}: {begins}");
    }
    let ends = line(&mounted, ENDS);
    for words in [" WARN ", "s3://test-bucket", &url] {
        assert!(ends.contains(words), "{words}: {ends}");
    }
    assert!(!mounted.log().contains(SECRET_KEY));
}

/// The kernel serialises creations in a directory, so programs wait for each other.
#[test]
fn programs_behind_each_other_hear_of_a_silent_server_together() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    assert_eq!(read(&mounted.join("file")), b"contents");
    let rule = server.faults().add(Rule::always(Fault::BlackHole));
    std::thread::scope(|scope| {
        let makers: Vec<_> = (0..15)
            .map(|n| mounted.join(&format!("new{n}")))
            .map(|path| scope.spawn(move || std::fs::write(path, b"bytes")))
            .collect();
        for maker in makers {
            let error = maker.join().unwrap().unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EIO));
        }
    });
    let refuses = line(&mounted, REFUSES);
    assert!(refuses.contains(" WARN "), "{refuses}");
    // Each program in turn tries twice within its minute.
    let sent: u64 = [Operation::ListObjectsV2, Operation::HeadObject]
        .map(|operation| server.log().count(operation))
        .iter()
        .sum();
    assert!(sent < 15, "{sent} requests");
    server.faults().remove(rule);
    wait_until("the end", || mounted.log().contains(SENDS));
    std::fs::write(mounted.join("new"), b"bytes").unwrap();
}

#[test]
fn a_server_that_answers_badly_or_not_at_all_is_told_of() {
    let unavailable = Fault::Error {
        status: 503,
        code: "ServiceUnavailable",
    };
    let of_data = |fault| Rule::on(Operation::GetObject, fault);
    for (rule, words) in [
        (
            of_data(unavailable.clone()),
            "GetObject s3://test-bucket/file: ServiceUnavailable",
        ),
        (
            of_data(Fault::BlackHole),
            "GetObject s3://test-bucket/file: the connection stalled",
        ),
        (Rule::always(unavailable), "HTTP 503"),
        (Rule::always(Fault::BlackHole), "no answer within 10 s"),
    ] {
        let server = server();
        let mounted = Mounted::new(&server, &[]);
        let rule = server.faults().add(rule);
        while_reading(&mounted, || {
            wait_until("the line", || mounted.log().contains(BEGINS));
            server.faults().remove(rule);
        });
        wait_until("the end", || mounted.log().contains(ENDS));
        let begins = line(&mounted, BEGINS);
        assert!(begins.contains(words), "{words}: {begins}");
        line(&mounted, ENDS);
    }
}
