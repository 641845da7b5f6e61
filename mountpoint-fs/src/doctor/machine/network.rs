//! The machine's network interfaces and their speed, against the mount's planned throughput.
//!
//! Pure: texts of `/sys/class/net` and `/proc/net` in, findings out.

use crate::doctor::finding::{Area, Check, Finding};

/// An interface; each text is a file of `/sys/class/net/NAME`.
///
/// `None` where a file cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::doctor) struct Interface {
    pub(in crate::doctor) name: String,
    pub(in crate::doctor) operstate: Option<String>,
    /// In Mbit/s; -1 where the driver does not know.
    pub(in crate::doctor) speed: Option<String>,
    /// The hardware type of `if_arp.h`; 772 is loopback.
    pub(in crate::doctor) kind: Option<String>,
    pub(in crate::doctor) mtu: Option<String>,
}

#[derive(Clone, Debug)]
pub(in crate::doctor) struct NetworkFacts {
    pub(in crate::doctor) interfaces: Vec<Interface>,
    /// `/proc/net/route`.
    pub(in crate::doctor) routes: String,
    /// `/proc/net/ipv6_route`.
    pub(in crate::doctor) routes_v6: String,
    /// Interfaces of `--bind`.
    pub(in crate::doctor) bound: Vec<String>,
    /// Throughput that connections are planned for.
    pub(in crate::doctor) target_gbps: f64,
}

/// Findings on the network.
#[derive(Clone, Debug)]
pub(in crate::doctor) struct NetworkVerdict {
    pub(in crate::doctor) findings: Vec<Finding>,
    /// A value for `--maximum-throughput-gbps`, where the interfaces are faster than planned.
    pub(in crate::doctor) throughput_gbps: Option<u64>,
}

pub(in crate::doctor) fn judge(facts: &NetworkFacts) -> NetworkVerdict {
    let mut findings = vec![interfaces(facts)];
    findings.extend(
        facts
            .bound
            .iter()
            .filter_map(|name| bound(name, &facts.interfaces)),
    );
    findings.push(default_route(facts));
    let carried = carried_gbps(facts);
    findings.push(throughput(facts.target_gbps, carried));
    NetworkVerdict {
        findings,
        throughput_gbps: carried.filter(|carried| exceeds(*carried, facts.target_gbps)),
    }
}

fn interfaces(facts: &NetworkFacts) -> Finding {
    const CHECK: &str = "interfaces";
    let mut shown: Vec<String> = facts
        .interfaces
        .iter()
        .filter(|interface| !interface.is_loopback() && interface.is_up())
        .map(Interface::shown)
        .collect();
    if shown.is_empty() {
        return Check(Area::Network, CHECK).warning(
            "none is up but loopback",
            "bring the network up (`ip link`), unless the server is on this machine",
        );
    }
    if shown.len() > INTERFACES_SHOWN_MAX {
        let more = shown.len() - INTERFACES_SHOWN_MAX;
        shown.truncate(INTERFACES_SHOWN_MAX);
        shown.push(format!("and {more} more"));
    }
    Check(Area::Network, CHECK).ok(shown.join("; "))
}

/// The finding on a bound interface; `None` if the interface can be used.
fn bound(name: &str, interfaces: &[Interface]) -> Option<Finding> {
    const CHECK: &str = "--bind";
    let error = |found: String| {
        Check(Area::Network, CHECK).error(found, "`ip link` lists the interfaces and their state")
    };
    match interfaces.iter().find(|interface| interface.name == name) {
        None => Some(error(format!("there is no interface {name}"))),
        Some(interface) if !interface.is_up() => Some(error(format!("{name} is down"))),
        Some(_) => None,
    }
}

fn default_route(facts: &NetworkFacts) -> Finding {
    const CHECK: &str = "default route";
    match &*default_interfaces(facts) {
        [] => Check(Area::Network, CHECK).warning(
            "none: only servers on this machine's own networks can be reached",
            "add one (`ip route`), unless the server or its proxy is on such a network",
        ),
        [name] => Check(Area::Network, CHECK).ok(format!("through {name}")),
        names => Check(Area::Network, CHECK).ok(format!(
            "through {}; --bind NAME for each spreads reads over them",
            names.join(", ")
        )),
    }
}

fn throughput(target_gbps: f64, carried: Option<u64>) -> Finding {
    const CHECK: &str = "throughput";
    match carried {
        Some(carried) if exceeds(carried, target_gbps) => Check(Area::Network, CHECK).warning(format!("{carried} Gbit/s, and connections are planned for {target_gbps}"),
            format!("mount with --maximum-throughput-gbps {carried}"),
        ),
        Some(carried) => Check(Area::Network, CHECK).ok(format!("{carried} Gbit/s; connections are planned for {target_gbps}"),
        ),
        None => Check(Area::Network, CHECK).ok(format!(
                "the interface does not tell its speed; connections are planned for {target_gbps} Gbit/s"
            ),
        ),
    }
}

impl Interface {
    fn is_loopback(&self) -> bool {
        self.kind.as_deref().map(str::trim) == Some(LOOPBACK)
    }

    /// Whether the interface is up. Tunnels and bridges have no such state and report "unknown".
    fn is_up(&self) -> bool {
        matches!(
            self.operstate.as_deref().map(str::trim),
            Some("up" | "unknown")
        )
    }

    fn speed_mbps(&self) -> Option<u64> {
        let speed: i64 = self.speed.as_deref()?.trim().parse().ok()?;
        u64::try_from(speed).ok().filter(|speed| *speed > 0)
    }

    fn shown(&self) -> String {
        let speed = match self.speed_mbps() {
            Some(speed) if speed >= 1000 && speed % 1000 == 0 => {
                format!("{} Gbit/s", speed / 1000)
            }
            Some(speed) => format!("{speed} Mbit/s"),
            None => "speed unknown".to_owned(),
        };
        match self.mtu.as_deref().map(str::trim) {
            Some(mtu) => format!("{}: {speed}, MTU {mtu}", self.name),
            None => format!("{}: {speed}", self.name),
        }
    }
}

/// The total speed of the interfaces in use, in whole Gbit/s. `None` if one does not report it.
fn carried_gbps(facts: &NetworkFacts) -> Option<u64> {
    let used = if facts.bound.is_empty() {
        // The kernel takes one route.
        default_interfaces(facts).into_iter().take(1).collect()
    } else {
        facts.bound.clone()
    };
    let mut sum = None;
    for name in used {
        let interface = facts
            .interfaces
            .iter()
            .find(|interface| interface.name == name)?;
        sum = Some(sum.unwrap_or(0) + interface.speed_mbps()?);
    }
    Some(sum? / 1000).filter(|gbps| *gbps > 0)
}

/// Interfaces with a default route, each once.
fn default_interfaces(facts: &NetworkFacts) -> Vec<String> {
    let v4 = facts.routes.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (name, destination) = (fields.next()?, fields.next()?);
        let mask = fields.nth(5)?;
        (destination == "00000000" && mask == "00000000").then(|| name.to_owned())
    });
    let v6 = facts.routes_v6.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (destination, bits) = (fields.next()?, fields.next()?);
        let name = fields.next_back()?;
        let is_default = destination.bytes().all(|byte| byte == b'0') && bits == "00";
        // The kernel keeps a reject route for every address on loopback.
        (is_default && name != "lo").then(|| name.to_owned())
    });
    let mut names = Vec::new();
    for name in v4.chain(v6) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn exceeds(carried: u64, target_gbps: f64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "no network carries 2^53 Gbit/s")]
    let carried = carried as f64;
    carried > target_gbps
}

/// `ARPHRD_LOOPBACK`.
const LOOPBACK: &str = "772";
/// Bound of interfaces in a row; container hosts have hundreds.
const INTERFACES_SHOWN_MAX: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;
    use crate::doctor::finding::tests::expect;

    fn interface(name: &str, operstate: &str, speed: &str, kind: &str) -> Interface {
        let some = |text: &str| (!text.is_empty()).then(|| format!("{text}\n"));
        Interface {
            name: name.to_owned(),
            operstate: some(operstate),
            speed: some(speed),
            kind: some(kind),
            mtu: some("9001"),
        }
    }

    fn routes(names: &[&str]) -> String {
        let mut table =
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
                .to_owned();
        for name in names {
            table.push_str(&format!(
                "{name}\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
            ));
        }
        table.push_str("eth9\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n");
        table
    }

    fn facts(interfaces: Vec<Interface>, defaults: &[&str], bound: &[&str]) -> NetworkFacts {
        NetworkFacts {
            interfaces,
            routes: routes(defaults),
            routes_v6: String::new(),
            bound: bound.iter().map(|name| (*name).to_owned()).collect(),
            target_gbps: 10.0,
        }
    }

    fn machine() -> Vec<Interface> {
        vec![
            interface("lo", "unknown", "", "772"),
            interface("eth0", "up", "25000", "1"),
            interface("eth1", "up", "25000", "1"),
            interface("slow", "up", "100", "1"),
            interface("cloud", "up", "-1", "1"),
            interface("off", "down", "1000", "1"),
        ]
    }

    #[test]
    fn interfaces_that_are_up() {
        let rows = |interfaces| judge(&facts(interfaces, &["eth0"], &[])).findings;
        let name = "interfaces";
        expect(
            &rows(machine()),
            name,
            Level::Ok,
            "eth0: 25 Gbit/s, MTU 9001",
        );
        expect(&rows(machine()), name, Level::Ok, "slow: 100 Mbit/s");
        expect(&rows(machine()), name, Level::Ok, "cloud: speed unknown");
        let lonely = vec![interface("lo", "unknown", "", "772")];
        expect(&rows(lonely), name, Level::Warning, "none is up");
        expect(&rows(Vec::new()), name, Level::Warning, "ip link");
        let many: Vec<_> = (0..9)
            .map(|i| interface(&format!("veth{i}"), "up", "1", "1"))
            .collect();
        expect(&rows(many), name, Level::Ok, "and 3 more");
    }

    #[test]
    fn routes_and_bound_interfaces() {
        for (defaults, bound, check, level, text) in [
            (
                &["eth0"][..],
                &[][..],
                "default route",
                Level::Ok,
                "through eth0",
            ),
            (
                &["eth0", "eth1"],
                &[],
                "default route",
                Level::Ok,
                "eth0, eth1; --bind",
            ),
            (&[], &[], "default route", Level::Warning, "none"),
            (
                &["eth0"],
                &["eth7"],
                "--bind",
                Level::Error,
                "no interface eth7",
            ),
            (
                &["eth0"],
                &["eth0", "off"],
                "--bind",
                Level::Error,
                "off is down",
            ),
        ] {
            let verdict = judge(&facts(machine(), defaults, bound));
            expect(&verdict.findings, check, level, text);
        }
        let good = judge(&facts(machine(), &["eth0"], &["eth0", "eth1"]));
        assert!(
            good.findings
                .iter()
                .all(|finding| finding.check != "--bind")
        );
        let mut only_v6 = facts(machine(), &[], &[]);
        let zero = "0".repeat(32);
        only_v6.routes_v6 = format!(
            "{zero} 00 {zero} 00 fd000000000000000000000000000001 00000400 1 0 00000003 eth1\n\
             {zero} 00 {zero} 00 {zero} ffffffff 1 0 00200200 lo\n"
        );
        expect(
            &judge(&only_v6).findings,
            "default route",
            Level::Ok,
            "through eth1",
        );
    }

    #[test]
    fn throughputs() {
        for (defaults, bound, target_gbps, level, text, value) in [
            (
                &["eth0"][..],
                &[][..],
                10.0,
                Level::Warning,
                "gbps 25",
                Some(25),
            ),
            (&["eth0"], &[], 25.0, Level::Ok, "25 Gbit/s", None),
            (
                &["eth0"],
                &["eth0", "eth1"],
                10.0,
                Level::Warning,
                "gbps 50",
                Some(50),
            ),
            (
                &["eth0"],
                &["eth0", "cloud"],
                10.0,
                Level::Ok,
                "does not tell",
                None,
            ),
            (&["slow"], &[], 10.0, Level::Ok, "does not tell", None),
            (&["cloud"], &[], 10.0, Level::Ok, "planned for 10", None),
            (&[], &[], 10.0, Level::Ok, "does not tell", None),
            (&["gone"], &[], 10.0, Level::Ok, "does not tell", None),
        ] {
            let mut facts = facts(machine(), defaults, bound);
            facts.target_gbps = target_gbps;
            let verdict = judge(&facts);
            expect(&verdict.findings, "throughput", level, text);
            assert_eq!(verdict.throughput_gbps, value, "{defaults:?} {bound:?}");
        }
    }
}
