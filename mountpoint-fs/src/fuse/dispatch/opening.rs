//! The reply to OPEN, and the files that Linux reads by itself from then on.

use std::sync::Arc;

use super::dispatcher::{Dispatcher, is_change};
use super::open_flags::{open_options, write_options};
use crate::fuse::errno::FuseOperation;
use crate::fuse::parked::PendingReply;
use crate::fuse::proc::{LookingThread, opener};
use crate::fuse::reply::Reply;
use crate::fuse::wire::{Header, Operation};
use crate::operation::{FsError, InodeNo, OpenOptions, Opened, Stop, WriteOptions};

impl Dispatcher {
    /// The reply to an OPEN.
    pub(super) fn open(self: Arc<Self>, header: &Header, flags: u32) -> PendingReply {
        let (ino, pid, keeps_set_id) = (InodeNo(header.node), header.pid, header.uid == 0);
        // At once: a call that is interrupted and repeated must not rely on its first lookup.
        let is_vouched = self.fs.vouches(ino, &LookingThread(pid));
        let options = OpenOptions {
            is_vouched,
            ..open_options(flags, pid)
        };
        let how = WriteOptions {
            is_vouched,
            ..write_options(flags)
        };
        Box::pin(async move {
            let fs = &self.fs;
            let changes = is_change(&Operation::Open { flags });
            let result = if changes && self.is_in_the_way(ino, how) {
                Err(fs.open_afresh(ino))
            } else if options.write {
                let opener = opener(pid);
                let open = || fs.open_for_writing(ino, how, opener);
                fs.when_at_rest(&Stop::never(), open).await
            } else if flags.cast_signed() & libc::O_ACCMODE == libc::O_RDWR {
                let opener = opener(pid);
                let open = || fs.open_for_both(ino, options, how, opener);
                fs.when_at_rest(&Stop::never(), open).await
            } else {
                fs.open(ino, options).await
            };
            if result.is_ok()
                && fs.was_found_again(ino)
                && let Some(notices) = &self.inode_notices
            {
                notices.forget_attributes(ino).await;
            }
            if result.is_ok() && how.truncate {
                // The first write tries again, and has the error.
                self.drop_set_id(ino, keeps_set_id).await.ok();
            }
            // `touch` opens so before it sets the times. If the times are refused, the log says so.
            let is_try = flags & libc::O_NONBLOCK.cast_unsigned() != 0;
            let operation = if is_try {
                FuseOperation::TryOpen
            } else {
                FuseOperation::Open
            };
            self.opened(operation, ino, options, result)
        })
    }

    fn opened(
        &self,
        operation: FuseOperation,
        ino: InodeNo,
        options: OpenOptions,
        result: Result<Opened, FsError>,
    ) -> Reply {
        let admitted = result.and_then(|opened| Ok((self.admit(ino, &opened)?, opened)));
        self.reply(operation, ino, admitted, |(backing, mut opened)| {
            if let Some(number) = backing {
                return Reply::PassedThrough(opened.handle, number);
            }
            let must_bypass = options.write || options.direct;
            opened.direct_io &= must_bypass || self.rules.can_map_direct;
            Reply::Opened(opened)
        })
    }

    /// Counts an open; the number of the file that the kernel reads for it, if it does.
    pub(super) fn admit(&self, ino: InodeNo, opened: &Opened) -> Result<Option<i32>, FsError> {
        let passthrough = self.passthrough.as_ref();
        passthrough.map_or(Ok(None), |passthrough| passthrough.open(ino, opened))
    }

    /// Whether the kernel reads the file `ino` by itself while it is to be changed with `options`.
    pub(super) fn is_in_the_way(&self, ino: InodeNo, options: WriteOptions) -> bool {
        let passthrough = self.passthrough.as_ref();
        passthrough.is_some_and(|passthrough| passthrough.is_reading(ino))
            && self.fs.permits_writing(options)
    }
}

#[cfg(test)]
mod tests {
    use mountpoint_client::SimClient;
    use mountpoint_client::testing::sim::SimOptions;

    use super::*;
    use crate::clock::Clock;
    use crate::config::FsConfig;
    use crate::fs::FileSystem;
    use crate::fuse::allowed_users::AllowedUsers;
    use crate::fuse::dispatch::dispatcher::Rules;
    use crate::fuse::errno::Access;
    use crate::operation::HandleNo;

    #[test]
    fn files_that_could_not_be_mapped_are_not_opened_past_the_page_cache() {
        let check = |can_map_direct, direct, expected| {
            let client = Arc::new(SimClient::new(SimOptions::default()));
            let config = FsConfig::default();
            let fs = Arc::new(FileSystem::new(client, config, Clock::manual()));
            let rules = Rules {
                access: Access::ReadWrite,
                allowed_users: AllowedUsers::All,
                device: None,
                can_map_direct,
            };
            let dispatcher = Dispatcher::new(fs, rules, None, None, &Clock::manual());
            let opened = Opened {
                handle: HandleNo(1),
                direct_io: true,
                keep_cache: false,
                flush: false,
                local: None,
            };
            let options = OpenOptions {
                direct,
                ..OpenOptions::default()
            };
            let reply = dispatcher.opened(FuseOperation::Open, InodeNo(2), options, Ok(opened));
            let Reply::Opened(found) = reply else {
                panic!("{reply:?}")
            };
            assert_eq!(found.direct_io, expected);
        };
        check(true, false, true);
        check(true, true, true);
        check(false, false, false);
        check(false, true, true);
    }
}
