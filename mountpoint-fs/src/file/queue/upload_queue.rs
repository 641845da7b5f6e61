//! The queue of committed files: the thread that begins their uploads, and its waiters.
//!
//! The lock is a leaf: files are called without it.

use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::oneshot;

use super::schedule::Schedule;
use super::types::{Attempt, PendingFile, PendingUploads};
use crate::clock::Clock;
use crate::executor;
use crate::sync::{Condvar, Mutex, MutexGuard, spawn};
use crate::write::background;

/// The committed files of a mount that the bucket lacks.
pub(in crate::file) struct UploadQueue {
    clock: Clock,
    state: Mutex<QueueState>,
    /// Told when the thread has to look.
    work: Condvar,
}

#[derive(Debug)]
struct QueueState {
    schedule: Schedule,
    files: HashMap<u64, Arc<dyn PendingFile>>,
    waiters: Vec<Waiter>,
    /// Files whose records are being released.
    releasing: usize,
    /// Until when the thread sleeps; `None` while it works.
    asleep_until: Option<Duration>,
    is_closed: bool,
}

/// A task that waits, at most for a while.
#[derive(Debug)]
struct Waiter {
    until: Duration,
    event: Event,
    told: oneshot::Sender<bool>,
}

/// The event that a waiter awaits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// No file waits.
    Empty,
    /// Something ended that may have had room on the disk or in the journal.
    Room,
    /// No record is being released.
    Released,
}

impl UploadQueue {
    /// An empty queue, with its thread. Files are uploaded `delay` after their commit.
    pub(in crate::file) fn start(delay: Duration, clock: &Clock) -> std::io::Result<Arc<Self>> {
        let queue = Arc::new(Self {
            clock: clock.clone(),
            state: Mutex::new(QueueState {
                schedule: Schedule::new(delay),
                files: HashMap::new(),
                waiters: Vec::new(),
                releasing: 0,
                asleep_until: None,
                is_closed: false,
            }),
            work: Condvar::new(),
        });
        let weak = Arc::downgrade(&queue);
        spawn("staged-uploads".to_owned(), move || run(&weak))?;
        Ok(queue)
    }

    /// A commit of `file` is durable.
    pub(in crate::file) fn committed(&self, number: u64, file: Arc<dyn PendingFile>) {
        let (bytes, delay) = (file.size(), file.delay());
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        state
            .schedule
            .committed(number, (bytes, delay), self.clock.now());
        let before = state.files.insert(number, file);
        self.tell(&state);
        drop(state);
        drop(before);
    }

    /// Wakes the thread if it has to do something before it wakes by itself.
    fn tell(&self, state: &MutexGuard<'_, QueueState>) {
        let wakes_at = state.schedule.wakes_at();
        if let (Some(asleep_until), Some(wakes_at)) = (state.asleep_until, wakes_at)
            && wakes_at < asleep_until
        {
            self.work.notify_all();
        }
    }

    /// Whether a commit of the file finds room in the queue.
    pub(in crate::file) fn has_room(&self, number: u64) -> bool {
        let state = self.state.lock();
        state.schedule.has(number) || state.schedule.len() < PENDING_FILES_MAX
    }

    /// Has all files uploaded as soon as possible.
    pub(in crate::file) fn flush(&self) {
        self.state.lock().schedule.flush(self.clock.now());
        self.work.notify_all();
    }

    /// The files that wait or are uploaded.
    pub(in crate::file) fn pending(&self) -> PendingUploads {
        self.pending_since(u64::MAX)
    }

    /// Commits until now.
    pub(in crate::file) fn mark(&self) -> u64 {
        self.state.lock().schedule.commits()
    }

    /// The files of which one of the first `commits` waits or is uploaded.
    pub(in crate::file) fn pending_since(&self, commits: u64) -> PendingUploads {
        let (mut count, mut bytes, mut files) = (0, 0, Vec::new());
        {
            let state = self.state.lock();
            for (file, its_bytes) in state.schedule.files_since(commits) {
                count += 1;
                bytes += its_bytes;
                if files.len() < PendingUploads::SHOWN_MAX {
                    files.extend(state.files.get(&file).cloned());
                }
            }
        }
        PendingUploads {
            count,
            bytes,
            files: files.iter().map(|file| file.describe()).collect(),
        }
    }

    /// Returns when no file waits, or after `time`.
    pub(in crate::file) async fn drained(&self, time: Duration) {
        self.wait(Event::Empty, time).await;
    }

    /// Waits for room on the disk. `false` if there is nothing to wait for, or after `time`.
    pub(in crate::file) async fn room(&self, time: Duration) -> bool {
        self.wait(Event::Room, time).await
    }

    /// A file is about to give back room on the disk and in the journal.
    pub(in crate::file) fn begin_release(&self) {
        self.state.lock().releasing += 1;
    }

    /// A file gave back its room.
    pub(in crate::file) fn end_release(&self) {
        let told = {
            let mut state = self.state.lock();
            state.releasing -= 1;
            let mut told = state.take(Event::Room);
            if state.releasing == 0 {
                told.extend(state.take(Event::Released));
            }
            told
        };
        tell(told, true);
    }

    /// Returns when no record is being released, also behind [`Self::close`].
    pub(in crate::file) async fn released(&self) {
        let (told, heard) = oneshot::channel();
        {
            let mut state = self.state.lock();
            if state.releasing == 0 {
                return;
            }
            let (until, event) = (Duration::MAX, Event::Released);
            state.waiters.push(Waiter { until, event, told });
        }
        heard.await.ok();
    }

    async fn wait(&self, event: Event, time: Duration) -> bool {
        let (told, heard) = oneshot::channel();
        {
            let mut state = self.state.lock();
            let is_empty = state.schedule.len() == 0;
            let is_over = match event {
                Event::Empty => is_empty,
                Event::Room => is_empty && state.releasing == 0,
                Event::Released => state.releasing == 0,
            };
            if is_over || state.is_closed {
                return is_over && event == Event::Empty;
            }
            let now = self.clock.now();
            if event == Event::Room {
                state.schedule.end_delays(now);
            }
            let until = now + time;
            state.waiters.push(Waiter { until, event, told });
        }
        self.work.notify_all();
        heard.await.unwrap_or(false)
    }

    /// Begins no more uploads. Waiting files stay in the journal.
    pub(in crate::file) fn close(&self) {
        let (files, waiters) = {
            let mut state = self.state.lock();
            state.is_closed = true;
            let files = std::mem::take(&mut state.files);
            (files, std::mem::take(&mut state.waiters))
        };
        self.work.notify_all();
        drop(files);
        tell(waiters.into_iter().map(|it| it.told).collect(), false);
    }

    /// Begins an upload.
    fn begin(self: &Arc<Self>, number: u64, file: Arc<dyn PendingFile>) {
        let queue = Arc::clone(self);
        background::run(async move {
            let uploaded = Arc::clone(&file);
            let upload = AssertUnwindSafe(async { uploaded.upload().await }).catch_unwind();
            let attempt = upload.await.unwrap_or_else(|panic| {
                let message = executor::panic_message(panic.as_ref());
                tracing::error!(?file, message, "an upload panicked; it is tried again");
                Attempt::Failed
            });
            queue.finished(number, attempt);
        });
    }

    fn finished(&self, number: u64, attempt: Attempt) {
        let (file, told) = {
            let mut state = self.state.lock();
            let is_stored = state.schedule.finished(number, attempt, self.clock.now());
            let file = is_stored.then(|| state.files.remove(&number)).flatten();
            let mut told = match attempt {
                Attempt::Early => Vec::new(),
                Attempt::Ended | Attempt::Failed | Attempt::Away => state.take(Event::Room),
            };
            if state.schedule.len() == 0 {
                told.extend(state.take(Event::Empty));
            }
            self.tell(&state);
            (file, told)
        };
        drop(file);
        tell(told, true);
    }

    /// Does what is due, or sleeps until something is. `None` at the end.
    fn look(self: &Arc<Self>) -> Option<()> {
        let mut late = Vec::new();
        let mut state = self.state.lock();
        if state.is_closed {
            return None;
        }
        let now = self.clock.now();
        let mut place = 0;
        while place < state.waiters.len() {
            match state.waiters[place].until <= now {
                true => late.push(state.waiters.swap_remove(place).told),
                false => place += 1,
            }
        }
        let next = state.schedule.next(now);
        let file = next.and_then(|number| Some((number, state.files.get(&number).cloned()?)));
        if late.is_empty() && next.is_none() {
            let wakes = state.waiters.iter().map(|waiter| waiter.until);
            let wakes = wakes.chain(state.schedule.wakes_at()).min();
            let time = wakes.map_or(SLEEP_MAX, |at| at.saturating_sub(now).min(SLEEP_MAX));
            state.asleep_until = Some(now + time);
            self.work.wait_for(&mut state, time);
            state.asleep_until = None;
            return Some(());
        }
        drop(state);
        tell(late, false);
        if let Some((number, file)) = file {
            self.begin(number, file);
        }
        Some(())
    }
}

impl QueueState {
    /// Takes the waiters for `event`.
    fn take(&mut self, event: Event) -> Vec<oneshot::Sender<bool>> {
        let all = std::mem::take(&mut self.waiters).into_iter();
        let (told, rest): (Vec<_>, Vec<_>) = all.partition(|waiter| waiter.event == event);
        self.waiters = rest;
        told.into_iter().map(|waiter| waiter.told).collect()
    }
}

/// Wakes the waiters. The caller holds no lock.
fn tell(told: Vec<oneshot::Sender<bool>>, is_there: bool) {
    executor::delivering(|| {
        for waiter in told {
            // It may wait no more.
            waiter.send(is_there).ok();
        }
    });
}

/// The thread of the queue, which ends with it.
fn run(queue: &Weak<UploadQueue>) {
    while let Some(queue) = queue.upgrade() {
        match executor::shielded("the queue of uploads", || queue.look()) {
            Some(Some(())) => {}
            Some(None) => return,
            // What it panics of is still there.
            None => std::thread::sleep(SLEEP_MAX),
        }
    }
}

impl fmt::Debug for UploadQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.state.lock().schedule.len();
        f.debug_struct("UploadQueue")
            .field("pending", &pending)
            .finish_non_exhaustive()
    }
}

/// Files that may wait: 1 KB of memory each, with their bytes if they are few.
pub(in crate::file) const PENDING_FILES_MAX: usize = 200_000;

/// How long the thread sleeps before it looks again, in any case.
const SLEEP_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::SystemTime;

    use futures::future::BoxFuture;
    use mountpoint_client::types::Key;

    use super::super::types::PendingUpload;
    use super::*;

    /// A file whose uploads panic a few times: the call, or its future.
    #[derive(Debug)]
    struct Defective {
        panics: AtomicU32,
        uploads: AtomicU32,
    }

    impl PendingFile for Defective {
        fn upload(self: Arc<Self>) -> BoxFuture<'static, Attempt> {
            self.uploads.fetch_add(1, Ordering::Relaxed);
            let left = self.panics.load(Ordering::Relaxed);
            self.panics.store(left.saturating_sub(1), Ordering::Relaxed);
            assert!(left != 2, "a simulated defect of the call");
            Box::pin(async move {
                assert!(left != 1, "a simulated defect of the upload");
                Attempt::Ended
            })
        }

        fn size(&self) -> u64 {
            1
        }

        fn delay(&self) -> Duration {
            Duration::ZERO
        }

        fn describe(&self) -> PendingUpload {
            PendingUpload {
                key: Key::parse("key").unwrap(),
                size: 1,
                modified: SystemTime::UNIX_EPOCH,
                number: 1,
                failures: 0,
                error: None,
            }
        }
    }

    #[test]
    fn an_upload_that_panics_is_tried_again_and_ends_neither_the_thread_nor_a_wait() {
        let queue = UploadQueue::start(Duration::ZERO, &Clock::monotonic()).unwrap();
        let file = Arc::new(Defective {
            panics: AtomicU32::new(2),
            uploads: AtomicU32::new(0),
        });
        queue.committed(1, Arc::clone(&file) as _);
        for _ in 0..100 {
            if queue.pending().count == 0 {
                break;
            }
            queue.flush();
            let waits = queue.drained(Duration::from_millis(200));
            futures::executor::block_on(waits);
        }
        assert_eq!(queue.pending().count, 0);
        assert_eq!(file.uploads.load(Ordering::Relaxed), 3);
        queue.close();
    }
}
