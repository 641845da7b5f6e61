//! The bridge from the C library's logger to `tracing`.
//!
//! Targets are "crt::io", "crt::http", "crt::auth", "crt::s3" and "crt::common"; the finer subject
//! is a field. The CRT writes a line of level "error" for every request that fails, also for one
//! that asks whether an object exists. The caller is told of each, so these lines are debug lines
//! here; only "fatal" stays an error. Warnings about TLS stay warnings, since they alone say what
//! is wrong with a certificate.
//!
//! Runs on any thread. The C library asks for the level before it formats a line, so what is off
//! costs one check.

use std::sync::Once;

use mountpoint_s3_crt_sys as sys;
use sys::aws_log_level as level;
use sys::logging_shim::{aws_crt_s3_rs_logging_shim_log_fn_trampoline, try_init};
use tracing::level_filters::LevelFilter;

use crate::c_string::static_text;
use crate::ffi::{bytes_at, guard};

static VTABLE: sys::aws_logger_vtable = sys::aws_logger_vtable {
    log: Some(aws_crt_s3_rs_logging_shim_log_fn_trampoline),
    get_log_level: Some(level_wanted),
    clean_up: Some(clean_up),
    set_log_level: None,
};

/// Installs the bridge, once in the process. The C library must be initialised.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        if try_init(write).is_err() {
            return;
        }
        let logger = Box::leak(Box::new(sys::aws_logger {
            vtable: (&raw const VTABLE).cast_mut(),
            // SAFETY: returns the address of a static.
            allocator: unsafe { sys::aws_default_allocator() },
            p_impl: std::ptr::null_mut(),
        }));
        // SAFETY: the logger and its vtable live for ever, and C does not write to the vtable.
        unsafe { sys::aws_logger_set(logger) };
    });
}

const TLS: sys::aws_log_subject_t =
    sys::aws_io_log_subject::AWS_LS_IO_TLS as sys::aws_log_subject_t;

/// The C libraries; each reserves 1024 subjects, in this order.
#[derive(Clone, Copy)]
enum Library {
    Common,
    Io,
    Http,
    Auth,
    S3,
}

impl Library {
    fn of(subject: sys::aws_log_subject_t) -> Self {
        match subject >> 10 {
            1 => Self::Io,
            2 => Self::Http,
            6 => Self::Auth,
            14 => Self::S3,
            _ => Self::Common,
        }
    }
}

/// One `tracing` macro for each library, because targets are static.
macro_rules! for_library {
    ($library:expr, $macro:ident!, $level:ident $(, $rest:tt)*) => {
        match $library {
            Library::Common => tracing::$macro!(target: "crt::common", tracing::Level::$level $(, $rest)*),
            Library::Io => tracing::$macro!(target: "crt::io", tracing::Level::$level $(, $rest)*),
            Library::Http => tracing::$macro!(target: "crt::http", tracing::Level::$level $(, $rest)*),
            Library::Auth => tracing::$macro!(target: "crt::auth", tracing::Level::$level $(, $rest)*),
            Library::S3 => tracing::$macro!(target: "crt::s3", tracing::Level::$level $(, $rest)*),
        }
    };
}

unsafe extern "C" fn level_wanted(
    _: *mut sys::aws_logger,
    subject: sys::aws_log_subject_t,
) -> level::Type {
    if LevelFilter::current() < LevelFilter::DEBUG {
        // C asks several times for each piece of data: no filter is consulted for subjects that are
        // most likely off. Lines that are written are filtered again.
        return if subject == TLS {
            level::AWS_LL_WARN
        } else {
            level::AWS_LL_FATAL
        };
    }
    let wanted = || {
        let library = Library::of(subject);
        if for_library!(library, enabled!, TRACE) {
            level::AWS_LL_TRACE
        } else if for_library!(library, enabled!, DEBUG) {
            level::AWS_LL_INFO
        } else if subject == TLS && for_library!(library, enabled!, WARN) {
            level::AWS_LL_WARN
        } else {
            level::AWS_LL_FATAL
        }
    };
    guard(wanted).unwrap_or(level::AWS_LL_NONE)
}

unsafe extern "C" fn write(
    _: *mut sys::aws_logger,
    level: level::Type,
    subject: sys::aws_log_subject_t,
    body: *mut sys::aws_string,
    len: usize,
) -> libc::c_int {
    // SAFETY: a line of at least `len` bytes, alive during this call.
    let start = unsafe { sys::aws_string_bytes(body) };
    // SAFETY: as above.
    let line = unsafe { bytes_at(start, len) };
    // SAFETY: asks about a number; any number may be asked about.
    let subject_name = unsafe { sys::aws_log_subject_name(subject) };
    // SAFETY: the library keeps these texts for ever.
    let subject_name = unsafe { static_text(subject_name) };
    guard(|| emit(level, subject, subject_name, &String::from_utf8_lossy(line)));
    sys::AWS_OP_SUCCESS
}

fn emit(level: level::Type, id: sys::aws_log_subject_t, subject: &'static str, line: &str) {
    let library = Library::of(id);
    match level {
        level::AWS_LL_FATAL => for_library!(library, event!, ERROR, subject, "{line}"),
        level::AWS_LL_WARN if id == TLS => for_library!(library, event!, WARN, subject, "{line}"),
        level::AWS_LL_ERROR | level::AWS_LL_WARN | level::AWS_LL_INFO => {
            for_library!(library, event!, DEBUG, subject, "{line}");
        }
        _ => for_library!(library, event!, TRACE, subject, "{line}"),
    }
}

unsafe extern "C" fn clean_up(_: *mut sys::aws_logger) {}
