//! Mounting without privileges: the set-uid helper `fusermount3` mounts, and passes the device over
//! a socket.

use std::ffi::OsStr;
use std::io::{self, IoSliceMut, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

use super::mount_error::MountError;
use super::mount_options::MountOptions;

/// A helper that unmounts at the end of this process.
#[derive(Debug)]
pub(in crate::fuse) struct AutoUnmount {
    /// The helper sees this end close.
    _socket: UnixStream,
    /// Keeps the pipe of its error messages open. The helper outlives this process.
    _helper: Child,
}

/// Mounts on `directory`.
pub(in crate::fuse) fn mount(
    directory: &Path,
    options: &MountOptions,
) -> Result<(OwnedFd, Option<AutoUnmount>), MountError> {
    let system = |error| MountError::System {
        directory: directory.to_owned(),
        error,
    };
    let (socket, theirs) = UnixStream::pair().map_err(system)?;
    socket
        .set_read_timeout(Some(HELPER_TIMEOUT))
        .map_err(system)?;
    // The helper's standard input is the socket, so that no other child of this process can inherit
    // it.
    let list = options.list().join(",");
    let args = [
        OsStr::new("-o"),
        OsStr::new(&list),
        OsStr::new("--"),
        directory.as_os_str(),
    ];
    let mut helper =
        spawn(&args, Stdio::from(OwnedFd::from(theirs))).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => MountError::NoFusermount,
            _ => system(error),
        })?;
    match receive_device(&socket) {
        Ok(Some(device)) if options.auto_unmount => Ok((
            device,
            Some(AutoUnmount {
                _socket: socket,
                _helper: helper,
            }),
        )),
        Ok(Some(device)) => {
            helper.wait().map_err(system)?;
            Ok((device, None))
        }
        Ok(None) => Err(refusal(directory, &output(&mut helper).map_err(system)?)),
        Err(error) => {
            // The helper may hang: its work is given up.
            helper.kill().and_then(|()| helper.wait()).map_err(system)?;
            Err(system(error))
        }
    }
}

/// Unmounts `directory`.
pub(in crate::fuse) fn unmount(directory: &Path, lazy: bool) -> io::Result<()> {
    let mut args = vec![OsStr::new("-u")];
    if lazy {
        args.push(OsStr::new("-z"));
    }
    args.extend([OsStr::new("--"), directory.as_os_str()]);
    let mut helper = spawn(&args, Stdio::null())?;
    let message = output(&mut helper)?;
    if helper.wait()?.success() {
        return Ok(());
    }
    let is_busy = message.contains("busy");
    let kind = if is_busy {
        io::ErrorKind::ResourceBusy
    } else {
        io::ErrorKind::Other
    };
    Err(io::Error::new(kind, message))
}

fn spawn(args: &[&OsStr], input: Stdio) -> io::Result<Child> {
    let mut command = Command::new(HELPER);
    command
        .args(args)
        .env(SOCKET_VARIABLE, "0")
        .env("LC_ALL", "C");
    command
        .stdin(input)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
}

/// The helper's messages, after its end.
fn output(helper: &mut Child) -> io::Result<String> {
    let mut message = String::new();
    if let Some(stderr) = helper.stderr.take() {
        stderr.take(MESSAGE_LEN_MAX).read_to_string(&mut message)?;
    }
    helper.wait()?;
    Ok(message.trim().to_owned())
}

fn refusal(directory: &Path, message: &str) -> MountError {
    if message.contains("user_allow_other") {
        return MountError::UserAllowOther;
    }
    let is_about_device = message.contains("open /dev/fuse");
    if is_about_device && message.contains("denied") {
        return MountError::DeviceOfRoot;
    }
    if is_about_device && message.contains("No such") || message.contains("modprobe") {
        return MountError::NoDevice;
    }
    let message = match message {
        "" => "fusermount3 did not say why".to_owned(),
        _ if message.contains("no write access") || message.contains("not owned") => {
            format!("{message}; an ordinary user needs a directory of their own")
        }
        _ => message.to_owned(),
    };
    MountError::Fusermount {
        directory: directory.to_owned(),
        message,
    }
}

/// The device, or `None` if the helper ended without sending one.
fn receive_device(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut buffers = [IoSliceMut::new(&mut byte)];
    let mut space = nix::cmsg_space!([RawFd; 1]);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let received = loop {
        match recvmsg::<()>(socket.as_raw_fd(), &mut buffers, Some(&mut space), flags) {
            Err(nix::errno::Errno::EINTR) => {}
            other => break other?,
        }
    };
    let device = received.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::ScmRights(descriptors) => descriptors.first().copied(),
        _ => None,
    });
    device
        .map(mountpoint_crt_sys::process::take_inherited_fd)
        .transpose()
}

/// The helper's program, from the package fuse3.
const HELPER: &str = "fusermount3";
/// The variable that names the descriptor over which the helper sends the device.
const SOCKET_VARIABLE: &str = "_FUSE_COMMFD";
/// The helper makes a few system calls; a helper that takes longer hangs.
const HELPER_TIMEOUT: Duration = Duration::from_secs(30);
/// One line is expected.
const MESSAGE_LEN_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn what_the_helper_says_is_sorted() {
        let refusal = |message| refusal(&PathBuf::from("/mnt/x"), message);
        let message = "fusermount3: option allow_other only allowed if 'user_allow_other' is set in /etc/fuse.conf";
        assert!(matches!(refusal(message), MountError::UserAllowOther));
        let message = "fusermount3: fuse device not found, try 'modprobe fuse' first";
        assert!(matches!(refusal(message), MountError::NoDevice));
        let message = "fusermount3: failed to open /dev/fuse: No such device";
        assert!(matches!(refusal(message), MountError::NoDevice));
        let message = "fusermount3: failed to open /dev/fuse: Permission denied";
        assert!(matches!(refusal(message), MountError::DeviceOfRoot));
        let message = "fusermount3: user has no write access to mountpoint /mnt/x";
        assert!(refusal(message).to_string().contains(message));
        assert!(refusal("").to_string().contains("did not say"));
    }

    #[test]
    fn a_helper_that_ends_without_a_device() {
        let (socket, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert!(receive_device(&socket).unwrap().is_none());
    }
}
