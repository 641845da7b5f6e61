//! Shaped network interfaces to a server in a network namespace: pairs of veth, each with a token
//! bucket at both ends.
//!
//! Needs root. Invariant: dropping a [`ShapedNetwork`] removes namespace and interfaces. The server
//! has one address, which each interface leads to by a route of its own, so that a client chooses
//! by interface alone.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workload::Link;

/// Where a server in the namespace listens. Part of a block that is for benchmarks (RFC 2544).
pub(crate) const SERVER_ADDRESS: &str = "198.18.255.1";

/// A namespace and the interfaces that lead to it.
#[derive(Debug)]
pub(crate) struct ShapedNetwork {
    namespace: String,
    interfaces: Vec<String>,
}

impl ShapedNetwork {
    pub(crate) fn new(link: Link) -> Result<Self> {
        let id = std::process::id() % 100_000;
        let namespace = format!("bench{id}");
        ip(&["netns", "add", &namespace])
            .context("a network namespace (needs root and iproute2)")?;
        let mut network = Self {
            namespace,
            interfaces: Vec::new(),
        };
        network.inside(&["link", "set", "lo", "up"])?;
        let address = format!("{SERVER_ADDRESS}/32");
        network.inside(&["addr", "add", &address, "dev", "lo"])?;
        for index in 0..link.interfaces {
            network.add(id, index, link.megabits_per_second)?;
        }
        Ok(network)
    }

    /// The interfaces on this side.
    pub(crate) fn interfaces(&self) -> &[String] {
        &self.interfaces
    }

    /// A command that runs `program` in the namespace.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.namespace])
            .arg(program);
        command
    }

    fn add(&mut self, id: u32, index: u64, megabits_per_second: u64) -> Result<()> {
        let (near, far) = (format!("mpb{id}n{index}"), format!("mpb{id}f{index}"));
        ip(&["link", "add", &near, "type", "veth", "peer", "name", &far])?;
        // Kept at once, although it goes with the namespace only when its other end is there.
        self.interfaces.push(near.clone());
        ip(&["link", "set", &far, "netns", &self.namespace])?;
        let (near_address, far_address) =
            (format!("198.18.{index}.1"), format!("198.18.{index}.2"));
        ip(&["addr", "add", &format!("{near_address}/24"), "dev", &near])?;
        ip(&["link", "set", &near, "up"])?;
        self.inside(&["addr", "add", &format!("{far_address}/24"), "dev", &far])?;
        self.inside(&["link", "set", &far, "up"])?;
        let metric = (100 + index).to_string();
        let route = [
            SERVER_ADDRESS,
            "via",
            &far_address,
            "dev",
            &near,
            "metric",
            &metric,
        ];
        ip(&[&["route", "add"], &route[..]].concat())?;
        // Answers come from an address that the first interface has the best route to.
        fs::write(format!("/proc/sys/net/ipv4/conf/{near}/rp_filter"), "2")
            .with_context(|| format!("rp_filter of {near}"))?;
        let shape = shape(megabits_per_second);
        let shape: Vec<_> = shape.iter().map(String::as_str).collect();
        run(
            "tc",
            &[&["qdisc", "add", "dev", &near], &shape[..]].concat(),
        )?;
        let exec = [
            "netns",
            "exec",
            &self.namespace,
            "tc",
            "qdisc",
            "add",
            "dev",
            &far,
        ];
        ip(&[&exec, &shape[..]].concat())
    }

    fn inside(&self, arguments: &[&str]) -> Result<()> {
        ip(&[&["-n", &self.namespace], arguments].concat())
    }
}

impl Drop for ShapedNetwork {
    fn drop(&mut self) {
        let _not_there = ip(&["netns", "del", &self.namespace]);
        for near in &self.interfaces {
            // The namespace's end is gone, or on its way; this end goes with it.
            let _gone = Command::new("ip").args(["link", "del", near]).output();
        }
    }
}

/// A token bucket: bursts of 10 ms, at least of a few packets; a queue of 200 ms, as routers have.
fn shape(megabits_per_second: u64) -> Vec<String> {
    let bytes_per_ms = megabits_per_second * 125;
    let burst = (10 * bytes_per_ms).max(BURST_MIN);
    let words = format!("root tbf rate {megabits_per_second}mbit burst {burst} latency 200ms");
    words.split(' ').map(str::to_owned).collect()
}

/// Two packets as veth hands them over: up to 64 KiB each.
const BURST_MIN: u64 = 2 * 65_536;

fn ip(arguments: &[&str]) -> Result<()> {
    run("ip", arguments)
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    let words = arguments.join(" ");
    ensure!(
        output.status.success(),
        "{program} {words}: {}",
        error.trim()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_follow_the_rate() {
        let burst = |rate| shape(rate)[5].parse::<u64>().unwrap();
        assert_eq!(burst(5), BURST_MIN);
        assert_eq!(burst(1000), 1_250_000);
        assert_eq!(shape(5)[3], "5mbit");
    }
}
