//! Ways to mount: by systems, packages, launchers and transports.

mod autofs;
mod fstab;
mod package;
mod passed_device;
mod transport;
