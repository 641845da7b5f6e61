//! Requests as the kernel lays them out.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use proptest::prelude::*;

use super::fields::Content;
use super::mutation::Mutation;
use super::request::*;

/// A message as the kernel lays it out.
fn message(code: u32, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(40 + body.len()).unwrap();
    let mut bytes = Vec::new();
    bytes.extend(len.to_ne_bytes());
    bytes.extend(code.to_ne_bytes());
    bytes.extend(70_u64.to_ne_bytes());
    bytes.extend(9_u64.to_ne_bytes());
    for word in [1000_u32, 1001, 1002, 0] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend(body);
    bytes
}

/// Words of 64 bits, then words of 32 bits.
fn body(long: &[u64], short: &[u32]) -> Vec<u8> {
    let long = long.iter().flat_map(|word| word.to_ne_bytes());
    let short = short.iter().flat_map(|word| word.to_ne_bytes());
    long.chain(short).collect()
}

#[track_caller]
fn check(code: u32, body: &[u8], expected: &Operation<'_>) {
    let message = message(code, body);
    let request = Request::parse(&message).unwrap();
    assert_eq!(
        request.header,
        Header {
            unique: 70,
            node: 9,
            uid: 1000,
            gid: 1001,
            pid: 1002,
            wants_reply: ![2, 36, 41, 42].contains(&code),
        }
    );
    assert_eq!(&request.operation, expected);
}

#[test]
fn operations_are_parsed() {
    check(
        1,
        b"a b\0",
        &Operation::Lookup {
            name: OsStr::new("a b"),
        },
    );
    check(
        1,
        b"\xff\xfe\0",
        &Operation::Lookup {
            name: OsStr::from_bytes(b"\xff\xfe"),
        },
    );
    check(2, &body(&[3], &[]), &Operation::Forget { count: 3 });
    check(3, &body(&[0, 0], &[]), &Operation::GetAttributes);
    check(
        14,
        &body(&[], &[0x8000, 0]),
        &Operation::Open { flags: 0x8000 },
    );
    check(
        15,
        &body(&[5, 4096], &[131_072, 0]),
        &Operation::Read {
            handle: 5,
            offset: 4096,
            size: 131_072,
            fills_cache: true,
        },
    );
    check(
        15,
        &body(&[5, 4096], &[131_072, 2]),
        &Operation::Read {
            handle: 5,
            offset: 4096,
            size: 131_072,
            fills_cache: false,
        },
    );
    check(17, &[], &Operation::StatFs);
    check(
        18,
        &body(&[5, 0, 0], &[]),
        &Operation::Release { handle: 5 },
    );
    check(20, &body(&[5, 0], &[]), &Operation::Sync { handle: 5 });
    check(25, &body(&[5, 0, 0], &[]), &Operation::Flush { handle: 5 });
    check(27, &body(&[0], &[]), &Operation::OpenDirectory);
    let read_directory = |plus| Operation::ReadDirectory {
        handle: 6,
        offset: 2,
        size: 512,
        plus,
    };
    check(28, &body(&[6, 2], &[512, 0]), &read_directory(false));
    check(44, &body(&[6, 2], &[512, 0]), &read_directory(true));
    check(
        29,
        &body(&[6, 0, 0], &[]),
        &Operation::ReleaseDirectory { handle: 6 },
    );
    check(30, &body(&[6, 0], &[]), &Operation::SyncDirectory);
    check(36, &body(&[68], &[]), &Operation::Interrupt { unique: 68 });
    check(38, &[], &Operation::Destroy);
}

#[test]
fn extended_attributes() {
    let body = [&9_u32.to_ne_bytes()[..], &[0; 4], b"user.a\0"].concat();
    let name = OsStr::new("user.a");
    check(22, &body, &Operation::ExtendedAttribute { name, size: 9 });
    check(23, &body[..8], &Operation::ExtendedAttributes { size: 9 });
}

#[test]
fn writes_are_parsed() {
    let named = |short: &[u32]| [body(&[], short), b"new\0".to_vec()].concat();
    let name = OsStr::new("new");
    check(
        35,
        &named(&[0x8241, 0o100_644, 0o22, 0]),
        &Operation::Create {
            name,
            flags: 0x8241,
            mode: 0o100_644,
        },
    );
    check(
        8,
        &named(&[0o10_644, 0, 0o22, 0]),
        &Operation::MakeNode {
            name,
            mode: 0o10_644,
        },
    );
    let head = body(&[5, 4096], &[3, 0, 0, 0, 0x8001, 0]);
    let message = [head.as_slice(), b"abc"].concat();
    check(
        16,
        &message,
        &Operation::Write {
            handle: 5,
            offset: 4096,
            drops_set_id: false,
            is_direct: false,
            data: Content(b"abc"),
        },
    );
    // Less data than the request says.
    let message = self::message(16, &[head.as_slice(), b"ab"].concat());
    Request::parse(&message).unwrap_err();
}

#[test]
fn what_is_not_offered_is_sorted() {
    for code in [
        31,
        32,
        33,
        34,
        37,
        40,
        46,
        48,
        49,
        50,
        51,
        52,
        4096,
        u32::MAX,
    ] {
        check(code, &[], &Operation::Unsupported(Unsupported::Other));
    }
    check(5, &[], &Operation::ReadLink);
    check(39, &[], &Operation::Unsupported(Unsupported::Ioctl));
    check(41, &[], &Operation::Unsupported(Unsupported::NotifyReply));
    let unlink = Mutation::Unlink {
        name: OsStr::new("a"),
    };
    check(10, b"a\0", &Operation::Mutate(unlink));
}

#[test]
fn init_is_parsed_with_and_without_its_extension() {
    let init = |minor, flags| {
        Operation::Init(InitRequest {
            major: 7,
            minor,
            readahead_max: 131_072,
            flags,
        })
    };
    check(26, &body(&[], &[7, 31, 131_072, 0b1001]), &init(31, 0b1001));
    let mut extended = body(&[], &[7, 45, 131_072, 1 << 30 | 1, 1 << 4]);
    extended.extend([0; 44]);
    check(26, &extended, &init(45, 1 << 36 | 1 << 30 | 1));
    // The second word counts only if the first one says so.
    check(26, &body(&[], &[7, 35, 131_072, 1, 1 << 4]), &init(35, 1));
}

#[test]
fn forgets_come_in_pairs() {
    let mut bytes = body(&[], &[2, 0]);
    bytes.extend(body(&[11, 1, 12, 7], &[]));
    let message = message(42, &bytes);
    let Operation::BatchForget(forgets) = Request::parse(&message).unwrap().operation else {
        panic!("not a forget")
    };
    assert_eq!(forgets.iter().collect::<Vec<_>>(), [(11, 1), (12, 7)]);
}

#[test]
fn wrong_messages_are_refused() {
    let header = Some(Header {
        unique: 70,
        node: 9,
        uid: 1000,
        gid: 1001,
        pid: 1002,
        wants_reply: true,
    });
    assert_eq!(Request::parse(&[]).unwrap_err(), Malformed { header: None });
    assert_eq!(
        Request::parse(&message(1, b"a\0")[..39]).unwrap_err(),
        Malformed { header: None }
    );
    assert_eq!(
        Request::parse(&message(1, b"a")).unwrap_err(),
        Malformed { header }
    );
    assert_eq!(
        Request::parse(&message(1, b"\0")).unwrap_err(),
        Malformed { header }
    );
    assert_eq!(
        Request::parse(&message(1, b"a\0")[..41]).unwrap_err(),
        Malformed { header }
    );
    for (code, body) in [(2, 7), (15, 19), (26, 7), (28, 19), (36, 7), (42, 7)] {
        let message = message(code, &vec![0; body]);
        Request::parse(&message).unwrap_err();
    }
    // More pairs than the message has.
    let message = message(42, &body(&[1], &[u32::MAX, 0]));
    Request::parse(&message).unwrap_err();
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        drop(Request::parse(&bytes));
    }

    #[test]
    fn random_bodies_never_panic(code in 0_u32..60, body in proptest::collection::vec(any::<u8>(), 0..128)) {
        let message = message(code, &body);
        if let Ok(Request { operation: Operation::BatchForget(forgets), .. }) = Request::parse(&message) {
            forgets.iter().for_each(drop);
        }
    }
}
