//! Whether the server can be reached over one interface: a TCP connection, made and closed.
//!
//! Harmless: nothing is sent. Runs on the client's tokio runtime.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};

/// The address that probes connect to: the server, or the proxy in front of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbeTarget {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl ProbeTarget {
    /// Whether one of the target's first addresses accepts a connection over the interface. `None`
    /// if its addresses are not known now, which says nothing of the interface: names are not
    /// resolved over it.
    pub(super) async fn is_reached_over(&self, interface: &str) -> Option<bool> {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port));
        let addresses = tokio::time::timeout(RESOLVE_MAX, found).await.ok()?.ok()?;
        for address in addresses.take(ADDRESSES_MAX) {
            let connected = tokio::time::timeout(CONNECT_MAX, connect(address, interface)).await;
            if matches!(connected, Ok(Ok(_))) {
                return Some(true);
            }
        }
        Some(false)
    }
}

async fn connect(address: SocketAddr, interface: &str) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.bind_device(Some(interface.as_bytes()))?;
    socket.connect(address).await
}

/// A server of many addresses is either reachable by the first few or not over this interface.
const ADDRESSES_MAX: usize = 3;
/// Time for the connections to all addresses together.
const RESOLVE_MAX: Duration = Duration::from_secs(3);
const CONNECT_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(host: &str, port: u16, interface: &str, expected: Option<bool>) {
        let target = ProbeTarget {
            host: host.to_owned(),
            port,
        };
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let found = runtime.block_on(target.is_reached_over(interface));
        assert_eq!(found, expected, "{target:?} over {interface}");
    }

    #[test]
    fn a_name_without_an_address_says_nothing_of_the_interface() {
        // Where no other test listens: what was given back here stays free.
        let listener = std::net::TcpListener::bind("127.0.0.9:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        check("127.0.0.9", port, "lo", Some(true));
        check("127.0.0.9", port, "none0", Some(false));
        drop(listener);
        check("127.0.0.9", port, "lo", Some(false));
        // Longer than a name may be: refused without asking anybody.
        check(&"x".repeat(300), port, "lo", None);
    }
}
