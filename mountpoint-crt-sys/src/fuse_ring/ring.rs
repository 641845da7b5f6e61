//! The ring of one thread: entries registered, requests received, replies committed.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::squeue::Entry128;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

use super::memory::{HEAD_SPACE, Memory};
use super::slot::{HEADERS, HEADERS_LEN, Slot};
use super::waker::RingWaker;

/// Settings of a ring.
#[derive(Clone, Debug)]
pub struct RingOptions {
    /// Numbers of the kernel's queues that it serves: one for each core.
    pub queues: Vec<u16>,
    /// Entries for each queue: requests that may be in progress.
    pub depth: usize,
    /// Largest request or reply, without headers, in bytes.
    pub payload_max: usize,
    /// Memory that payloads may hold, in bytes; beyond it idle memory is given back.
    pub resident_max: usize,
}

/// An event of a ring.
#[derive(Debug)]
pub enum Event {
    /// A request has arrived.
    Arrived(Slot),
    /// A thread used the waker.
    Woken,
    /// The connection has ended: unmounted, or aborted.
    Ended,
    /// The kernel did not take a reply, and has lost the entry.
    Failed(io::Error),
}

/// A ring. Made on any thread, used on one.
pub struct Ring {
    uring: IoUring<Entry128>,
    device: OwnedFd,
    memory: Arc<Memory>,
    waker: Arc<RingWaker>,
    options: RingOptions,
    /// Descriptors of each entry, for its registration with the kernel.
    vectors: Vec<[IoVec; 2]>,
    states: Vec<EntryState>,
    /// Bytes that entries have touched beyond their first page.
    resident: usize,
    /// Completions that were taken off the ring and not looked at yet.
    completed: VecDeque<Completion>,
}

/// The state of an entry.
#[derive(Clone, Copy, Debug, Default)]
struct EntryState {
    /// Bytes of its payload that may be resident.
    touched: usize,
    /// Whether the kernel has it, as far as the completions taken off the ring tell.
    is_idle: bool,
}

/// Token and result, and what has arrived.
#[derive(Debug)]
struct Completion {
    token: u64,
    result: i32,
    is_last: bool,
    slot: Option<Slot>,
}

/// `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct IoVec {
    start: usize,
    len: usize,
}

impl Ring {
    /// A ring over a descriptor of a FUSE connection. Nothing is registered yet.
    ///
    /// # Errors
    /// Where io_uring is not available or not permitted, and where there is no address space.
    pub fn new(device: OwnedFd, options: RingOptions) -> io::Result<Self> {
        let entries = options.queues.len() * options.depth;
        let memory = Arc::new(Memory::new(entries, options.payload_max)?);
        let submissions = entries.clamp(1, SUBMISSIONS_MAX).next_power_of_two();
        let completions = (entries + SUBMISSIONS_MAX).next_power_of_two();
        let number = |n: usize| u32::try_from(n).map_err(io::Error::other);
        let uring = IoUring::<Entry128>::builder()
            .setup_cqsize(number(completions)?)
            .setup_clamp()
            .setup_single_issuer()
            // The kernel writes to an entry's memory only while its thread waits.
            .setup_defer_taskrun()
            // The thread that enables it is the one that uses it.
            .setup_r_disabled()
            .build(number(submissions)?)?;
        let vectors = (0..entries).map(|index| vectors(&memory, index)).collect();
        Ok(Self {
            uring,
            device,
            memory,
            waker: Arc::new(RingWaker::new()?),
            options,
            vectors,
            states: vec![EntryState::default(); entries],
            resident: 0,
            completed: VecDeque::new(),
        })
    }

    /// A waker that ends this ring's waits.
    #[must_use]
    pub fn waker(&self) -> Arc<RingWaker> {
        Arc::clone(&self.waker)
    }

    /// Gives all entries to the kernel. From now on this thread is the ring's. When every queue of
    /// the machine has entries, requests arrive in them instead of at the device.
    ///
    /// # Errors
    /// When the kernel takes none of a queue's entries.
    pub fn register(&mut self) -> io::Result<()> {
        self.uring.submitter().register_enable_rings()?;
        self.listen()?;
        for index in 0..self.states.len() {
            self.states[index].is_idle = true;
            self.push(self.command(index, REGISTER, 0))?;
        }
        self.submit()?;
        self.collect();
        self.check_registered()
    }

    /// Takes out the completions that say that an entry was not taken.
    fn check_registered(&mut self) -> io::Result<()> {
        let depth = self.options.depth;
        let mut taken = vec![depth; self.options.queues.len()];
        for completion in std::mem::take(&mut self.completed) {
            if completion.slot.is_some() || completion.token >= IGNORED {
                self.completed.push_back(completion);
                continue;
            }
            let queue = usize::try_from(completion.token)
                .ok()
                .map(|entry| entry / depth);
            let taken = queue.and_then(|queue| taken.get_mut(queue));
            let left = taken.map_or(0, |taken| {
                *taken -= 1;
                *taken
            });
            if left == 0 {
                return Err(io::Error::from_raw_os_error(-completion.result));
            }
        }
        Ok(())
    }

    /// Tells the kernel that this connection will not use io_uring after all, by registering what
    /// cannot be: without that it would hold requests back until every queue is there.
    pub fn refuse(&mut self) {
        let mut command = self.command(0, REGISTER, 0);
        set_command(&mut command, 0, u16::MAX);
        // Where that fails the kernel has not heard of this ring, or has refused it before.
        self.uring.submitter().register_enable_rings().ok();
        self.push(command.user_data(IGNORED)).ok();
        self.submit().ok();
    }

    /// The next event that a wait has brought.
    #[expect(
        clippy::should_implement_trait,
        reason = "an empty ring is not at its end"
    )]
    pub fn next(&mut self) -> Option<Event> {
        loop {
            if self.completed.is_empty() {
                self.collect();
            }
            let completion = self.completed.pop_front()?;
            match (completion.slot, completion.token) {
                (Some(slot), _) => return Some(Event::Arrived(slot)),
                (None, IGNORED) => {}
                (None, WOKEN) => {
                    let listens = !completion.is_last || self.listen().is_ok();
                    assert!(listens, "there is always room for the waker");
                    return Some(Event::Woken);
                }
                (None, _) => return Some(failed(-completion.result)),
            }
        }
    }

    /// Makes room for a reply of `len` bytes: above the bound on memory, idle entries give theirs
    /// back.
    ///
    /// # Errors
    /// When the ring fails.
    pub fn make_room(&mut self, len: usize) -> io::Result<()> {
        if self.resident + len <= self.options.resident_max {
            return Ok(());
        }
        // A committed entry is idle once the kernel has copied it.
        self.submit()?;
        self.collect();
        self.give_back_down_to(self.options.resident_max / 2);
        Ok(())
    }

    /// Gives back the memory of idle entries.
    pub fn give_back_idle(&mut self) {
        self.collect();
        self.give_back_down_to(0);
    }

    /// Bytes that payloads may hold, but for the first page of each.
    #[must_use]
    pub fn resident(&self) -> usize {
        self.resident
    }

    /// Gives a slot with its reply to the kernel, at the next [`submit`](Self::submit) or
    /// [`wait`](Self::wait).
    ///
    /// # Errors
    /// When the ring fails.
    pub fn commit(&mut self, slot: Slot) -> io::Result<()> {
        assert!(
            slot.is_of(&self.memory),
            "a slot goes back where it came from"
        );
        let (entry, commit_id) = (slot.entry(), slot.commit_id());
        self.touch(entry, slot.touched());
        drop(slot);
        self.states[entry].is_idle = true;
        self.push(self.command(entry, COMMIT_AND_FETCH, commit_id))
    }

    /// Hands over committed entries.
    ///
    /// # Errors
    /// When the ring fails.
    pub fn submit(&mut self) -> io::Result<()> {
        loop {
            match self.uring.submit() {
                Ok(_) if self.uring.submission().is_empty() => return Ok(()),
                Ok(_) => {}
                Err(error) if is_passing(&error) => {
                    // Short of memory, or of room for completions.
                    self.collect();
                    std::thread::yield_now();
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Hands over committed entries and waits for an event, for `timeout` at most if there is one.
    ///
    /// # Errors
    /// When the ring fails.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if !self.completed.is_empty() {
            return self.submit();
        }
        let outcome = match timeout {
            None => self.uring.submit_and_wait(1),
            Some(timeout) => {
                let timeout = Timespec::from(timeout);
                let args = SubmitArgs::new().timespec(&timeout);
                self.uring.submitter().submit_with_args(1, &args)
            }
        };
        match outcome {
            // A signal, a shortage or the timeout: look for events.
            Err(error) if !is_passing(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes completions off the ring.
    fn collect(&mut self) {
        loop {
            let Some(completion) = self.uring.completion().next() else {
                return;
            };
            let (token, result) = (completion.user_data(), completion.result());
            let is_last = !cqueue::more(completion.flags());
            let entry = usize::try_from(token).ok();
            let entry = entry.filter(|entry| *entry < self.states.len());
            let slot = entry.and_then(|entry| self.came_back(entry, result));
            self.completed.push_back(Completion {
                token,
                result,
                is_last,
                slot,
            });
        }
    }

    /// An entry is the kernel's no more. Returns the request in it, if there is one.
    fn came_back(&mut self, entry: usize, result: i32) -> Option<Slot> {
        let was_idle = std::mem::replace(&mut self.states[entry].is_idle, false);
        assert!(
            was_idle,
            "an entry comes back as often as it was given away"
        );
        if result < 0 {
            return None;
        }
        // SAFETY: a completion without an error hands the entry over, and as was just seen it was
        // the kernel's.
        let slot = unsafe { Slot::arrived(&self.memory, entry) };
        if self.resident > self.options.resident_max / 2 {
            let kept = slot.touched();
            // SAFETY: the entry is the slot's, which is here and not borrowed; what it holds is
            // kept.
            unsafe { self.memory.give_back(entry, kept) };
            self.forget(entry);
        }
        self.touch(entry, slot.touched());
        Some(slot)
    }

    /// Gives back payloads of idle entries until at most `resident` bytes are held, if that can be.
    ///
    /// The caller has submitted and collected: idle entries are in the kernel and empty.
    fn give_back_down_to(&mut self, resident: usize) {
        for entry in 0..self.states.len() {
            if self.resident <= resident {
                return;
            }
            let EntryState { touched, is_idle } = self.states[entry];
            if is_idle && touched > self.memory.page_len() {
                // SAFETY: the kernel puts nothing into an idle entry before this thread submits or
                // waits again, and has copied the reply that was in it.
                unsafe { self.memory.give_back(entry, 0) };
                self.forget(entry);
            }
        }
    }

    /// Counts that an entry's payload may hold `len` bytes.
    fn touch(&mut self, entry: usize, len: usize) {
        let page = self.memory.page_len();
        let before = self.states[entry].touched;
        let after = before.max(len);
        self.resident += after.saturating_sub(page) - before.saturating_sub(page);
        self.states[entry].touched = after;
    }

    /// Counts that an entry's payload holds nothing.
    fn forget(&mut self, entry: usize) {
        let page = self.memory.page_len();
        self.resident -= self.states[entry].touched.saturating_sub(page);
        self.states[entry].touched = 0;
    }

    /// Has the waker's uses reported.
    fn listen(&mut self) -> io::Result<()> {
        let events = u32::from(libc::POLLIN.cast_unsigned());
        let poll = opcode::PollAdd::new(Fd(self.waker.fd()), events).multi(true);
        self.push(Entry128::from(poll.build().user_data(WOKEN)))
    }

    /// A command about one entry.
    fn command(&self, entry: usize, operation: u32, commit_id: u64) -> Entry128 {
        let queue = self.options.queues[entry / self.options.depth];
        let vector = self.vectors[entry].as_ptr().addr() as u64;
        let mut command = opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), operation)
            .addr(Some(vector))
            .build()
            .user_data(entry as u64);
        set_command(&mut command, commit_id, queue);
        command
    }

    fn push(&mut self, entry: Entry128) -> io::Result<()> {
        loop {
            // SAFETY: the buffers it names live as long as the ring: the entries' memory and their
            // vectors, which are never moved.
            if unsafe { self.uring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            self.submit()?;
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("options", &self.options)
            .field("resident", &self.resident)
            .finish_non_exhaustive()
    }
}

/// Whether a system call that failed so can be made again.
fn is_passing(error: &io::Error) -> bool {
    let passing = [
        libc::EINTR,
        libc::EAGAIN,
        libc::EBUSY,
        libc::ENOMEM,
        libc::ETIME,
    ];
    error
        .raw_os_error()
        .is_some_and(|errno| passing.contains(&errno))
}

/// The meaning of an error for the connection.
fn failed(errno: i32) -> Event {
    match errno {
        libc::ENOTCONN | libc::ECONNABORTED | libc::ENODEV | libc::ECANCELED => Event::Ended,
        _ => Event::Failed(io::Error::from_raw_os_error(errno)),
    }
}

/// Headers and payload of an entry.
fn vectors(memory: &Memory, entry: usize) -> [IoVec; 2] {
    let start = memory.entry(entry).addr().get();
    let headers = IoVec {
        start: start + HEADERS,
        len: HEADERS_LEN,
    };
    let payload = IoVec {
        start: start + HEAD_SPACE,
        len: memory.payload_len(),
    };
    [headers, payload]
}

/// Fills in what `UringCmd80` has no setter for: the number of vectors, and `struct
/// fuse_uring_cmd_req`.
fn set_command(command: &mut Entry128, commit_id: u64, queue: u16) {
    let bytes: *mut Entry128 = command;
    let bytes: *mut [u8; SUBMISSION_LEN] = bytes.cast();
    // SAFETY: a submission is 128 bytes of plain integers, as `linux/io_uring.h` lays them out.
    let bytes = unsafe { &mut *bytes };
    bytes[VECTORS].copy_from_slice(&2_u32.to_ne_bytes());
    bytes[COMMAND + 8..COMMAND + 16].copy_from_slice(&commit_id.to_ne_bytes());
    bytes[COMMAND + 16..COMMAND + 18].copy_from_slice(&queue.to_ne_bytes());
}

/// `FUSE_IO_URING_CMD_REGISTER`.
const REGISTER: u32 = 1;
/// `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`.
const COMMIT_AND_FETCH: u32 = 2;

/// `sizeof(struct io_uring_sqe)` with `IORING_SETUP_SQE128`.
const SUBMISSION_LEN: usize = 128;
/// Its field `len`.
const VECTORS: std::ops::Range<usize> = 24..28;
/// Its field `cmd`.
const COMMAND: usize = 48;
const _: () = assert!(size_of::<Entry128>() == SUBMISSION_LEN);

/// Token of the poll of the waker; entries have their index.
const WOKEN: u64 = u64::MAX;
/// Token of operations whose outcome does not matter.
const IGNORED: u64 = u64::MAX - 1;

/// Submissions that wait to be handed over; more are handed over when they come.
const SUBMISSIONS_MAX: usize = 128;
