//! The handshake through the library.

use std::io;

use fuser::{InitFlags, KernelConfig};

use crate::fuse::init::{Negotiation, READAHEAD_MAX, SessionLimits, negotiate};
use crate::fuse::session_options::SessionError;
use crate::fuse::transport::handshake::log_agreed;
use crate::fuse::wire::{InitReply, InitRequest, init_flags};

/// Negotiates with the kernel, whose offer is in `config`.
///
/// The library speaks its own minor version, always asks for asynchronous reads and large writes,
/// and lets requests be as large as `max_write`.
pub(super) fn agree(config: &mut KernelConfig, limits: SessionLimits) -> io::Result<InitReply> {
    let version = config.kernel_abi();
    let offer = InitRequest {
        major: version.0,
        minor: version.1,
        readahead_max: READAHEAD_MAX,
        flags: config.capabilities().bits() | init_flags::INIT_EXT,
    };
    let agreed = match negotiate(&offer, limits) {
        Negotiation::Agreed(agreed) => InitReply {
            minor: MINOR,
            ..agreed
        },
        Negotiation::AskAgain | Negotiation::TooOld => {
            let (major, minor) = (version.0, version.1);
            return Err(io::Error::other(SessionError::TooOld { major, minor }));
        }
    };
    // The library adds this flag by itself.
    let flags = InitFlags::from_bits_retain(agreed.flags & !init_flags::INIT_EXT);
    let is_set = config.add_capabilities(flags).is_ok()
        && config.set_max_write(agreed.write_max).is_ok()
        && config
            .set_max_background(agreed.background_max.max(1))
            .is_ok()
        && config
            .set_congestion_threshold(agreed.congestion_threshold.max(1))
            .is_ok();
    // The kernel may offer less; only this call shows it.
    if let Err(offered) = config.set_max_readahead(agreed.readahead_max) {
        tracing::debug!(offered, "the kernel offers a smaller read-ahead");
    }
    if !is_set {
        return Err(io::Error::other("the library fuser refused a setting"));
    }
    log_agreed(&offer, &agreed);
    Ok(agreed)
}

/// The minor version that the library speaks to every kernel.
const MINOR: u32 = 40;
