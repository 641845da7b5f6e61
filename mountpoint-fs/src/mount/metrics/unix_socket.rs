//! Unix sockets that answer this process's user and root alone.

use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use crate::unix_connect::connect_at_once;

/// A socket that listens. Its name in the file system, if it has one, is removed on drop.
#[derive(Debug)]
pub(super) struct BoundSocket {
    listener: UnixListener,
    path: Option<PathBuf>,
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // It may be gone already.
            fs::remove_file(path).ok();
        }
    }
}

impl BoundSocket {
    /// A socket at `path` for this user alone. One that a killed process left there is replaced.
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        if is_dead(path) {
            fs::remove_file(path)?;
        }
        let bound = Self {
            listener: UnixListener::bind(path)?,
            path: Some(path.to_owned()),
        };
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        bound.listener.set_nonblocking(true)?;
        Ok(bound)
    }

    /// A socket without a file: `name` is of Linux's abstract namespace.
    pub(super) fn bind_abstract(name: &str) -> io::Result<Self> {
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            path: None,
        })
    }

    /// Its descriptor, for a runtime.
    pub(super) fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

/// Whether a socket has this name that nobody listens at.
pub(super) fn is_dead(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && connect_at_once(path).is_err_and(refused)
}

/// Whether the process at the other end is of this user, or of root. The mode of a socket counts
/// from a moment after its creation only.
pub(super) fn is_permitted(stream: &tokio::net::UnixStream) -> bool {
    let user = stream.peer_cred().map(|peer| peer.uid());
    user.is_ok_and(|user| user == 0 || user == nix::unistd::geteuid().as_raw())
}
