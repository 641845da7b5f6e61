//! How fast the network interfaces of this machine are, as far as the kernel knows.
//!
//! Physical interfaces know their speed; virtual ones, EC2's among them, mostly do not.

use std::fs;
use std::path::Path;

/// Gbit/s of the interfaces `names` together, or of those with a default route if none is named.
///
/// `None` if the kernel knows the speed of none of them. An interface of unknown speed counts as
/// nothing.
pub(crate) fn interfaces_gbps(names: &[String]) -> Option<f64> {
    let routes = match names.is_empty() {
        true => fs::read_to_string("/proc/net/route").unwrap_or_default(),
        false => String::new(),
    };
    let names = match names.is_empty() {
        true => default_interfaces(&routes),
        false => names.iter().map(String::as_str).collect(),
    };
    let speeds = names.iter().filter_map(|name| {
        // A name with a path in it is no interface's.
        let folder = Path::new(name).file_name()?;
        let file = Path::new("/sys/class/net").join(folder).join("speed");
        gbps(&fs::read_to_string(file).ok()?)
    });
    speeds.reduce(|sum, speed| sum + speed)
}

/// Names of the interfaces with a default route in `routes`, the text of `/proc/net/route`, each
/// once.
fn default_interfaces(routes: &str) -> Vec<&str> {
    let mut names: Vec<&str> = routes
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let (name, destination) = (fields.next()?, fields.next()?);
            let mask = fields.nth(5)?;
            (destination == "00000000" && mask == "00000000").then_some(name)
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Gbit/s of `speed`, the text of `/sys/class/net/NAME/speed` in Mbit/s; `None` if it is unknown
/// (-1).
fn gbps(speed: &str) -> Option<f64> {
    let mbps: i32 = speed.trim().parse().ok()?;
    (mbps > 0).then(|| f64::from(mbps) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_that_the_kernel_tells() {
        for (text, expected) in [
            ("25000\n", Some(25.0)),
            ("100", Some(0.1)),
            ("-1\n", None),
            ("0", None),
            ("", None),
            ("fast", None),
            ("4294967295", None),
        ] {
            assert_eq!(gbps(text), expected, "{text:?}");
        }
    }

    #[test]
    fn interfaces_with_a_default_route() {
        let routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\n\
            bond0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\n\
            eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n\
            bond0\t00000000\t020200C0\t0003\t0\t0\t9\t00000000\t0\n\
            eth2\t00000000\n";
        assert_eq!(default_interfaces(routes), ["bond0"]);
        assert!(default_interfaces("").is_empty());
    }

    #[test]
    fn loopback_has_no_speed() {
        assert_eq!(interfaces_gbps(&["lo".to_owned()]), None);
        assert_eq!(
            interfaces_gbps(&["no-such0".to_owned(), "../lo".to_owned()]),
            None
        );
    }
}
