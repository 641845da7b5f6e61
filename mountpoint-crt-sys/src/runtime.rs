//! The process-wide part of the CRT: the library, event loops, the resolver, the bootstrap of
//! connections.
//!
//! Knows no S3. Invariant: what C holds of a runtime outlives every client made from it, because
//! each client owns a clone.
//!
//! The last clone that goes, on whichever thread, gives everything back and waits, for a bounded
//! time, until the event loops' threads have ended; inside a callback from C it does not wait,
//! since it would wait for itself.

use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::thread;
use std::time::Duration;

use mountpoint_s3_crt_sys as sys;
use parking_lot::{Condvar, Mutex};

use crate::CrtError;
use crate::allocator::Allocator;
use crate::ffi::{Handle, guard, in_callback};
use crate::log;

/// Size of the pieces in which bytes move through the CRT. Its default of 16 KiB costs twice the
/// CPU time per byte; more than this gains nothing.
const FRAGMENT_SIZE: usize = 512 << 10;

/// Most event loops by default.
///
/// A connection stays with its loop, and two busy ones may share a loop while another one rests:
/// eight streams on 16 cores had 5.0 GB/s with a loop for every second core, and 7.0 with one for
/// each (internals/measurements.md). A loop moves 1 GB/s and more, and 64 are for 400 Gbit/s.
const THREADS_MAX: u16 = 64;

/// Host names whose addresses are remembered.
const HOSTS_MAX: usize = 16;

/// How long the end of a runtime waits for its event loops. Requests in flight keep them alive.
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

/// How long the end of the last runtime waits for threads that have nothing left to do.
const JOIN_MAX: Duration = Duration::from_secs(2);

/// Settings of the [`Runtime`].
#[derive(Clone, Debug, Default)]
pub struct RuntimeOptions {
    /// Event loop threads. None: one for each core, 64 at most, and one on two cores.
    pub event_loop_threads: Option<u16>,
    /// Counts the memory that the C library holds, for [`Runtime::native_bytes`]. Costs an atomic
    /// operation for each allocation, and leaks a few bytes for each runtime.
    pub count_memory: bool,
}

/// Event loops, resolver and bootstrap. Cheap to clone.
/// When the last clone and the last client are gone, everything is released and joined.
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
}

/// The order of the fields is the order of their end.
struct Shared {
    bootstrap: Handle<sys::aws_client_bootstrap>,
    _resolver: Handle<sys::aws_host_resolver>,
    event_loops: Handle<sys::aws_event_loop_group>,
    allocator: Allocator,
    _end: End,
}

impl Runtime {
    /// Starts the library (once in the process) and a group of event loops.
    pub fn new(options: &RuntimeOptions) -> Result<Self, CrtError> {
        init_library();
        let allocator = if options.count_memory {
            Allocator::counting()
        } else {
            Allocator::plain()
        };
        let end = End::new();
        let threads = options
            .event_loop_threads
            .unwrap_or_else(default_threads)
            .max(1);
        let event_loops = new_event_loops(allocator, threads, &end)?;
        let resolver = new_resolver(allocator, &event_loops)?;
        let bootstrap = new_bootstrap(allocator, &event_loops, &resolver)?;
        let shared = Shared {
            bootstrap,
            _resolver: resolver,
            event_loops,
            allocator,
            _end: end,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Bytes of memory that the C library holds for this runtime and its clients; None unless
    /// counted. The counter stays readable after the runtime's end.
    #[must_use]
    pub fn native_bytes(&self) -> Option<&'static AtomicUsize> {
        self.shared.allocator.live()
    }

    pub(crate) fn allocator(&self) -> Allocator {
        self.shared.allocator
    }

    pub(crate) fn bootstrap(&self) -> *mut sys::aws_client_bootstrap {
        self.shared.bootstrap.as_ptr()
    }

    pub(crate) fn event_loops(&self) -> *mut sys::aws_event_loop_group {
        self.shared.event_loops.as_ptr()
    }

    /// Runs `work` on an event loop soon, never on the calling thread's stack.
    pub(crate) fn run_soon(&self, work: Box<dyn FnOnce() + Send>) {
        struct Task {
            raw: sys::aws_task,
            work: Box<dyn FnOnce() + Send>,
        }
        unsafe extern "C" fn run(
            _: *mut sys::aws_task,
            task: *mut libc::c_void,
            _: sys::aws_task_status,
        ) {
            // SAFETY: leaked below; an event loop runs each task once, at its end too.
            let task = unsafe { Box::from_raw(task.cast::<Task>()) };
            guard(task.work);
        }
        let task = Box::into_raw(Box::new(Task {
            raw: sys::aws_task::default(),
            work,
        }));
        // SAFETY: just leaked, and not yet C's.
        let raw = unsafe { &raw mut (*task).raw };
        // SAFETY: a task that nobody else uses yet; its argument is the box that it lies in.
        unsafe { sys::aws_task_init(raw, Some(run), task.cast(), c"mountpoint".as_ptr()) };
        // SAFETY: the group is alive as long as self.
        let event_loop = unsafe { sys::aws_event_loop_group_get_next_loop(self.event_loops()) };
        // SAFETY: the task stays where it is until it runs.
        unsafe { sys::aws_event_loop_schedule_task_now(event_loop, raw) };
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").finish_non_exhaustive()
    }
}

fn init_library() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        // SAFETY: nothing of the CRT runs yet, so nobody reads it at the same time.
        unsafe { sys::g_aws_channel_max_fragment_size = FRAGMENT_SIZE };
        // SAFETY: the default allocator lives for ever. Never cleaned up, which would race with
        // exiting threads.
        unsafe { sys::aws_s3_library_init(Allocator::plain().as_ptr()) };
        let nanos = u64::try_from(JOIN_MAX.as_nanos()).expect("seconds fit");
        // SAFETY: sets a number under a lock.
        unsafe { sys::aws_thread_set_managed_join_timeout_ns(nanos) };
        log::install();
    });
}

fn default_threads() -> u16 {
    match thread::available_parallelism().map_or(1, NonZero::get) {
        // A second loop gains nothing there, and costs a tenth of the CPU time of random reads.
        ..=2 => 1,
        cores => u16::try_from(cores).map_or(THREADS_MAX, |cores| cores.min(THREADS_MAX)),
    }
}

fn new_event_loops(
    allocator: Allocator,
    threads: u16,
    end: &End,
) -> Result<Handle<sys::aws_event_loop_group>, CrtError> {
    let ended = Arc::into_raw(Arc::clone(&end.ended));
    let shutdown = sys::aws_shutdown_callback_options {
        shutdown_callback_fn: Some(event_loops_ended),
        shutdown_callback_user_data: ended.cast_mut().cast(),
    };
    let options = sys::aws_event_loop_group_options {
        loop_count: threads,
        shutdown_options: &raw const shutdown,
        ..Default::default()
    };
    // SAFETY: the options live during the call; the callback's data lives until the callback.
    let raw = unsafe { sys::aws_event_loop_group_new(allocator.as_ptr(), &raw const options) };
    // SAFETY: a new reference, or null; then the callback's data leaks, since it is not known who
    // has it.
    unsafe { Handle::own(raw) }
}

fn new_resolver(
    allocator: Allocator,
    event_loops: &Handle<sys::aws_event_loop_group>,
) -> Result<Handle<sys::aws_host_resolver>, CrtError> {
    let options = sys::aws_host_resolver_default_options {
        max_entries: HOSTS_MAX,
        el_group: event_loops.as_ptr(),
        ..Default::default()
    };
    // SAFETY: the options live during the call; the resolver takes its own reference of the group.
    let raw = unsafe { sys::aws_host_resolver_new_default(allocator.as_ptr(), &raw const options) };
    // SAFETY: a new reference, or null.
    unsafe { Handle::own(raw) }
}

fn new_bootstrap(
    allocator: Allocator,
    event_loops: &Handle<sys::aws_event_loop_group>,
    resolver: &Handle<sys::aws_host_resolver>,
) -> Result<Handle<sys::aws_client_bootstrap>, CrtError> {
    let options = sys::aws_client_bootstrap_options {
        event_loop_group: event_loops.as_ptr(),
        host_resolver: resolver.as_ptr(),
        ..Default::default()
    };
    // SAFETY: the options live during the call; the bootstrap takes its own references.
    let raw = unsafe { sys::aws_client_bootstrap_new(allocator.as_ptr(), &raw const options) };
    // SAFETY: a new reference, or null.
    unsafe { Handle::own(raw) }
}

/// Waits when dropped until the event loops have ended.
struct End {
    ended: Arc<Ended>,
}

#[derive(Default)]
struct Ended {
    done: Mutex<bool>,
    changed: Condvar,
}

/// Runtimes of this process that have not ended.
static RUNTIMES: AtomicUsize = AtomicUsize::new(0);

impl End {
    fn new() -> Self {
        RUNTIMES.fetch_add(1, Ordering::AcqRel);
        Self {
            ended: Arc::default(),
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let is_last = RUNTIMES.fetch_sub(1, Ordering::AcqRel) == 1;
        if in_callback() {
            return;
        }
        let mut done = self.ended.done.lock();
        let wait = self
            .ended
            .changed
            .wait_while_for(&mut done, |done| !*done, SHUTDOWN_MAX);
        drop(done);
        if wait.timed_out() {
            tracing::warn!("event loops still run after {SHUTDOWN_MAX:?}: a request has not ended");
        } else if is_last {
            // SAFETY: waits for threads of the C library, none of which is this one, no longer than
            // `JOIN_MAX`.
            unsafe { sys::aws_thread_join_all_managed() };
        }
    }
}

unsafe extern "C" fn event_loops_ended(ended: *mut libc::c_void) {
    // SAFETY: leaked by `new_event_loops`; C calls this once.
    let ended = unsafe { Arc::from_raw(ended.cast::<Ended>().cast_const()) };
    *ended.done.lock() = true;
    ended.changed.notify_all();
}
