//! Hosts that are reached without a proxy.
//!
//! Pure. The rules are those of curl and of the AWS tools, taken together: `*` for every host, a
//! domain for itself and what is below it (with or without a leading dot or `*.`), an address, a
//! network (`10.0.0.0/8`), each but the last with an optional port.

use std::net::IpAddr;

/// A list of hosts, as `NO_PROXY` writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoProxy(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    All,
    Domain { name: String, port: Option<u16> },
    Address { address: IpAddr, port: Option<u16> },
    Network { address: IpAddr, prefix_len: u8 },
}

impl NoProxy {
    /// Reads a list whose items are separated by commas or white space. What cannot be a host is
    /// skipped, as the other tools do: the variable belongs to all of them.
    #[must_use]
    pub fn parse(list: &str) -> Self {
        let items = list.split(|c: char| c == ',' || c.is_whitespace());
        Self(
            items
                .filter(|item| !item.is_empty())
                .filter_map(rule)
                .collect(),
        )
    }

    /// Takes the hosts of another list in.
    pub(super) fn add(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    /// Whether requests to `host` and `port` go around the proxy. An IPv6 address may be in
    /// brackets.
    #[must_use]
    pub fn covers(&self, host: &str, port: u16) -> bool {
        let host = bare(host).trim_end_matches('.').to_ascii_lowercase();
        let address = host.parse::<IpAddr>().ok();
        is_link_local(address) || self.0.iter().any(|rule| rule.covers(&host, address, port))
    }
}

impl Rule {
    fn covers(&self, host: &str, host_address: Option<IpAddr>, host_port: u16) -> bool {
        let fits = |port: &Option<u16>| port.is_none_or(|port| port == host_port);
        match self {
            Self::All => true,
            Self::Domain { name, port } => {
                let is_below = || {
                    host.strip_suffix(name.as_str())
                        .is_some_and(|rest| rest.ends_with('.'))
                };
                fits(port) && (host == name || is_below())
            }
            Self::Address { address, port } => fits(port) && host_address == Some(*address),
            Self::Network {
                address,
                prefix_len,
            } => host_address.is_some_and(|host| is_within(host, *address, *prefix_len)),
        }
    }
}

fn rule(item: &str) -> Option<Rule> {
    if item == "*" {
        return Some(Rule::All);
    }
    if let Some((address, prefix_len)) = item.split_once('/') {
        let (address, prefix_len) = (bare(address).parse().ok()?, prefix_len.parse().ok()?);
        let rule = Rule::Network {
            address,
            prefix_len,
        };
        return (prefix_len <= bits(address)).then_some(rule);
    }
    if let Ok(address) = bare(item).parse() {
        return Some(Rule::Address {
            address,
            port: None,
        });
    }
    let (host, port) = match item.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (item, None),
    };
    if let Ok(address) = bare(host).parse() {
        return Some(Rule::Address { address, port });
    }
    let name = host.trim_start_matches('*').trim_matches('.');
    let name = name.to_ascii_lowercase();
    (!name.is_empty()).then_some(Rule::Domain { name, port })
}

/// Without the brackets of an IPv6 address.
pub(super) fn bare(host: &str) -> &str {
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host)
}

/// Instance metadata and the credentials of containers: the machine itself, which no proxy can
/// speak for.
fn is_link_local(address: Option<IpAddr>) -> bool {
    match address {
        Some(IpAddr::V4(address)) => address.is_link_local(),
        Some(IpAddr::V6(address)) => {
            address.is_unicast_link_local() || address.segments()[..2] == [0xfd00, 0x0ec2]
        }
        None => false,
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn is_within(host: IpAddr, network: IpAddr, prefix_len: u8) -> bool {
    let (host, network, bits) = match (host, network) {
        (IpAddr::V4(host), IpAddr::V4(network)) => (
            u128::from(u32::from(host)),
            u128::from(u32::from(network)),
            32,
        ),
        (IpAddr::V6(host), IpAddr::V6(network)) => (u128::from(host), u128::from(network), 128),
        _ => return false,
    };
    let differs = host ^ network;
    differs
        .checked_shr(bits - u32::from(prefix_len))
        .unwrap_or(0)
        == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &str, host: &str, expected: bool) {
        assert_eq!(
            NoProxy::parse(list).covers(host, 443),
            expected,
            "{host} by {list:?}"
        );
    }

    #[test]
    fn names() {
        for list in [
            "example.com",
            ".example.com",
            "*.example.com",
            "EXAMPLE.com.",
        ] {
            check(list, "example.com", true);
            check(list, "b.s3.Example.COM", true);
            check(list, "b.example.com.", true);
            check(list, "notexample.com", false);
            check(list, "example.com.org", false);
        }
        check("a.org, b.org\tc.org,,", "c.org", true);
        check("*", "anything", true);
        check("", "anything", false);
        check("s3.*", "s3.x", false);
    }

    #[test]
    fn ports() {
        check("example.com:443", "b.example.com", true);
        check("example.com:80", "b.example.com", false);
        check("127.0.0.1:443", "127.0.0.1", true);
        check("127.0.0.1:80", "127.0.0.1", false);
        check("[::1]:443", "[::1]", true);
        check("[::1]:80", "::1", false);
        check("example.com:none", "example.com", false);
    }

    #[test]
    fn addresses() {
        check("127.0.0.1", "127.0.0.1", true);
        check("127.0.0.1", "127.0.0.2", false);
        check("::1", "[::1]", true);
        check("10.0.0.0/8", "10.200.3.4", true);
        check("10.0.0.0/8", "11.0.0.1", false);
        check("0.0.0.0/0", "8.8.8.8", true);
        check("10.1.2.3/32", "10.1.2.3", true);
        check("10.0.0.0/8", "10.example.com", false);
        check("10.0.0.0/33", "10.0.0.1", false);
        check("fd00::/8", "[fd12::1]", true);
        check("::/0", "2001:db8::1", true);
        check("fd00::/8", "10.0.0.1", false);
    }

    #[test]
    fn the_machine_itself_is_never_reached_through_a_proxy() {
        for host in ["169.254.169.254", "169.254.170.23", "[fd00:ec2::254]"] {
            check("", host, true);
        }
    }
}
