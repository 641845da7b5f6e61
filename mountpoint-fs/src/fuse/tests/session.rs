//! Whole sessions against a kernel made of a socket, over a bucket in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use mountpoint_client::testing::sim::{Operation, SimOptions, Time};
use mountpoint_client::{ErrorKind, SimClient};
use proptest::prelude::*;

use super::kernel::Kernel;
use super::served::{
    ACCESS, DESTROY, FLUSH, FORGET, GETATTR, GETXATTR, INIT, INTERRUPT, LOOKUP, OPEN, OPENDIR,
    READ, READDIR, READDIRPLUS, READLINK, RELEASE, RELEASEDIR, ROOT, SESSIONS, SETATTR, STATFS,
    Served, UNLINK, c_string, check_both, file_system, names, open_to_all, read_in, release_in,
    served_by, session_options, u32_at, u64_at, words,
};
use crate::fuse::allowed_users::AllowedUsers;
use crate::fuse::{Mount, Session, SessionError, SessionOptions, Transport};

#[test]
fn names_and_attributes() {
    check_both(Time::Immediate, check_names_and_attributes);
}

fn check_names_and_attributes(mut served: Served) {
    served.client.put_object("a/file", "12345");
    let directory = served.lookup(ROOT, "a");
    let answered = served.ask(LOOKUP, directory, &c_string("file"));
    let file = u64_at(&answered.body, 0);
    assert_eq!(answered.body.len(), 128);
    assert_eq!(u64_at(&answered.body, 40), file, "ino");
    assert_eq!(u64_at(&answered.body, 48), 5, "size");
    assert_eq!(u32_at(&answered.body, 100), 0o100_640, "mode");
    let attributes = served.ask(GETATTR, file, &[0; 16]);
    assert_eq!((attributes.errno, attributes.body.len()), (0, 104));
    assert_eq!(u64_at(&attributes.body, 24), 5, "size");
    assert_eq!(u32_at(&attributes.body, 84), 1000, "uid");
    served.check(LOOKUP, ROOT, &c_string("missing"), libc::ENOENT);
    served.check(LOOKUP, file, &c_string("x"), libc::ENOTDIR);
    served.check(
        LOOKUP,
        ROOT,
        &c_string(&"x".repeat(256)),
        libc::ENAMETOOLONG,
    );
    assert_eq!(served.fs.inode_count(), 2);
    // Forgetting has no reply; the next request shows that it was served.
    served.send(FORGET, file, &1_u64.to_ne_bytes());
    served.send(FORGET, directory, &1_u64.to_ne_bytes());
    while served.fs.inode_count() > 0 {
        thread::yield_now();
    }
    served.end();
}

#[test]
fn directories() {
    check_both(Time::Immediate, check_directories);
}

fn check_directories(mut served: Served) {
    for index in 0..50 {
        served.client.put_object(&format!("name-{index:02}"), "x");
    }
    let handle = u64_at(&served.ask(OPENDIR, ROOT, &[0; 8]).body, 0);
    let mut seen = BTreeMap::new();
    let mut offset = 0;
    loop {
        let answered = served.ask(READDIR, ROOT, &read_in(handle, offset, 256));
        assert_eq!(answered.errno, 0);
        assert!(answered.body.len() <= 256);
        let Some((_, last, _)) = names(&answered.body).last().cloned() else {
            break;
        };
        offset = last;
        for (name, _, ino) in names(&answered.body) {
            assert_eq!(seen.insert(name, ino), None);
        }
    }
    assert_eq!(seen.len(), 52);
    assert!(seen.contains_key(".") && seen.contains_key(".."));
    served.check(RELEASEDIR, ROOT, &release_in(handle), 0);
    served.check(READDIR, ROOT, &read_in(handle, 0, 256), libc::EBADF);
    served.end();
}

#[test]
fn directories_with_attributes_count_lookups_of_what_fits() {
    for transport in SESSIONS {
        check_directories_with_attributes(transport);
    }
}

fn check_directories_with_attributes(transport: Transport) {
    let mut served = served_by(transport, Time::Immediate);
    for name in ["a", "b", "c", "d"] {
        served.client.put_object(name, "x");
    }
    let handle = u64_at(&served.ask(OPENDIR, ROOT, &[0; 8]).body, 0);
    // `.`, `..` and two of the names.
    let answered = served.ask(READDIRPLUS, ROOT, &read_in(handle, 0, 4 * 160 + 159));
    assert_eq!(answered.body.len(), 4 * 160);
    // The library tells attributes of `.`, too, of which the kernel makes nothing.
    let dot = if transport == Transport::Fuser { 1 } else { 0 };
    assert_eq!(u64_at(&answered.body, 0), dot, "no entry for .");
    assert_ne!(u64_at(&answered.body, 2 * 160), 0);
    assert_eq!(served.fs.inode_count(), 2);
    served.check(RELEASEDIR, ROOT, &release_in(handle), 0);
    served.end();
}

#[test]
fn what_changes_the_bucket_is_refused() {
    for (read_only, unlink, setattr, open) in [
        (false, libc::EPERM, libc::EPERM, libc::EPERM),
        (true, libc::EROFS, libc::EROFS, libc::EROFS),
    ] {
        let change = |options: &mut SessionOptions| options.read_only = read_only;
        let mut served = Served::with(Time::Immediate, change, open_to_all);
        served.client.put_object("f", "x");
        let file = served.lookup(ROOT, "f");
        served.check(UNLINK, ROOT, &c_string("f"), unlink);
        served.check(SETATTR, file, &setattr_in(libc::S_IFREG | 0o600), setattr);
        served.check(
            OPEN,
            file,
            &words(&[libc::O_WRONLY.cast_unsigned(), 0]),
            open,
        );
        served.end();
    }
}

/// `fuse_setattr_in` of a `chmod`.
fn setattr_in(mode: u32) -> Vec<u8> {
    let mut body = vec![0; 88];
    body[0] = 1;
    body[68..72].copy_from_slice(&mode.to_ne_bytes());
    body
}

#[test]
fn what_does_not_exist_is_said_so() {
    let mut served = Served::new(Time::Immediate);
    served.check(ACCESS, ROOT, &[0; 8], libc::ENOSYS);
    let capability = [&[0; 8], &c_string("security.capability")[..]].concat();
    served.check(GETXATTR, ROOT, &capability, libc::EOPNOTSUPP);
    served.check(9999, ROOT, &[], libc::ENOSYS);
    served.check(5, ROOT, &[], libc::EINVAL);
    served.check(39, ROOT, &[0; 32], libc::ENOTTY);
    served.check(FLUSH, ROOT, &[0; 24], libc::EBADF);
    served.check(RELEASE, ROOT, &release_in(77), 0);
    served.check(DESTROY, 0, &[], 0);
    let statfs = served.ask(STATFS, ROOT, &[]);
    assert_eq!((statfs.errno, statfs.body.len()), (0, 80));
    served.end();
}

#[test]
fn an_operation_that_waits_blocks_no_other() {
    check_both(Time::Manual, check_waiting_operations);
}

fn check_waiting_operations(mut served: Served) {
    for index in 0..20 {
        served.client.put_object(&format!("n{index}"), "x");
    }
    // More than there are session threads.
    let waiting: Vec<_> = (0..20)
        .map(|index| served.send(LOOKUP, ROOT, &c_string(&format!("n{index}"))))
        .collect();
    served.check(STATFS, ROOT, &[], 0);
    while served.session.operations_in_progress() < waiting.len() {
        thread::yield_now();
    }
    served.client.deliver_all();
    let mut answered: Vec<_> = waiting
        .iter()
        .map(|_| served.kernel.answered().unique)
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, waiting);
    served.kernel.check_silent();
    served.end();
}

#[test]
fn a_signal_ends_a_waiting_operation() {
    let mut served = Served::new(Time::Manual);
    let lookup = served.send(LOOKUP, ROOT, &c_string("slow"));
    served
        .kernel
        .request(INTERRUPT, lookup | 1, 0, &lookup.to_ne_bytes());
    let answered = served.kernel.answered();
    assert_eq!((answered.unique, answered.errno), (lookup, libc::EINTR));
    served.client.deliver_all();
    served.check(STATFS, ROOT, &[], 0);
    served.kernel.check_silent();
    assert_eq!(served.fs.inode_count(), 0);
    served.end();
}

#[test]
fn shutdown_answers_what_still_waits() {
    check_both(Time::Manual, check_shutdown);
}

fn check_shutdown(mut served: Served) {
    let lookup = served.send(LOOKUP, ROOT, &c_string("slow"));
    while served.session.operations_in_progress() == 0 {
        thread::yield_now();
    }
    served.session.abort_pending();
    let answered = served.kernel.answered();
    assert_eq!((answered.unique, answered.errno), (lookup, libc::EIO));
    served.end();
}

#[test]
fn the_end_of_the_connection_drops_what_waits() {
    check_both(Time::Manual, check_end_of_connection);
}

fn check_end_of_connection(mut served: Served) {
    served.send(LOOKUP, ROOT, &c_string("slow"));
    while served.session.operations_in_progress() == 0 {
        thread::yield_now();
    }
    served.end();
}

#[test]
fn a_mount_is_for_those_that_it_is_meant_for() {
    let denied = libc::EACCES;
    let (with_root, alone) = (AllowedUsers::OwnerAndRoot(1000), AllowedUsers::Owner(1000));
    check_allowed_users(with_root, [(0, 0), (1000, 0), (1001, denied)]);
    check_allowed_users(alone, [(0, denied), (1000, 0), (1001, denied)]);
    check_allowed_users(AllowedUsers::All, [(0, 0), (1000, 0), (1001, 0)]);
}

fn check_allowed_users(allowed_users: AllowedUsers, users: [(u32, i32); 3]) {
    let mount = |device| Mount::from_device(device, allowed_users);
    let served = Served::with(Time::Immediate, |_| (), mount);
    served.client.put_object("f", "x");
    for (uid, errno) in users {
        for (opcode, body) in [
            (LOOKUP, c_string("f")),
            (GETATTR, vec![0; 16]),
            (OPENDIR, vec![0; 8]),
            (STATFS, vec![]),
            (READLINK, vec![]),
        ] {
            // Nothing here is a link, which is not told to everybody.
            let of_no_link = opcode == READLINK && errno == 0;
            let errno = if of_no_link { libc::EINVAL } else { errno };
            served.kernel.request_as(uid, opcode, 100, ROOT, &body);
            assert_eq!(
                served.kernel.answered().errno,
                errno,
                "{allowed_users:?}: opcode {opcode} of user {uid}"
            );
        }
        // Open files may be used and closed by every process that inherited them.
        served
            .kernel
            .request_as(uid, RELEASE, 100, ROOT, &release_in(1));
        assert_eq!(served.kernel.answered().errno, 0);
    }
    served.end();
}

#[test]
fn failures_of_the_store_reach_the_application() {
    let mut served = Served::new(Time::Immediate);
    for (kind, errno) in [
        (ErrorKind::Denied, libc::EACCES),
        (ErrorKind::Transient, libc::EIO),
    ] {
        served
            .client
            .fail_next(Operation::HeadObject, 1, kind.clone());
        served.client.fail_next(Operation::ListObjectsV2, 1, kind);
        served.check(LOOKUP, ROOT, &c_string("f"), errno);
        served.client.clear_faults();
    }
    served.end();
}

#[test]
fn malformed_requests_are_answered_where_somebody_waits() {
    let mut served = Served::new(Time::Immediate);
    served.kernel.send(b"short");
    served.check(LOOKUP, ROOT, b"no end", libc::EIO);
    served.check(READ, ROOT, &[0; 3], libc::EIO);
    served.check(INIT, 0, &[0; 3], libc::EIO);
    // A second INIT.
    served.check(INIT, 0, &words(&[7, 45, 0, 0]), libc::EIO);
    served.send(FORGET, ROOT, &[0; 3]);
    served.check(STATFS, ROOT, &[], 0);
    served.kernel.check_silent();
    served.end();
}

#[test]
fn old_and_new_kernels() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let start = |messages: &[&[u32]]| {
        let (kernel, device) = Kernel::pair();
        for (index, message) in (1..).zip(messages) {
            kernel.request(INIT, index * 2, 0, &words(message));
        }
        let client = Arc::new(SimClient::new(SimOptions::default()));
        let mount = open_to_all(device);
        let session = Session::start(
            file_system(&client, false),
            &mount,
            session_options(&runtime),
        );
        (session, kernel)
    };
    let (session, kernel) = start(&[&[7, 19, 0, 0]]);
    assert!(matches!(
        session,
        Err(SessionError::TooOld {
            major: 7,
            minor: 19
        })
    ));
    assert_eq!(kernel.answered().errno, libc::EPROTO);
    // A newer kernel learns which version is spoken here, and asks again.
    let (session, kernel) = start(&[&[8, 1], &[7, 45, 0, 0]]);
    assert_eq!(u32_at(&kernel.answered().body, 0), 7);
    assert_eq!(kernel.answered().body.len(), 64);
    drop(kernel);
    session.unwrap().wait();
}

#[test]
fn a_connection_that_never_begins() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let (kernel, device) = Kernel::pair();
    drop(kernel);
    let client = Arc::new(SimClient::new(SimOptions::default()));
    let mount = open_to_all(device);
    let session = Session::start(
        file_system(&client, false),
        &mount,
        session_options(&runtime),
    );
    assert!(matches!(session, Err(SessionError::Ended)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_messages_never_end_the_session(
        messages in proptest::collection::vec((0_u32..60, 0_u64..4, proptest::collection::vec(any::<u8>(), 0..96)), 1..20)
    ) {
        let mut served = Served::new(Time::Immediate);
        served.client.put_object("f", "x");
        for (opcode, node, body) in messages {
            if opcode != INTERRUPT {
                served.send(opcode, node, &body);
            }
        }
        let last = served.send(STATFS, ROOT, &[]);
        while served.kernel.answered().unique != last {}
        served.end();
    }
}

#[test]
fn names_need_not_be_utf8() {
    let mut served = Served::new(Time::Immediate);
    let answered = served.ask(LOOKUP, ROOT, b"\xff\xfe\0");
    assert!(
        matches!(answered.errno, libc::EINVAL | libc::ENOENT),
        "{answered:?}"
    );
    served.end();
}
