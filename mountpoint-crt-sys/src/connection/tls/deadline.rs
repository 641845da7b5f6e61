//! The time that a handshake may take.

use std::time::Duration;

use mountpoint_s3_crt_sys as sys;

use crate::ffi::guard;

/// A task of the channel, which runs once: late, or earlier when the channel ends.
struct Deadline {
    task: sys::aws_channel_task,
    channel: *mut sys::aws_channel,
    check: Box<dyn FnOnce() -> Option<i32>>,
}

/// Calls `check` after this time, and ends the channel with the error that it returns.
///
/// Called on the channel's event loop; dropped uncalled if the channel ends before.
///
/// # Safety
///
/// `channel` is alive, and this is its event loop.
pub(super) unsafe fn begin(
    channel: *mut sys::aws_channel,
    limit: Duration,
    check: Box<dyn FnOnce() -> Option<i32>>,
) {
    let deadline = Box::into_raw(Box::new(Deadline {
        task: sys::aws_channel_task::default(),
        channel,
        check,
    }));
    // SAFETY: just leaked, and not yet C's.
    let task = unsafe { &raw mut (*deadline).task };
    let name = c"mountpoint_tls_deadline".as_ptr();
    // SAFETY: a task that nobody else uses yet; its argument is the box that it lies in.
    unsafe { sys::aws_channel_task_init(task, Some(run), deadline.cast(), name) };
    let mut now = 0;
    // SAFETY: the caller's contract; a clock that cannot be read leaves 0, and the task runs soon.
    unsafe { sys::aws_channel_current_clock_time(channel, &raw mut now) };
    let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: the task stays where it is until it runs.
    unsafe { sys::aws_channel_schedule_task_future(channel, task, now.saturating_add(limit)) };
}

unsafe extern "C" fn run(
    _: *mut sys::aws_channel_task,
    deadline: *mut libc::c_void,
    status: sys::aws_task_status,
) {
    // SAFETY: leaked by `begin`; a channel runs each task once, at its end too.
    let deadline = unsafe { Box::from_raw(deadline.cast::<Deadline>()) };
    let Deadline { channel, check, .. } = *deadline;
    if status != sys::aws_task_status::AWS_TASK_STATUS_RUN_READY {
        guard(|| drop(check));
        return;
    }
    if let Some(code) = guard(check).flatten() {
        // SAFETY: the channel lives while it runs its tasks.
        unsafe { sys::aws_channel_shutdown(channel, code) };
    }
}
