//! Any document as the answer to a request that the SDK makes: uploads, copies, deletions of many.

use std::sync::LazyLock;

use parking_lot::Mutex;

use super::peer::{Peer, Script};
use super::scene::{Scene, key};
use crate::ObjectClient as _;
use crate::types::{
    CopyHeaders, CopySource, ETag, Key, ObjectHeaders, Part, PartNumber, PutCondition, Upload,
};

struct Stage {
    peer: Peer,
    scene: Scene,
}

static STAGE: LazyLock<Mutex<Stage>> = LazyLock::new(|| {
    let peer = Peer::start();
    let scene = Scene::new(peer.address, None);
    peer.play(answer(b"204", b""));
    scene
        .wait(scene.client.delete(&key(), None))
        .expect("a right answer is read");
    Mutex::new(Stage { peer, scene })
});

/// A document with its length: the first byte chooses what is asked for, three digits are the
/// status.
pub(super) fn document_answer(data: &[u8]) {
    let Some((&operation, rest)) = data.split_first() else {
        return;
    };
    let Some((status, document)) = rest.split_first_chunk::<3>() else {
        return;
    };
    let mut stage = STAGE.lock();
    stage.peer.play(answer(status, document));
    ask(&stage.scene, operation);
    stage.scene.forget_throttling();
}

fn answer(status: &[u8; 3], document: &[u8]) -> Script {
    let len = document.len();
    let head = format!(" -\r\nContent-Type: application/xml\r\nContent-Length: {len}\r\n\r\n");
    let pieces = vec![[b"HTTP/1.1 ", &status[..], head.as_bytes(), document].concat()];
    Script { pieces }
}

fn ask(scene: &Scene, operation: u8) {
    let client = &scene.client;
    match operation.wrapping_sub(b'A') % 8 {
        0 => {
            let created = client.create_upload(&key(), ObjectHeaders::default(), None);
            if let Ok(upload) = scene.wait(created) {
                assert!(!upload.upload_id.is_empty());
            }
        }
        1 => complete(scene),
        2 => parts(scene),
        3 => uploads(scene),
        4 => {
            let copied = client.copy_part(&upload(), PartNumber(1), source(), 0..9);
            if let Ok(part) = scene.wait(copied) {
                assert_ne!(part.etag, ETag::none());
            }
        }
        5 => {
            let headers = CopyHeaders::Same(ObjectHeaders::default());
            let copied = client.copy(source(), &key(), PutCondition::None, headers);
            if let Ok(output) = scene.wait(copied) {
                assert_ne!(output.etag, ETag::none());
            }
        }
        6 => {
            if let Ok(failures) = scene.wait(client.delete_many(vec![(key(), None)])) {
                assert!(failures.iter().all(|failure| failure.key == key()));
            }
        }
        _ => drop(scene.wait(client.head_bucket())),
    }
}

fn complete(scene: &Scene) {
    let part = Part {
        number: PartNumber(1),
        etag: ETag::from_header("e"),
        size: 4,
        checksum: None,
    };
    let completed = scene
        .client
        .complete_upload(&upload(), vec![part], PutCondition::None);
    if let Ok(output) = scene.wait(completed) {
        assert_ne!(output.etag, ETag::none());
    }
}

fn parts(scene: &Scene) {
    let Ok(parts) = scene.wait(scene.client.list_parts(&upload())) else {
        return;
    };
    for part in &parts {
        assert!((1..=10_000).contains(&part.number.0), "{parts:?}");
        assert_ne!(part.etag, ETag::none());
    }
    assert!(parts.is_sorted_by(|a, b| a.number < b.number), "{parts:?}");
}

fn uploads(scene: &Scene) {
    let Ok(uploads) = scene.wait(scene.client.list_uploads("d/")) else {
        return;
    };
    for Upload { key, upload_id } in &uploads {
        assert!(key.as_str().starts_with("d/"), "{uploads:?}");
        assert!(!upload_id.is_empty(), "{uploads:?}");
    }
}

fn upload() -> Upload {
    Upload {
        key: key(),
        upload_id: "u".to_owned(),
    }
}

fn source() -> CopySource {
    CopySource {
        key: Key::parse("source").expect("a possible key"),
        if_match: None,
    }
}
