//! The CRT's buffer pool, which owns no buffers: each GET brings its own block.
//!
//! `reserve` finds the request behind the meta request and answers at once with a ticket for the
//! unfilled rest of its block. A ticket keeps the block's memory alive as long as C may touch it.

use std::ptr;

use mountpoint_s3_crt_sys as sys;

use super::exchange::{Running, running};
use crate::allocator::Allocator;
use crate::block::Unfilled;
use crate::ffi::guard;

static POOL: sys::aws_s3_buffer_pool_vtable = sys::aws_s3_buffer_pool_vtable {
    reserve: Some(reserve),
    trim: Some(trim),
    add_special_size: None,
    release_special_size: None,
    derive_aligned_buffer_size: None,
    acquire: None,
    release: None,
};

static TICKET: sys::aws_s3_buffer_ticket_vtable = sys::aws_s3_buffer_ticket_vtable {
    claim: Some(claim),
    acquire: None,
    release: None,
};

/// A ticket; C sees the first field.
#[repr(C)]
struct Ticket {
    base: sys::aws_s3_buffer_ticket,
    unfilled: Unfilled,
}

/// Makes a client's pool.
pub(crate) unsafe extern "C" fn new_pool(
    _: *mut sys::aws_allocator,
    _: sys::aws_s3_buffer_pool_config,
    _: *mut libc::c_void,
) -> *mut sys::aws_s3_buffer_pool {
    let pool = Box::into_raw(Box::new(sys::aws_s3_buffer_pool {
        vtable: (&raw const POOL).cast_mut(),
        ref_count: sys::aws_ref_count::default(),
        impl_: ptr::null_mut(),
    }));
    // SAFETY: just leaked, and not yet C's.
    let count = unsafe { &raw mut (*pool).ref_count };
    // SAFETY: the count lies in the pool, which lives until the count is zero.
    unsafe { sys::aws_ref_count_init(count, pool.cast(), Some(drop_pool)) };
    pool
}

unsafe extern "C" fn drop_pool(pool: *mut libc::c_void) {
    // SAFETY: leaked by `new_pool`; called once, when nobody has a reference.
    drop(unsafe { Box::from_raw(pool.cast::<sys::aws_s3_buffer_pool>()) });
}

unsafe extern "C" fn trim(_: *mut sys::aws_s3_buffer_pool) {}

unsafe extern "C" fn reserve(
    _: *mut sys::aws_s3_buffer_pool,
    wanted: sys::aws_s3_buffer_pool_reserve_meta,
) -> *mut sys::aws_future_s3_buffer_ticket {
    // SAFETY: makes a new future with one reference, which the caller gets.
    let future = unsafe { sys::aws_future_s3_buffer_ticket_new(Allocator::plain().as_ptr()) };
    // SAFETY: alive while it reserves.
    let unfilled = unsafe { running(wanted.meta_request) }.and_then(Running::reserve);
    match unfilled {
        Some(unfilled) if unfilled.len == wanted.size => {
            let mut ticket = new_ticket(unfilled);
            // SAFETY: moves the ticket's one reference into the future.
            unsafe { sys::aws_future_s3_buffer_ticket_set_result_by_move(future, &raw mut ticket) };
        }
        _ => {
            let code = sys::aws_s3_errors::AWS_ERROR_S3_BUFFER_ALLOCATION_FAILED as i32;
            // SAFETY: the future is new.
            unsafe { sys::aws_future_s3_buffer_ticket_set_error(future, code) };
        }
    }
    future
}

fn new_ticket(unfilled: Unfilled) -> *mut sys::aws_s3_buffer_ticket {
    let ticket = Box::into_raw(Box::new(Ticket {
        base: sys::aws_s3_buffer_ticket {
            vtable: (&raw const TICKET).cast_mut(),
            ref_count: sys::aws_ref_count::default(),
            impl_: ptr::null_mut(),
        },
        unfilled,
    }));
    // SAFETY: just leaked, and not yet C's.
    let count = unsafe { &raw mut (*ticket).base.ref_count };
    // SAFETY: the count lies in the ticket, which lives until the count is zero.
    unsafe { sys::aws_ref_count_init(count, ticket.cast(), Some(drop_ticket)) };
    ticket.cast()
}

unsafe extern "C" fn drop_ticket(ticket: *mut libc::c_void) {
    // SAFETY: leaked by `new_ticket`; called once, when nobody has a reference.
    let ticket = unsafe { Box::from_raw(ticket.cast::<Ticket>()) };
    guard(|| drop(ticket));
}

/// An empty buffer over the unfilled rest. It has no allocator, so C neither grows nor frees it.
unsafe extern "C" fn claim(ticket: *mut sys::aws_s3_buffer_ticket) -> sys::aws_byte_buf {
    // SAFETY: the caller has a reference, and every ticket of this pool is one of ours.
    let unfilled = unsafe { &(*ticket.cast::<Ticket>()).unfilled };
    sys::aws_byte_buf {
        len: 0,
        buffer: unfilled.start.as_ptr(),
        capacity: unfilled.len,
        allocator: ptr::null_mut(),
    }
}
