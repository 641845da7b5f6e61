//! The life of connections after a client's last request.
//!
//! The CRT's clients close idle connections some 5 s after the last request, and the next look-up
//! connects anew. [`Keeper`] keeps them, and closes those of a client without a request for a
//! while. Knows no interface and no request.
//!
//! One task of the tokio runtime sleeps until the first client's time may be over, and ends without
//! kept connections: an idle mount has no timer. The task alone keeps no client alive.
//!
//! Lock: held for some instructions, the CRT's own inside.

use std::sync::{Arc, Weak};
use std::time::Duration;

use mountpoint_crt_sys::Client;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

/// The clients whose connections are kept.
#[derive(Debug)]
pub(in crate::crt_client) struct Keeper {
    runtime: Handle,
    idle_max: Duration,
    /// Each with its last use; three for each network interface at most. While there is one, the
    /// task runs.
    kept: Mutex<Vec<(Client, Instant)>>,
}

impl Keeper {
    /// Connections are kept for so long after the last request.
    pub(in crate::crt_client) fn new(runtime: Handle, idle_max: Duration) -> Arc<Self> {
        Arc::new(Self {
            runtime,
            idle_max,
            kept: Mutex::default(),
        })
    }

    /// A request is about to be sent by this client.
    pub(in crate::crt_client) fn used(self: &Arc<Self>, client: &Client) {
        if self.note(client, Instant::now()) {
            drop(self.runtime.spawn(watch(Arc::downgrade(self))));
        }
    }

    /// Whether a task has to be started that watches.
    fn note(&self, client: &Client, now: Instant) -> bool {
        let mut kept = self.kept.lock();
        if let Some((_, last)) = kept.iter_mut().find(|(one, _)| one == client) {
            *last = now;
            return false;
        }
        if !client.keep_connections() {
            return false;
        }
        kept.push((client.clone(), now));
        kept.len() == 1
    }

    /// Lets the connections of unused clients go. Returns the time of the next look; `None` if
    /// nothing is kept.
    fn let_go(&self, now: Instant) -> Option<Instant> {
        let mut kept = self.kept.lock();
        kept.retain(|(client, last)| {
            let is_kept = now < *last + self.idle_max;
            if !is_kept {
                client.let_connections_go();
            }
            is_kept
        });
        let next = kept.iter().map(|(_, last)| *last + self.idle_max);
        next.min()
    }
}

async fn watch(keeper: Weak<Keeper>) {
    let look = || keeper.upgrade()?.let_go(Instant::now());
    while let Some(next) = look() {
        sleep_until(next).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use mountpoint_crt_sys::{ClientOptions, Runtime, RuntimeOptions, Signing, TlsOptions};

    use super::*;

    const IDLE_MAX: Duration = Duration::from_secs(20);

    fn client(crt: &Runtime) -> Client {
        let options = ClientOptions {
            endpoint: "http://127.0.0.1:9".to_owned(),
            signing: Signing::Unsigned,
            tls: TlsOptions::default(),
            throughput_target_gbps: 1.0,
            part_size_max: 1 << 20,
            connect_timeout: Duration::from_secs(1),
            stall_timeout: Duration::from_secs(1),
            network_interface: None,
            proxy: None,
        };
        Client::new(crt, &options).unwrap()
    }

    fn tokio() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .unwrap()
    }

    fn eventually(holds: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(120);
        while !holds() {
            assert!(Instant::now() < end, "never");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn each_client_is_let_go_after_its_own_last_use() {
        let (crt, tokio) = (Runtime::new(&RuntimeOptions::default()).unwrap(), tokio());
        let keeper = Keeper::new(tokio.handle().clone(), IDLE_MAX);
        let (busy, seldom) = (client(&crt), client(&crt));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(keeper.note(&seldom, at(0)));
        assert!(!keeper.note(&busy, at(1)));
        assert!(!keeper.note(&busy, at(15)));
        for (now, next, are_kept) in [
            (19, Some(20), (true, true)),
            (20, Some(35), (false, true)),
            (34, Some(35), (false, true)),
            (35, None, (false, false)),
            (99, None, (false, false)),
        ] {
            assert_eq!(keeper.let_go(at(now)), next.map(at), "at {now} s");
            let kept = keeper.kept.lock();
            let is_kept = |client| kept.iter().any(|(one, _)| one == client);
            assert_eq!((is_kept(&seldom), is_kept(&busy)), are_kept, "at {now} s");
        }
        // Let go in truth, not only struck from the list: both can be kept again, and somebody has
        // to watch.
        assert!(busy.keep_connections());
        assert!(keeper.note(&seldom, at(100)));
    }

    #[test]
    fn the_task_lets_go_and_ends_and_begins_again() {
        let (crt, tokio) = (Runtime::new(&RuntimeOptions::default()).unwrap(), tokio());
        let keeper = Keeper::new(tokio.handle().clone(), Duration::from_millis(50));
        let client = client(&crt);
        for _ in 0..2 {
            keeper.used(&client);
            eventually(|| keeper.kept.lock().is_empty() && Arc::weak_count(&keeper) == 0);
        }
        assert!(client.keep_connections());
    }

    #[test]
    fn the_task_does_not_keep_a_client_alive() {
        let tokio = tokio();
        let crt = Runtime::new(&RuntimeOptions {
            count_memory: true,
            ..RuntimeOptions::default()
        });
        let crt = crt.unwrap();
        let bytes = crt.native_bytes().unwrap();
        let keeper = Keeper::new(tokio.handle().clone(), IDLE_MAX);
        keeper.used(&client(&crt));
        drop(keeper);
        drop(crt);
        eventually(|| bytes.load(Ordering::Relaxed) == 0);
    }
}
