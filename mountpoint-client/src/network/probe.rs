//! Whether the server can be reached over one interface: a TCP connection, made and closed.
//!
//! Harmless: nothing is sent. Runs on the client's tokio runtime.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};

/// What probes connect to: the server, or the proxy in front of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbeTarget {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl ProbeTarget {
    /// Whether one of the target's first addresses accepts a connection over the interface.
    pub(super) async fn is_reached_over(&self, interface: &str) -> bool {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let Ok(addresses) = found else {
            return false;
        };
        for address in addresses.take(ADDRESSES_MAX) {
            let connected = tokio::time::timeout(CONNECT_MAX, connect(address, interface)).await;
            if matches!(connected, Ok(Ok(_))) {
                return true;
            }
        }
        false
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
const CONNECT_MAX: Duration = Duration::from_secs(1);
