//! A file that programs of all hosts write.

use std::sync::atomic::AtomicU32;

use super::*;

/// The name of the file.
pub(super) const NAME: &str = "shared";

/// The history of the file.
#[derive(Default)]
pub(super) struct SharedFile {
    now: AtomicU32,
    writes: Mutex<Vec<Write>>,
}

/// One write of the whole file.
struct Write {
    content: Content,
    /// When it began and ended.
    began: u32,
    ended: u32,
    is_promised: bool,
}

impl SharedFile {
    /// A time behind all that were told.
    pub(super) fn now(&self) -> u32 {
        self.now.fetch_add(1, Ordering::SeqCst)
    }

    /// Notes a write that `began` then and has ended now. What came of it is not known where the
    /// power has gone: its requests may be answered much later.
    pub(super) fn wrote(&self, content: Content, began: u32, is_promised: bool, is_off: bool) {
        let ended = if is_off { u32::MAX } else { self.now() };
        self.writes.lock().push(Write {
            content,
            began,
            ended,
            is_promised,
        });
    }

    /// Fails if the bucket has an older content than one that was promised.
    pub(super) fn check_bucket(&self, world: &World) {
        let writes = self.writes.lock();
        let object = world.bucket.object(NAME);
        let bytes = object.map(|it| it.content.to_vec());
        let found = |it: &&Write| {
            bytes
                .as_ref()
                .is_some_and(|bytes| it.content.begins_as(bytes))
        };
        let ended = match (writes.iter().find(found), &bytes) {
            (Some(last), _) => last.ended,
            (None, None) => 0,
            // That of a write which failed in its middle.
            (None, Some(bytes)) => {
                assert!(bytes.is_empty(), "the shared file has {bytes:?}");
                u32::MAX
            }
        };
        let lost = writes.iter().find(|it| it.is_promised && it.began > ended);
        let lost = lost.map(|it| &it.content);
        assert!(
            lost.is_none(),
            "{lost:?} was promised, the bucket has {bytes:?}"
        );
    }
}
