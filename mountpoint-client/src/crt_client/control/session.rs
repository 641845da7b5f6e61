//! Sessions of a directory bucket, opened before a request needs one.

use std::sync::Arc;

use crate::crt_client::core::{Call, Core, reading, refused, retry};
use crate::{ErrorKind, Pending};

/// `ObjectClient::create_session`: there is a session, or the reason why there is none.
pub(in crate::crt_client) fn create(core: &Arc<Core>) -> Pending<()> {
    let operation = core.on_bucket("CreateSession");
    if core.sessions.is_none() {
        let what = "only directory buckets have sessions";
        return refused(operation.error(ErrorKind::Unsupported, what));
    }
    let core_of_task = Arc::clone(core);
    reading(core, async move {
        let core = core_of_task;
        let attempt = || async {
            match &core.sessions {
                Some(sessions) => sessions.ensure(&operation).await,
                None => Ok(()),
            }
        };
        retry(&core, Call::quick(operation.clone()), attempt).await
    })
}
