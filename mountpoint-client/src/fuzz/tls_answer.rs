//! Any bytes in the place of a handshake, and records that somebody tampers with.

use std::sync::LazyLock;

use parking_lot::Mutex;

use super::scene::{Scene, key};
use super::tls_peer::{AUTHORITY, Tampering, TlsPeer};
use crate::ErrorKind;
use crate::types::{ETag, GetRequest, Priority};

struct Stage {
    peer: TlsPeer,
    scene: Scene,
    object: Vec<u8>,
}

static STAGE: LazyLock<Mutex<Stage>> = LazyLock::new(|| {
    let object: Vec<u8> = (0..=u8::MAX).cycle().take(OBJECT_LEN).collect();
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {OBJECT_LEN}\r\nETag: \"a\"\r\n\
         Content-Range: bytes 0-{}/{OBJECT_LEN}\r\n\r\n",
        OBJECT_LEN - 1
    );
    let peer = TlsPeer::start([head.as_bytes(), &object].concat());
    let scene = Scene::new(peer.address, Some(AUTHORITY));
    let stage = Stage {
        peer,
        scene,
        object,
    };
    stage.read_rightly();
    Mutex::new(stage)
});

/// The first byte chooses: bytes in the place of a handshake, in two pieces; or changes of the
/// records of TLS 1.3 or TLS 1.2.
pub(super) fn tls_answer(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else {
        return;
    };
    let is_raw = kind % 3 == 0;
    // Records that are cut in two, and otherwise as they were.
    let is_harmless = !is_raw
        && rest
            .chunks(2)
            .all(|change| matches!(change[0] % 8, 0 | 5 | 7));
    let tampering = match kind % 3 {
        0 => {
            let (first, second) = rest.split_at(rest.len() / 2);
            Tampering::Raw(vec![first.to_vec(), second.to_vec()])
        }
        version => Tampering::Records {
            is_tls12: version == 2,
            changes: rest.to_vec(),
        },
    };
    let stage = STAGE.lock();
    stage.peer.play(tampering);
    let outcome = stage.read();
    assert!(!is_raw || outcome.is_err(), "{outcome:?}");
    let may_fail = !is_harmless || outcome == Err(ErrorKind::Transient);
    assert!(may_fail || outcome.is_ok(), "{outcome:?}");
    stage.read_rightly();
}

impl Stage {
    /// Whatever is shown of the object are its bytes.
    fn read(&self) -> Result<(), ErrorKind> {
        let request = GetRequest {
            key: key(),
            range: 0..OBJECT_LEN as u64,
            if_match: Some(ETag::from_header("\"a\"")),
            object_size: Some(OBJECT_LEN as u64),
            priority: Priority::Foreground,
        };
        let (block, outcome) = self.scene.get(request);
        let shown = block.valid();
        assert!(block.bytes(0..shown) == &self.object[..shown], "{shown}");
        assert!(outcome.is_err() || shown == OBJECT_LEN, "{outcome:?}");
        outcome.map(drop).map_err(|error| error.kind)
    }

    /// Without tampering the object is read, whatever came before.
    fn read_rightly(&self) {
        self.peer.play(Tampering::Records {
            is_tls12: false,
            changes: Vec::new(),
        });
        // The connection of the answer before may have closed just now.
        let mut reads = (0..ATTEMPTS_MAX).map(|_| self.read());
        let read = reads.find(|read| *read != Err(ErrorKind::Transient));
        assert_eq!(read, Some(Ok(())));
    }
}

/// Ten records.
const OBJECT_LEN: usize = 20_000;
const ATTEMPTS_MAX: usize = 5;
