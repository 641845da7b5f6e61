//! Any bytes as the answer to a request of the client, and a right answer behind them.

use std::sync::LazyLock;

use bytes::Bytes;
use parking_lot::Mutex;

use super::peer::{Peer, Script};
use super::scene::{Scene, key, part};
use crate::types::{Checksum, ETag, ListRequest, ObjectHeaders, PutCondition, PutRequest};
use crate::{ErrorKind, ObjectClient as _};

struct Stage {
    peer: Peer,
    scene: Scene,
}

static STAGE: LazyLock<Mutex<Stage>> = LazyLock::new(|| {
    let peer = Peer::start();
    let scene = Scene::new(peer.address, None);
    let stage = Stage { peer, scene };
    stage.answer_rightly();
    Mutex::new(stage)
});

/// An answer: the first byte chooses what is asked for, two say where the answer is cut into
/// pieces, the fourth whether the last piece is left out. The rest is the answer.
pub(super) fn http_answer(data: &[u8]) {
    let Some((&[operation, first, second, loss], answer)) = data.split_first_chunk() else {
        return;
    };
    let place = |cut: u8| answer.len() * usize::from(cut) / 256;
    let (first, second) = (place(first.min(second)), place(first.max(second)));
    let mut pieces = vec![&answer[..first], &answer[first..second]];
    pieces.extend((loss & 1 == 0).then_some(&answer[second..]));
    let pieces = pieces.into_iter().map(<[u8]>::to_vec).collect();
    let mut stage = STAGE.lock();
    stage.peer.play(Script { pieces });
    stage.ask(operation, answer);
    stage.scene.forget_throttling();
    stage.answer_rightly();
}

impl Stage {
    /// The next answer is the right one, and is read as such whatever came before.
    fn answer_rightly(&self) {
        let pieces = vec![RIGHT.to_vec()];
        self.peer.play(Script { pieces });
        let gets = (0..ATTEMPTS_MAX).map(|_| self.scene.get(part()));
        // The connection of the answer before may have closed just now.
        let mut others = gets.skip_while(
            |(_, outcome)| matches!(outcome, Err(error) if error.kind == ErrorKind::Transient),
        );
        let (block, outcome) = others.next().expect("a new connection works");
        let output = outcome.expect("a right answer is read");
        assert_eq!(output.object_size, 100);
        assert_eq!(block.bytes(0..10), b"0123456789");
    }

    fn ask(&self, operation: u8, answer: &[u8]) {
        let Self { scene, .. } = self;
        match operation.wrapping_sub(b'A') % 8 {
            0 => get(scene, answer),
            1 => first_bytes(scene, answer),
            2 => drop(scene.wait(scene.client.head(&key()))),
            3 => list(scene, answer),
            4 => drop(scene.wait(scene.client.delete(&key(), None))),
            5 => put(scene),
            6 => drop(scene.wait(scene.client.head_details(&key()))),
            _ => {
                let created = scene
                    .client
                    .create_upload(&key(), ObjectHeaders::default(), None);
                let created = scene.wait(created);
                assert!(created.is_err() || is_within(b"UploadId", answer));
            }
        }
    }
}

fn get(scene: &Scene, answer: &[u8]) {
    let (block, outcome) = scene.get(part());
    let shown = block.bytes(0..block.valid());
    assert!(is_within(shown, answer), "{shown:?}");
    // The head names the version and the range.
    let is_named = is_within(b"a", answer) && is_within(b"10-19/", answer);
    assert!(is_named || shown.is_empty(), "{shown:?}");
    if let Ok(output) = outcome {
        assert_eq!((shown.len(), output.object_size), (10, 100));
        assert_eq!(Some(output.etag), part().if_match);
    }
}

fn first_bytes(scene: &Scene, answer: &[u8]) {
    if let Ok(first) = scene.wait(scene.client.first_bytes(&key(), 9)) {
        let wanted = first.info.size.min(9);
        assert!(first.bytes.is_empty() || first.bytes.len() as u64 == wanted);
        assert!(is_within(&first.bytes, answer), "{first:?}");
    }
}

fn list(scene: &Scene, answer: &[u8]) {
    let request = ListRequest {
        prefix: "d/".to_owned(),
        delimiter: Some("/".to_owned()),
        ..ListRequest::default()
    };
    if let Ok(page) = scene.wait(scene.client.list(request)) {
        // The shortest entry is <Contents/>.
        let count = page.objects.len() + page.common_prefixes.len();
        assert!(count <= answer.len() / 10, "{page:?}");
    }
}

fn put(scene: &Scene) {
    let request = PutRequest {
        key: key(),
        body: Bytes::from_static(b"bytes"),
        condition: PutCondition::Absent,
        checksum: Some(Checksum::Crc32c(0xE306_9283)),
        headers: ObjectHeaders::default(),
    };
    if let Ok(output) = scene.wait(scene.client.put(request)) {
        assert_ne!(output.etag, ETag::none());
    }
}

/// Whether `bytes` come in `answer` one behind the other: a chunked body has others in between.
fn is_within(bytes: &[u8], answer: &[u8]) -> bool {
    let mut answer = answer.iter();
    bytes.iter().all(|byte| answer.any(|other| other == byte))
}

const RIGHT: &[u8] = b"HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\n\
    Content-Range: bytes 10-19/100\r\nETag: \"a\"\r\n\r\n0123456789";

const ATTEMPTS_MAX: usize = 5;
