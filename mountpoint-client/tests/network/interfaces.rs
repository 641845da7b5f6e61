//! Requests bound to network interfaces, in a network namespace with several ways to the server:
//! all are used and carry their share, one that dies is left out, and it is used again when it
//! lives again.

use mountpoint_client::ErrorKind;
use mountpoint_client::credentials::CredentialsMode;
use mountpoint_client::testing::server::Server;

use crate::support::bucket::{BUCKET, check_error, connect, options, server, server_at};
use crate::support::child::{Child, HANG, Setting};
use crate::support::network_namespace::{NetworkPaths, run};

impl NetworkPaths {
    fn server(&self) -> Server {
        server_at(&format!("{}:0", self.address))
    }

    /// A child in the namespace that uses the first `count` ways.
    fn child(&self, server: &Server, count: u32) -> Child {
        let wrapper = ["ip", "netns", "exec", &self.name];
        let names: Vec<_> = (0..count).map(|way| format!("way{way}")).collect();
        let mut child = Setting::behind(&wrapper, &server.url())
            .variable("AWS_ACCESS_KEY_ID", "ENV")
            .variable("AWS_SECRET_ACCESS_KEY", "secret")
            .interfaces(&names.join(" "))
            .start();
        child.check("connect", "ok");
        child
    }
}

#[test]
fn requests_are_spread_and_a_dead_interface_is_left_out_until_it_lives() {
    let ways = NetworkPaths::new(0, 2);
    let server = ways.server();
    let mut child = ways.child(&server, 2);
    for command in ["get", "head", "put"] {
        let used = ways.used_by(|| {
            for _ in 0..4 {
                child.check(command, "ok");
            }
        });
        assert_eq!(used, [true, true], "{command} uses both");
    }

    let sent = ways.counted_by("tx_bytes", || {
        (0..20).for_each(|_| child.check("elsewhere", "ok"));
    });
    // Stray packets of what was before, or of the kernel's own, are few.
    assert!(
        sent[0] < sent[1] / 4,
        "second GETs go another way: {sent:?}"
    );

    run(&format!("ip link set {} down", ways.outer(0)));
    for command in ["put", "head", "get", "put", "head", "get"] {
        child.check(command, "ok");
    }
    // Each request that met the dead interface was sent again elsewhere; now none meets it, which
    // would take each a second or more.
    let started = tokio::time::Instant::now();
    for _ in 0..20 {
        child.check("all", "ok");
    }
    assert!(started.elapsed() < HANG, "{:?}", started.elapsed());

    run(&format!("ip link set {} up", ways.outer(0)));
    let limit = tokio::time::Instant::now() + 2 * HANG;
    while ways.used_by(|| (0..4).for_each(|_| child.check("get", "ok"))) != [true, true] {
        assert!(tokio::time::Instant::now() < limit, "it is not used again");
    }
}

/// Each carries its share, however many there are: as each is shaped, all together carry that much
/// more.
#[test]
fn what_is_read_is_shared_evenly_by_all_interfaces() {
    let ways = NetworkPaths::new(1, 4);
    let server = ways.server();
    server.store().put_synthetic(BUCKET, "large", LARGE, 1);
    ways.shape(MBIT_PER_SECOND);
    for count in [1, 2, 4] {
        let mut child = ways.child(&server, count);
        // The first makes the connections.
        for _ in 0..2 {
            let sent = ways.counted_by("tx_bytes", || child.check("large", "ok"));
            for (way, sent) in (0_u32..).zip(&sent) {
                let is_used = way < count;
                let share = if is_used { LARGE / u64::from(count) } else { 0 };
                let most = share * 3 / 2 + (64 << 10);
                let is_even = (share * 2 / 3..most).contains(sent);
                assert!(
                    is_even,
                    "{count} interfaces: way {way} carried {sent}, not {share}"
                );
            }
        }
    }
}

#[test]
fn an_interface_that_does_not_exist_is_refused_with_those_that_do() {
    let server = server();
    let mut options = options(&server.url());
    options.credentials = CredentialsMode::Unsigned;
    options.network_interfaces = vec!["lo".to_owned(), "none0".to_owned()];
    let Err(error) = connect(options.clone()) else {
        panic!("there is no such interface");
    };
    check_error(
        &error,
        &ErrorKind::InvalidRequest,
        &["none0", "does not exist", "lo"],
    );
    options.network_interfaces.pop();
    connect(options).unwrap().use_all().unwrap();
}

/// Size of an object that is read over shaped interfaces: at [`MBIT_PER_SECOND`] over one of them
/// about a second.
const LARGE: u64 = 4 << 20;
/// So slow that the processor is never the limit.
const MBIT_PER_SECOND: u32 = 32;
