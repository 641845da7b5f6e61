//! A small file that waits for its upload while nobody uses it: all that is left of it.
//!
//! Thousands of them may wait. A state with its parts takes 2 KB; at rest it is one piece of
//! memory, from which the state comes back as it was. What is not in it is empty in a file that
//! rests: no store and no commit runs, no bytes are on the disk, no failure has ended it.

use std::sync::Arc;

use mountpoint_client::types::{ETag, Key, ObjectHeaders, WriteToken};

use super::file_state::{Base, FileState, Recorded, StagedBase};
use super::packing::{Packer, Unpacker};
use super::parts::FileParts;
use crate::file::commit::{CommittedRecord, HeadersRecord};
use crate::file::contents::{Contents, DataFileNo, LocalRange};
use crate::file::context::StagingContext;
use crate::file::directory::DataFileName;
use crate::file::journal::{RecordId, RecordKey};
use crate::file::local::{DataFiles, RestingBytes, Share};
use crate::operation::Progress;
use crate::write::{Adopts, Stored};

/// A file at rest.
#[derive(Default)]
pub(super) struct Resting {
    /// The state, the numbers of its records, and the bytes.
    packed: Box<[u8]>,
    /// Memory for the bytes.
    share: Option<Share>,
}

impl Resting {
    /// What is left of a file that has no user; `None` if it must not rest.
    pub(super) fn of(parts: &FileParts) -> Option<Self> {
        let are_free = Arc::strong_count(&parts.files) == 1
            && Arc::strong_count(&parts.gate) == 1
            && Arc::strong_count(&parts.storing) == 1
            && Arc::strong_count(&parts.stop) == 1
            && Arc::strong_count(&parts.checkpoint) == 1;
        // Cheaper than the look at the state, for the many files that are too long.
        if !are_free || !parts.files.are_in_memory() {
            return None;
        }
        let mut packer = Packer::default();
        pack_state(&parts.state.lock(), &mut packer)?;
        if parts.checkpoint.is_in_use() {
            return None;
        }
        let RestingBytes {
            bytes,
            share,
            records,
        } = parts.files.rest(BYTES_MAX)?;
        records.iter().for_each(|number| packer.number(*number));
        packer.bytes(&bytes);
        Some(Self {
            packed: packer.packed(),
            share,
        })
    }

    /// Its state.
    pub(super) fn state(&self, name: DataFileName) -> FileState {
        unpack_state(&mut Unpacker(&self.packed), name)
    }

    /// The file with all its parts.
    pub(super) fn wake(
        self,
        context: &Arc<StagingContext>,
        name: DataFileName,
        progress: &Arc<Progress>,
    ) -> Arc<FileParts> {
        let mut unpacker = Unpacker(&self.packed);
        let state = unpack_state(&mut unpacker, name);
        let rested = RestingBytes {
            records: [unpacker.number(), unpacker.number()],
            // A copy of file data: few bytes, which nobody has used for a while.
            bytes: unpacker.bytes().to_vec(),
            share: self.share,
        };
        let directory = context.directory.as_ref().expect("committed files rest");
        let files = DataFiles::woken(directory, &context.file_memory, name, rested);
        FileParts::new(context, files, (state, None), Arc::clone(progress))
    }

    /// Bytes that it has besides its own.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.packed.len()
    }
}

/// Packs a state; `None` if its file must not rest.
fn pack_state(state: &FileState, packer: &mut Packer) -> Option<()> {
    let recorded = state.recorded.filter(|it| it.edits == state.edits)?;
    let CommittedRecord {
        id,
        description: None,
        number,
    } = recorded.record
    else {
        return None;
    };
    let waits = state.needs_store().is_ok_and(|needs_store| needs_store)
        && state.due_edits == 0
        && state.contents.sending().is_none()
        && state.contents.range_count() <= RANGES_MAX;
    let base = state.base.as_ref();
    // Its reader shares what it reads, and reads ahead: a file that is read keeps it.
    let is_needed = |base: &Base| base.is_leaving || base.is_read();
    if !waits || base.is_some_and(is_needed) {
        return None;
    }
    let headers = serde_json::to_vec(&HeadersRecord::from(state.headers.clone())).ok()?;
    packer.bytes(state.key.as_str().as_bytes());
    packer.bytes(state.series.as_str().as_bytes());
    packer.bytes(&headers);
    for number in [
        id.version,
        number,
        state.edits,
        state.edits_min,
        state.recovered,
        state.stored_edits,
        state.refusals.into(),
        state.failures.into(),
        state.is_timed.into(),
        state.may_be_stored.into(),
        number_of(state.adopts),
    ] {
        packer.number(number);
    }
    packer.bytes(state.last_failure.as_deref().unwrap_or_default().as_bytes());
    match &state.replaced {
        StagedBase::None => packer.number(0),
        StagedBase::Unasked => packer.number(1),
        StagedBase::Version(version) => {
            packer.number(2);
            pack_version(version, packer);
        }
    }
    packer.number(state.over.is_some().into());
    packer.number(state.over.map_or(0, |name| name.0));
    packer.number(base.is_some().into());
    if let Some(base) = base {
        pack_version(&base.version, packer);
        packer.number(base.is_sent.into());
    }
    pack_contents(&state.contents, packer)
}

/// The state of the file `name` as [`pack_state`] has packed it.
fn unpack_state(unpacker: &mut Unpacker<'_>, name: DataFileName) -> FileState {
    let key = Key::parse(unpacker.text()).expect("it was a key");
    let series = WriteToken::parse(unpacker.text()).expect("it was a token");
    let headers: HeadersRecord =
        serde_json::from_slice(unpacker.bytes()).expect("they were headers");
    let mut number = || unpacker.number();
    let id = RecordId {
        key: RecordKey(name.0),
        version: number(),
    };
    let record = CommittedRecord {
        id,
        description: None,
        number: number(),
    };
    let (edits, edits_min, recovered, stored_edits) = (number(), number(), number(), number());
    let (refusals, failures) = (small(number()), small(number()));
    let (is_timed, may_be_stored) = (number() > 0, number() > 0);
    let adopts = adopts_of(number());
    let last_failure = Some(unpacker.text().to_owned()).filter(|text| !text.is_empty());
    let replaced = match unpacker.number() {
        0 => StagedBase::None,
        1 => StagedBase::Unasked,
        _ => StagedBase::Version(unpack_version(unpacker)),
    };
    let has_over = unpacker.number() > 0;
    let over = Some(DataFileName(unpacker.number())).filter(|_| has_over);
    let has_base = unpacker.number() > 0;
    let base = has_base.then(|| {
        let mut base = Base::new(unpack_version(unpacker));
        base.is_sent = unpacker.number() > 0;
        base
    });
    let mut contents = unpack_contents(unpacker);
    contents.committed();
    FileState {
        contents,
        last_failure,
        adopts,
        replaced,
        over,
        may_be_stored,
        is_timed,
        edits,
        edits_min,
        recovered,
        stored_edits,
        refusals,
        failures,
        recorded: Some(Recorded { record, edits }),
        ..FileState::of(key, ObjectHeaders::from(headers), base, series)
    }
}

fn pack_version(version: &Stored, packer: &mut Packer) {
    packer.bytes(version.etag.as_str().as_bytes());
    packer.number(version.size);
}

fn unpack_version(unpacker: &mut Unpacker<'_>) -> Stored {
    Stored {
        etag: ETag::from_header(unpacker.text()),
        size: unpacker.number(),
    }
}

/// Packs contents; `None` if some are in the second data file.
fn pack_contents(contents: &Contents, packer: &mut Packer) -> Option<()> {
    let now = contents.now();
    packer.number(now.size());
    packer.number(now.base_len());
    packer.number(now.range_count() as u64);
    for local in now.local() {
        packer.number(local.range.start);
        packer.number(local.range.end - local.range.start);
        let place = match local.place {
            None => 0,
            Some(DataFileNo::First) => 1,
            Some(DataFileNo::Second) => return None,
        };
        packer.number(place);
        packer.number(local.is_in_base.into());
    }
    Some(())
}

fn unpack_contents(unpacker: &mut Unpacker<'_>) -> Contents {
    let (size, base_len, count) = (unpacker.number(), unpacker.number(), unpacker.number());
    let local = (0..count).map(|_| {
        let (start, len) = (unpacker.number(), unpacker.number());
        LocalRange {
            range: start..start + len,
            place: (unpacker.number() > 0).then_some(DataFileNo::First),
            is_in_base: unpacker.number() > 0,
        }
    });
    Contents::restored(size, base_len, local)
}

fn number_of(adopts: Adopts) -> u64 {
    match adopts {
        Adopts::Nothing => 0,
        Adopts::Empty => 1,
        Adopts::Any => 2,
    }
}

fn adopts_of(number: u64) -> Adopts {
    match number {
        0 => Adopts::Nothing,
        1 => Adopts::Empty,
        _ => Adopts::Any,
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).expect("it was a small number")
}

/// Bytes of a file that rests. The state of a larger one takes less than they do.
const BYTES_MAX: usize = 4 << 10;

/// Local ranges of a file that rests.
const RANGES_MAX: usize = 16;
