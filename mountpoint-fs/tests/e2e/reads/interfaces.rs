//! A mount with several shaped network interfaces (`--bind`).
//!
//! Reads are spread over all interfaces, and continue when one of them dies.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::time::Instant;

use mountpoint_client::testing::server::{Server, ServerOptions};

use crate::harness::{ACCESS_KEY, BUCKET, HANG, Mounted, SECRET_KEY, wait_until};
use crate::network_namespace::{NetworkPaths, run};

/// Files that are read at once, each from its beginning to its end.
const FILES: u64 = 8;
const FILE_LEN: u64 = 1 << 20;
/// A rate so low that the choice of the least loaded interface matters.
const MBIT_PER_SECOND: u32 = 64;

fn server(ways: &NetworkPaths) -> Server {
    let server = Server::start(ServerOptions {
        address: format!("{}:0", ways.address).parse().unwrap(),
        credentials: Some((ACCESS_KEY.to_owned(), SECRET_KEY.to_owned())),
        ..ServerOptions::default()
    });
    let server = server.unwrap();
    server.store().create_bucket(BUCKET);
    for number in 0..FILES {
        let store = server.store();
        store.put_synthetic(BUCKET, &format!("file{number}"), FILE_LEN, 5);
    }
    server
}

/// A mount in the namespace, bound to the first `count` ways.
fn mount(ways: &NetworkPaths, server: &Server, count: u32) -> Mounted {
    let namespace = format!("--net=/run/netns/{}", ways.name);
    Mounted::behind(server, &["nsenter", &namespace], |command| {
        for way in 0..count {
            command.args(["--bind", &format!("way{way}")]);
        }
    })
}

/// Reads all files at once, past the page cache.
fn read_all(mounted: &Mounted) {
    let open = |number: u64| {
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_DIRECT);
        options
            .open(mounted.join(&format!("file{number}")))
            .unwrap()
    };
    let files: Vec<File> = (0..FILES).map(open).collect();
    std::thread::scope(|scope| {
        for file in &files {
            scope.spawn(move || {
                let mut buffer = vec![0; 256 << 10];
                for offset in (0..FILE_LEN).step_by(buffer.len()) {
                    file.read_exact_at(&mut buffer, offset).unwrap();
                }
            });
        }
    });
}

/// Each interface carries its share, so the total rate grows with their number.
#[test]
fn what_a_mount_reads_is_shared_by_all_interfaces() {
    let ways = NetworkPaths::new(2, 4);
    let server = server(&ways);
    ways.shape(MBIT_PER_SECOND);
    for count in [1, 2, 4] {
        let mounted = mount(&ways, &server, count);
        // The first round makes the connections.
        for _ in 0..2 {
            let used = ways.counted_by("tx_bytes", || read_all(&mounted));
            let all = FILES * FILE_LEN;
            for (way, sent) in (0..).zip(&used) {
                let is_used = way < count;
                let least = if is_used {
                    all / u64::from(count) / 2
                } else {
                    0
                };
                // One and a half shares, with the headers of packets and some control requests.
                let most = least * 3 + least / 4 + (64 << 10);
                assert!((least..most).contains(sent), "{count} interfaces: {used:?}");
            }
        }
    }
}

#[test]
fn a_mount_reads_on_when_an_interface_dies_and_uses_it_again_when_it_lives() {
    let ways = NetworkPaths::new(3, 2);
    let server = server(&ways);
    let mounted = mount(&ways, &server, 2);
    assert_eq!(ways.used_by(|| read_all(&mounted)), [true, true]);
    run(&format!("ip link set {} down", ways.outer(0)));
    // Requests on the dead interface are sent again elsewhere.
    read_all(&mounted);
    let started = Instant::now();
    for _ in 0..5 {
        read_all(&mounted);
    }
    assert!(started.elapsed() < HANG, "{:?}", started.elapsed());
    run(&format!("ip link set {} up", ways.outer(0)));
    wait_until("its use", || {
        ways.used_by(|| read_all(&mounted)) == [true, true]
    });
}
