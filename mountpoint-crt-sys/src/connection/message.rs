//! Messages of the C library, in which it moves bytes: their memory lent, and never cleared.

use std::mem::offset_of;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use mountpoint_s3_crt_sys as sys;
use parking_lot::Mutex;

/// The own buffer of the message that has another's memory, if there is one.
#[derive(Default)]
pub(super) struct Loan(Mutex<Option<NonNull<u8>>>);

// SAFETY: a pointer that is given back to its message only, by the thread that releases that.
unsafe impl Send for Loan {}
// SAFETY: as above.
unsafe impl Sync for Loan {}

impl Loan {
    pub(super) fn is_open(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Puts what `bytes` has into a message, until that is released.
    ///
    /// # Safety
    ///
    /// The message was adopted, it is the caller's, and no loan is open.
    pub(super) unsafe fn open(
        self: &Arc<Self>,
        message: *mut sys::aws_io_message,
        bytes: &sys::aws_byte_buf,
    ) {
        // SAFETY: the caller's contract.
        let message = unsafe { &mut *message };
        *self.0.lock() = NonNull::new(message.message_data.buffer);
        message.message_data.buffer = bytes.buffer;
        message.message_data.len = bytes.len;
        // C uses the user data of no message that it reads.
        message.user_data = Arc::into_raw(Arc::clone(self)).cast_mut().cast();
    }
}

/// The message that `buffer` is the data of, with its end in our hands: it is cleared no more.
///
/// # Safety
///
/// `buffer` is the data of a message.
pub(super) unsafe fn adopt(
    channel: *const sys::aws_channel,
    buffer: *mut sys::aws_byte_buf,
) -> Option<*mut sys::aws_io_message> {
    let offset = offset_of!(sys::aws_io_message, message_data);
    // SAFETY: the caller's contract.
    let message = unsafe { buffer.byte_sub(offset) }.cast::<sys::aws_io_message>();
    // SAFETY: as above.
    let owner = unsafe { (*message).owning_channel };
    // SAFETY: as above.
    let allocator = unsafe { (*message).allocator };
    if !ptr::eq(owner, channel) || allocator.is_null() {
        return None;
    }
    // SAFETY: the message's own record of its pool; C writes it anew for each message.
    let release = unsafe { &mut (*allocator).mem_release };
    let current = (*release)?;
    let known = *RELEASE_OF_C.get_or_init(|| current);
    if !ptr::fn_addr_eq(known, current) {
        return None;
    }
    *release = Some(release_message);
    Some(message)
}

/// Leaves C nothing to clear in a message that is written.
///
/// # Safety
///
/// `message` is null, or a message whose bytes have no reader left.
pub(super) unsafe fn clear_nothing(message: *mut libc::c_void) {
    // SAFETY: the caller's contract.
    if let Some(message) = unsafe { message.cast::<sys::aws_io_message>().as_mut() } {
        message.message_data.len = 0;
    }
}

/// How messages go back to C's pool.
type Release = unsafe extern "C" fn(*mut sys::aws_allocator, *mut libc::c_void);

static RELEASE_OF_C: OnceLock<Release> = OnceLock::new();

unsafe extern "C" fn release_message(
    allocator: *mut sys::aws_allocator,
    message: *mut libc::c_void,
) {
    // SAFETY: C releases a message with its own record of its pool.
    let this = unsafe { &mut *message.cast::<sys::aws_io_message>() };
    let loan = std::mem::replace(&mut this.user_data, ptr::null_mut());
    if !loan.is_null() {
        // SAFETY: the reference that `Loan::open` has put there.
        let loan = unsafe { Arc::from_raw(loan.cast_const().cast::<Loan>()) };
        if let Some(own) = loan.0.lock().take() {
            this.message_data.buffer = own.as_ptr();
        }
    }
    // So C has nothing to clear.
    this.message_data.len = 0;
    if let Some(release) = RELEASE_OF_C.get() {
        // SAFETY: C's call.
        unsafe { release(allocator, message) };
    }
}
