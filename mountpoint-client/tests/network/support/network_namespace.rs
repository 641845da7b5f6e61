//! A network namespace with several ways to a server outside of it. Needs root and iproute2.

use std::process::Command;

/// A namespace whose interfaces `way0`, `way1`, … lead to this one's `mptN-0`, `mptN-1`, ….
/// Ends with the test.
pub(crate) struct NetworkPaths {
    pub(crate) name: String,
    /// An address of the server that all ways lead to.
    pub(crate) address: String,
    count: u32,
}

impl NetworkPaths {
    pub(crate) fn new(number: u8, count: u32) -> Self {
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

    pub(crate) fn outer(&self, way: u32) -> String {
        format!("{}-{way}", self.name)
    }

    /// Bytes go from the server over each way no faster than this.
    pub(crate) fn shape(&self, mbit_per_second: u32) {
        for way in 0..self.count {
            let outer = self.outer(way);
            run(&format!(
                "tc qdisc add dev {outer} root tbf rate {mbit_per_second}mbit burst 32kb latency 1s"
            ));
        }
    }

    /// The counters of each way so far: packets or bytes, `rx` from the client or `tx` to it.
    fn counted(&self, counter: &str) -> Vec<u64> {
        let of_way = |way| {
            let path = format!("/sys/class/net/{}/statistics/{counter}", self.outer(way));
            let text = std::fs::read_to_string(path).unwrap();
            text.trim().parse().unwrap()
        };
        (0..self.count).map(of_way).collect()
    }

    /// How much each way has counted while `work` was done.
    pub(crate) fn counted_by(&self, counter: &str, work: impl FnOnce()) -> Vec<u64> {
        let before = self.counted(counter);
        work();
        let after = self.counted(counter);
        after.iter().zip(&before).map(|(a, b)| a - b).collect()
    }

    /// Whether the ways carried anything while `work` was done.
    pub(crate) fn used_by(&self, work: impl FnOnce()) -> Vec<bool> {
        let counted = self.counted_by("rx_packets", work);
        counted.into_iter().map(|packets| packets > 0).collect()
    }
}

impl Drop for NetworkPaths {
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
pub(crate) fn run(command: &str) {
    let mut words = command.split(' ');
    let status = Command::new(words.next().unwrap())
        .args(words)
        .status()
        .unwrap();
    assert!(status.success(), "{command}");
}
