//! Ways to mount: by systems, packages, launchers and transports.

mod autofs;
mod csi_driver;
mod fstab;
mod package;
mod passed_device;
mod transport;
