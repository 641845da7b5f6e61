//! Requests bound to network interfaces, in a network namespace with several ways to the server: all are used, throughput
//! grows with their number, one that dies is left out, and it is used again when it lives again.

use std::process::Command;
use std::time::Duration;

use mountpoint_client::ErrorKind;
use mountpoint_client::credentials::CredentialsMode;
use mountpoint_client::server::Server;

use crate::bucket::{BUCKET, check_error, connect, options, server, server_at};
use crate::child::{Child, Setting};

/// A namespace whose interfaces `way0`, `way1`, … lead to this one's `mptN-0`, `mptN-1`, …. Ends with the test.
struct Ways {
    name: String,
    /// An address of the server that all ways lead to.
    address: String,
    count: u32,
}

impl Ways {
    fn new(number: u8, count: u32) -> Self {
        // Names and addresses of this process only; the range is for use within a machine.
        let id = std::process::id();
        let (high, low) = (64 + (id >> 8) % 64, id % 256);
        let this = Self {
            name: format!("mpt{id}-{number}"),
            address: format!("100.{high}.{low}.{}", 250 + number),
            count,
        };
        let (name, address) = (&this.name, &this.address);
        run(&format!("ip netns add {name}"));
        run(&format!("ip -n {name} link set lo up"));
        run(&format!("ip address add {address}/32 dev lo"));
        for way in 0..count {
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

    /// Bytes go from the server over each way no faster than this.
    fn shape(&self, mbit_per_second: u32) {
        for way in 0..self.count {
            let outer = self.outer(way);
            run(&format!(
                "tc qdisc add dev {outer} root tbf rate {mbit_per_second}mbit burst 32kb latency 1s"
            ));
        }
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

    /// What each way has counted so far: packets or bytes, `rx` from the client or `tx` to it.
    fn counted(&self, counter: &str) -> Vec<u64> {
        let of_way = |way| {
            let path = format!("/sys/class/net/{}/statistics/{counter}", self.outer(way));
            let text = std::fs::read_to_string(path).unwrap();
            text.trim().parse().unwrap()
        };
        (0..self.count).map(of_way).collect()
    }

    /// How much each way has counted while `work` was done.
    fn counted_by(&self, counter: &str, work: impl FnOnce()) -> Vec<u64> {
        let before = self.counted(counter);
        work();
        let after = self.counted(counter);
        after.iter().zip(&before).map(|(a, b)| a - b).collect()
    }

    /// Whether the ways carried anything while `work` was done.
    fn used_by(&self, work: impl FnOnce()) -> Vec<bool> {
        let counted = self.counted_by("rx_packets", work);
        counted.into_iter().map(|packets| packets > 0).collect()
    }
}

impl Drop for Ways {
    fn drop(&mut self) {
        // The pairs end with the namespace.
        for way in 0..self.count {
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
    let ways = Ways::new(0, 2);
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
fn throughput_grows_with_the_number_of_interfaces() {
    let ways = Ways::new(1, 4);
    let server = ways.server();
    server.store().put_synthetic(BUCKET, "large", LARGE, 1);
    ways.shape(MBIT_PER_SECOND);
    let mut children = [1, 2, 4].map(|count| {
        let mut child = ways.child(&server, count);
        // The first makes the connections.
        child.check("large", "ok");
        (count, child, f64::MAX)
    });
    // A busy machine makes some of them wait, but not all.
    for _ in 0..ROUNDS_MAX {
        for (count, child, best) in &mut children {
            let start = tokio::time::Instant::now();
            let sent = ways.counted_by("tx_bytes", || child.check("large", "ok"));
            *best = best.min(start.elapsed().as_secs_f64());
            for (way, sent) in (0_u32..).zip(&sent) {
                let is_used = way < *count;
                let share = if is_used {
                    LARGE / u64::from(*count)
                } else {
                    0
                };
                let most = share * 3 / 2 + (64 << 10);
                let is_even = (share * 2 / 3..most).contains(sent);
                assert!(
                    is_even,
                    "{count} interfaces: way {way} carried {sent}, not {share}"
                );
            }
        }
        let [one, two, four] = [0, 1, 2].map(|index| children[index].2);
        println!("one {one:.3} s, two {two:.3} s, four {four:.3} s");
        if one / two >= 1.9 && one / four >= 3.6 {
            return;
        }
    }
    panic!("throughput does not grow with the number of interfaces");
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

/// What is read over shaped interfaces: at [`MBIT_PER_SECOND`] over one of them about a second.
const LARGE: u64 = 4 << 20;
/// Tries to find a moment in which the machine does not hold up what it measures.
const ROUNDS_MAX: u32 = 10;
/// So slow that the processor is never the limit.
const MBIT_PER_SECOND: u32 = 32;
