//! Requests bound to network interfaces, in a network namespace with two ways to the server: both are used, one that
//! dies is left out, and it is used again when it lives again.

use std::process::Command;
use std::time::Duration;

use mountpoint_client::ErrorKind;
use mountpoint_client::credentials::CredentialsMode;
use mountpoint_client::server::Server;

use crate::bucket::{check_error, connect, options, server, server_at};
use crate::child::{Child, Setting};

/// A namespace whose interfaces `way0` and `way1` lead to this one's `mptN-0` and `mptN-1`. Ends with the test.
struct TwoWays {
    name: String,
    /// An address of the server that both ways lead to.
    address: String,
}

impl TwoWays {
    fn new(number: u8) -> Self {
        // Names and addresses of this process only; the range is for use within a machine.
        let id = std::process::id();
        let (high, low) = (64 + (id >> 8) % 64, id % 256);
        let this = Self {
            name: format!("mpt{id}-{number}"),
            address: format!("100.{high}.{low}.{}", 250 + number),
        };
        let (name, address) = (&this.name, &this.address);
        run(&format!("ip netns add {name}"));
        run(&format!("ip -n {name} link set lo up"));
        run(&format!("ip address add {address}/32 dev lo"));
        for way in 0..2 {
            let (outer, net) = (this.outer(way), u32::from(number) * 16 + way * 4);
            let (here, there) = (
                format!("100.{high}.{low}.{}", net + 1),
                format!("100.{high}.{low}.{}", net + 2),
            );
            run(&format!(
                "ip link add {outer} type veth peer name way{way} netns {name}"
            ));
            run(&format!("ip address add {here}/30 dev {outer}"));
            run(&format!("ip link set {outer} up"));
            run(&format!("ip -n {name} address add {there}/30 dev way{way}"));
            run(&format!("ip -n {name} link set way{way} up"));
            run(&format!(
                "ip -n {name} route add {address} via {here} dev way{way} metric {}",
                way + 1
            ));
        }
        this
    }

    fn outer(&self, way: u32) -> String {
        format!("{}-{way}", self.name)
    }

    fn server(&self) -> Server {
        server_at(&format!("{}:0", self.address))
    }

    /// A child in the namespace that uses both ways.
    fn child(&self, server: &Server) -> Child {
        let wrapper = ["ip", "netns", "exec", &self.name];
        let mut child = Setting::behind(&wrapper, &server.url())
            .variable("AWS_ACCESS_KEY_ID", "ENV")
            .variable("AWS_SECRET_ACCESS_KEY", "secret")
            .interfaces("way0 way1")
            .start();
        child.check("connect", "ok");
        child
    }

    /// Packets that came over each way so far.
    fn packets(&self) -> [u64; 2] {
        [0, 1].map(|way| {
            let path = format!("/sys/class/net/{}/statistics/rx_packets", self.outer(way));
            let text = std::fs::read_to_string(path).unwrap();
            text.trim().parse().unwrap()
        })
    }

    /// Whether the ways carried anything while `work` was done.
    fn used_by(&self, work: impl FnOnce()) -> [bool; 2] {
        let before = self.packets();
        work();
        let after = self.packets();
        [0, 1].map(|way| after[way] > before[way])
    }
}

impl Drop for TwoWays {
    fn drop(&mut self) {
        // The pairs end with the namespace.
        for way in 0..2 {
            drop(
                Command::new("ip")
                    .args(["link", "delete", &self.outer(way)])
                    .status(),
            );
        }
        drop(
            Command::new("ip")
                .args(["netns", "delete", &self.name])
                .status(),
        );
        let address = format!("{}/32", self.address);
        drop(
            Command::new("ip")
                .args(["address", "delete", &address, "dev", "lo"])
                .status(),
        );
    }
}

#[track_caller]
fn run(command: &str) {
    let mut words = command.split(' ');
    let status = Command::new(words.next().unwrap())
        .args(words)
        .status()
        .unwrap();
    assert!(status.success(), "{command}");
}

#[test]
fn requests_are_spread_and_a_dead_interface_is_left_out_until_it_lives() {
    let ways = TwoWays::new(0);
    let server = ways.server();
    let mut child = ways.child(&server);
    for command in ["get", "head", "put"] {
        let used = ways.used_by(|| {
            for _ in 0..4 {
                child.check(command, "ok");
            }
        });
        assert_eq!(used, [true, true], "{command} uses both");
    }

    run(&format!("ip link set {} down", ways.outer(0)));
    for command in ["put", "head", "get", "put", "head", "get"] {
        child.check(command, "ok");
    }
    // Each request that met the dead interface was sent again elsewhere; now none meets it, which would take each
    // a second or more.
    let started = tokio::time::Instant::now();
    for _ in 0..20 {
        child.check("all", "ok");
    }
    assert!(
        started.elapsed() < Duration::from_secs(15),
        "{:?}",
        started.elapsed()
    );

    run(&format!("ip link set {} up", ways.outer(0)));
    let limit = tokio::time::Instant::now() + Duration::from_secs(40);
    while ways.used_by(|| (0..4).for_each(|_| child.check("get", "ok"))) != [true, true] {
        assert!(tokio::time::Instant::now() < limit, "it is not used again");
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
