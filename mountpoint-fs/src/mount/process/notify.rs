//! Notices to systemd, as a unit with `Type=notify` expects them: sd_notify(3).

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The notification socket; none if the service manager passed none.
#[derive(Clone, Debug, Default)]
pub(in crate::mount) struct Notifier(Option<SocketAddr>);

impl Notifier {
    /// `socket` is the value of `NOTIFY_SOCKET`: a path, or `@` and an abstract name.
    ///
    /// # Errors
    /// If the value is neither.
    pub(in crate::mount) fn new(socket: Option<&str>) -> io::Result<Self> {
        let address = match socket {
            None => return Ok(Self(None)),
            Some(name) => match name.strip_prefix('@') {
                Some(name) => SocketAddr::from_abstract_name(name)?,
                None => SocketAddr::from_pathname(name)?,
            },
        };
        Ok(Self(Some(address)))
    }

    /// Reports that the mount serves. The status is one field even if the directory's name has a
    /// line break.
    pub(in crate::mount) fn ready(&self, status: &str) {
        let status = status.replace('\n', " ");
        self.tell(&format!("READY=1\nSTATUS={status}"));
    }

    /// Reports that the mount ends.
    pub(in crate::mount) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    fn tell(&self, message: &str) {
        let Some(address) = &self.0 else { return };
        // A listener that does not read must not delay the start or the end of a mount.
        let sent = UnixDatagram::unbound().and_then(|socket| {
            socket.set_nonblocking(true)?;
            socket.send_to_addr(message.as_bytes(), address)
        });
        if let Err(error) = sent {
            tracing::warn!("cannot tell the service manager (NOTIFY_SOCKET): {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(listener: &UnixDatagram, name: &str) {
        let notifier = Notifier::new(Some(name)).unwrap();
        notifier.ready("all is\nwell");
        notifier.stopping();
        for expected in ["READY=1\nSTATUS=all is well", "STOPPING=1"] {
            let mut buffer = [0; 100];
            let len = listener.recv(&mut buffer).unwrap();
            assert_eq!(std::str::from_utf8(&buffer[..len]), Ok(expected));
        }
    }

    #[test]
    fn paths_and_abstract_names() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        check(&UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap());
        let name = format!("mountpoint-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixDatagram::bind_addr(&address).unwrap();
        check(&listener, &format!("@{name}"));
    }

    #[test]
    fn nobody_listens() {
        Notifier::new(None).unwrap().ready("x");
        Notifier::new(Some("/no/such/socket")).unwrap().ready("x");
        assert!(Notifier::new(Some(&"x".repeat(200))).is_err());
    }
}
