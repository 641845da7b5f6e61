//! Objects of the shared bucket, which others may have written.

use std::sync::Arc;

use mountpoint_client::GetObserver as _;
use mountpoint_client::types::{ETag, GetOutput, Key};
use mountpoint_crt_sys::block::BlockPool;

use super::extent::SharedExtent;
use super::format::{Assembly, ExtentName, ExtentPlace, FRAME_BYTES, HeldBytes, divide};
use super::receive::{FillObserver, Receiver};
use crate::cache::StoreId;
use crate::cache::identity::CachedVersion;
use crate::operation::Slices;

/// A read of an object that has a known byte at each offset: two bytes for its size, two for where
/// the read begins, two for its length, one for how much comes at once; then changes of the stored
/// form, each two bytes for its place and one to be added.
pub(crate) fn read(data: &[u8]) {
    let Some(([size, size_high, start, start_high, len, len_high, cut], changes)) =
        data.split_first_chunk::<7>()
    else {
        return;
    };
    let number = |low: &u8, high: &u8| u64::from(u16::from_le_bytes([*low, *high]));
    let size = number(size, size_high) + 1;
    let start = number(start, start_high) % size;
    let end = (start + number(len, len_high) + 1).min(size);
    let place = ExtentPlace::at(start, size);
    let name = ExtentName::of(&version(size), &place);
    let mut stored = stored(&place, &name);
    let whole = place.stored_range(&(start..end));
    let whole = usize::try_from(whole.start).unwrap()..usize::try_from(whole.end).unwrap();
    let mut is_changed = false;
    for [low, high, change] in changes.as_chunks::<3>().0 {
        let at = usize::try_from(number(low, high)).unwrap() % stored.len();
        stored[at] = stored[at].wrapping_add(*change);
        is_changed |= *change != 0 && whole.contains(&at);
    }
    let pool = BlockPool::new(0);
    let mut source = pool.allocate(whole.len());
    let fill = pool.allocate(usize::try_from(end - start).unwrap());
    let extent = SharedExtent::new(place, name);
    let (receiver, mut received) = Receiver::new(
        &extent,
        start..end,
        source.block(),
        fill,
        (Arc::new(Reader), &crate::clock::Clock::manual()),
    );
    for piece in stored[whole].chunks(usize::from(*cut) * FRAME_BYTES / 100 + 100) {
        source.append(piece);
        receiver.progressed();
    }
    let (etag, object_size) = (ETag::none(), 0);
    receiver.finished(Ok(GetOutput { etag, object_size }));
    let received = received.try_recv().unwrap();
    for (at, byte) in (start..).zip(received.fill.bytes()) {
        assert_eq!(*byte, byte_at(at));
    }
    let is_full = received.fill.filled() == received.fill.capacity();
    // Changes may undo each other.
    assert!(is_changed || is_full);
    assert_ne!(received.is_damaged, is_full);
}

/// An object's size and a range of it: each of its bytes is in one extent.
pub(crate) fn places(data: &[u8]) {
    let Some((numbers, _)) = data.as_chunks::<8>().0.split_first_chunk::<3>() else {
        return;
    };
    let [size, start, len] = numbers.map(u64::from_le_bytes);
    if start >= size {
        return;
    }
    let end = start.saturating_add(len % (1 << 30)).min(size);
    let mut at = start;
    for part in divide(&(start..end), size) {
        assert!(part.start == at && part.end > at);
        at = part.end;
        let place = ExtentPlace::at(part.start, size);
        assert!(place.range.start <= part.start && part.end <= place.range.end);
        assert_eq!(ExtentPlace::at(part.end - 1, size), place);
        let stored = place.stored_range(&part);
        assert!(stored.start < stored.end && stored.end <= place.stored_len());
    }
    assert_eq!(at, end);
}

/// The stored form of an extent.
fn stored(place: &ExtentPlace, name: &ExtentName) -> Vec<u8> {
    let pool = BlockPool::new(0);
    let bytes: Vec<u8> = place.range.clone().map(byte_at).collect();
    let mut fill = pool.allocate(bytes.len());
    fill.append(&bytes);
    let held = HeldBytes::default();
    let mut assembly = Assembly::new(&held);
    let mut slices = Slices::new();
    slices.push((fill.block(), 0..bytes.len()));
    assembly.add(&place.range, slices);
    let mut body = pool.allocate(usize::try_from(place.stored_len()).unwrap());
    assembly.seal_into(place, &name.seed, &mut body);
    body.bytes().to_vec()
}

fn byte_at(at: u64) -> u8 {
    u8::try_from(at % 249).unwrap()
}

fn version(size: u64) -> CachedVersion {
    CachedVersion {
        store: StoreId::default(),
        key: Key::parse("key").unwrap(),
        etag: ETag::from_header("1"),
        size,
    }
}

struct Reader;

impl FillObserver for Reader {
    fn filled_more(&self) {}

    fn is_awaited_here(&self) -> bool {
        true
    }

    fn is_late(&self) -> bool {
        false
    }
}
