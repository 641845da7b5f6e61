//! The bytes of a staged file, from where they are: data files, the base, or nowhere.

use std::ops::Range;
use std::sync::Arc;

use mountpoint_crt_sys::block::BlockFill;

use super::contents::{DataFileNo, Piece, Source};
use super::context::{StagingContext, ZEROS_LEN};
use super::local::DataFiles;
use crate::config::limits::WRITE_SIZE_MAX;
use crate::operation::{FsError, ReadData};
use crate::read::Reader;
use crate::write::{CopiedRange, PartBody, PartBuffer, SUMMED_AT_ONCE};

/// The places of a staged file's bytes.
#[derive(Clone, Debug)]
pub(in crate::file) struct ByteSources {
    pub(in crate::file) files: Arc<DataFiles>,
    /// The reader of the base; `None` without a base.
    pub(in crate::file) base: Option<Reader>,
    /// Objects that the server copies, each as a whole.
    pub(in crate::file) copied: Arc<Vec<CopiedRange>>,
}

/// Reads `pieces`, which are one range in order. `fills_cache` tells that the kernel asks for
/// pages.
pub(in crate::file) async fn read(
    context: &Arc<StagingContext>,
    sources: &ByteSources,
    pieces: Vec<Piece>,
    fills_cache: bool,
) -> Result<ReadData, FsError> {
    if pieces.len() > SLICES_MAX {
        return read_together(context, sources, pieces, fills_cache).await;
    }
    let mut data = ReadData::default();
    for piece in &pieces {
        read_piece(context, sources, piece, fills_cache, &mut data).await?;
    }
    Ok(data)
}

/// The bytes of `range`, which has these `pieces`, as the body of a request without a copy: if they
/// are a chunk in memory, or the beginning of one.
pub(in crate::file) async fn body_in_memory(
    context: &Arc<StagingContext>,
    sources: &ByteSources,
    pieces: &[Piece],
    range: Range<u64>,
) -> Result<Option<PartBody>, FsError> {
    let files = &sources.files;
    let Some(Source::Local(file)) = pieces.first().map(|piece| piece.source) else {
        return Ok(None);
    };
    if !files.have_no_disk()
        || pieces
            .iter()
            .any(|piece| piece.source != Source::Local(file))
    {
        return Ok(None);
    }
    let is_short = range.end - range.start <= SUMMED_INLINE_MAX;
    let body = files.body(file, &range, is_short);
    if body.is_some() || is_short {
        return Ok(body);
    }
    let files = Arc::clone(files);
    context
        .on_disk(move || Ok(files.body(file, &range, true)))
        .await
}

/// Reads `pieces`, which are one range in order, into `part`.
pub(in crate::file) async fn read_part(
    context: &Arc<StagingContext>,
    sources: &ByteSources,
    pieces: Vec<Piece>,
    mut part: PartBuffer,
) -> Result<PartBuffer, FsError> {
    let mut pieces = pieces.into_iter().peekable();
    while let Some(first) = pieces.next() {
        if is_remote(&first) {
            part = read_remote(context, sources, &first, part).await?;
            continue;
        }
        let mut run = vec![first];
        while let Some(next) = pieces.next_if(|piece| !is_remote(piece)) {
            run.push(next);
        }
        let steps = run.iter().flat_map(|piece| {
            let starts = piece.range.clone().step_by(SUMMED_AT_ONCE);
            let end = |at| piece.range.end.min(at + SUMMED_AT_ONCE as u64);
            starts.map(move |at| (piece.source, at..end(at)))
        });
        let steps: Vec<_> = steps.collect();
        for steps in steps.chunks(STEPS_AT_ONCE) {
            part = read_steps(context, sources, steps.to_vec(), part).await?;
        }
    }
    Ok(part)
}

/// Reads ranges of data files, and zeros, into `part`. The sum takes time that no thread of the
/// network or the kernel has, even for bytes that are in memory.
async fn read_steps(
    context: &Arc<StagingContext>,
    sources: &ByteSources,
    steps: Vec<(Source, Range<u64>)>,
    mut part: PartBuffer,
) -> Result<PartBuffer, FsError> {
    let files = Arc::clone(&sources.files);
    let zeros = context.zeros();
    let len: u64 = steps.iter().map(|(_, range)| range.end - range.start).sum();
    let is_quick = len <= SUMMED_INLINE_MAX && files.have_no_disk();
    let job = move || {
        for (source, range) in steps {
            let local = |error: std::io::Error| files.error(&error);
            let append = |fill: &mut BlockFill| match source {
                Source::Local(file) => files.read(file, &range, fill).map_err(local),
                Source::Zeros => {
                    let len = usize::try_from(range.end - range.start).expect("it is a step");
                    fill.append(zeros.bytes(0..len));
                    Ok(())
                }
                Source::Base | Source::Copied(_) => unreachable!("it is read from the bucket"),
                Source::Sent => Err(is_sent()),
            };
            part.append(append)?;
        }
        Ok(part)
    };
    match is_quick {
        true => job(),
        false => context.on_disk(job).await,
    }
}

/// Whether the bytes are read from the bucket.
fn is_remote(piece: &Piece) -> bool {
    matches!(piece.source, Source::Base | Source::Copied(_))
}

/// Reads a range of an object into `part`, a READ at a time.
async fn read_remote(
    context: &Arc<StagingContext>,
    sources: &ByteSources,
    piece: &Piece,
    mut part: PartBuffer,
) -> Result<PartBuffer, FsError> {
    let mut at = piece.range.start;
    while at < piece.range.end {
        let range = at..piece.range.end.min(at + WRITE_SIZE_MAX as u64);
        at = range.end;
        let step = Piece {
            range,
            ..piece.clone()
        };
        let mut data = ReadData::default();
        read_piece(context, sources, &step, false, &mut data).await?;
        let job = move || {
            for (block, range) in data.slices {
                let append = |fill: &mut BlockFill| {
                    // A copy of file data: the network's buffers hold no whole part.
                    fill.append(block.bytes(range));
                    Ok::<_, FsError>(())
                };
                part.append(append)?;
            }
            Ok(part)
        };
        part = match sources.files.have_no_disk() {
            true => job()?,
            false => context.on_disk(job).await?,
        };
    }
    Ok(part)
}

/// Adds the bytes of `piece` to `data`.
async fn read_piece(
    context: &Arc<StagingContext>,
    sources: &ByteSources,
    piece: &Piece,
    fills_cache: bool,
    data: &mut ReadData,
) -> Result<(), FsError> {
    match piece.source {
        Source::Local(file) => {
            let fill = context.block(piece.len()).await;
            let fill = read_local(context, sources, (file, piece), fill).await?;
            data.slices.push((fill.block(), 0..fill.filled()));
        }
        Source::Zeros => {
            let mut left = usize::try_from(piece.len()).unwrap_or(usize::MAX);
            while left > 0 {
                let len = left.min(ZEROS_LEN);
                data.slices.push((context.zeros(), 0..len));
                left -= len;
            }
        }
        Source::Sent => return Err(is_sent()),
        Source::Base | Source::Copied(_) => {
            let (reader, start) = match piece.source {
                Source::Copied(place) => {
                    let object = sources.copied.get(place.object()).ok_or_else(no_base)?;
                    let CopiedRange {
                        key,
                        etag,
                        object_size,
                        ..
                    } = object;
                    let reader = Reader::shared(&context.reading, key, etag, *object_size);
                    (reader, place.of(&piece.range).start)
                }
                _ => (sources.base.clone().ok_or_else(no_base)?, piece.range.start),
            };
            let len = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            let read = reader.read_for(start, len, fills_cache).await?;
            if read.len() as u64 != piece.len() {
                return Err(FsError::Stale(
                    "the object is shorter than it was".to_owned(),
                ));
            }
            data.slices.extend(read.slices);
        }
    }
    Ok(())
}

/// Reads many small pieces into one block: a reply has a limited number of slices.
async fn read_together(
    context: &Arc<StagingContext>,
    sources: &ByteSources,
    pieces: Vec<Piece>,
    fills_cache: bool,
) -> Result<ReadData, FsError> {
    let mut fill = context.block(pieces.iter().map(Piece::len).sum()).await;
    for piece in &pieces {
        if let Source::Local(file) = piece.source {
            fill = read_local(context, sources, (file, piece), fill).await?;
            continue;
        }
        let mut data = ReadData::default();
        read_piece(context, sources, piece, fills_cache, &mut data).await?;
        for (block, range) in data.slices {
            // A copy of file data: a few bytes between changed ones.
            fill.append(block.bytes(range));
        }
    }
    let mut data = ReadData::default();
    data.slices.push((fill.block(), 0..fill.filled()));
    Ok(data)
}

async fn read_local(
    context: &Arc<StagingContext>,
    sources: &ByteSources,
    (file, piece): (DataFileNo, &Piece),
    mut fill: BlockFill,
) -> Result<BlockFill, FsError> {
    let (files, range) = (Arc::clone(&sources.files), piece.range.clone());
    match files.read_memory(file, &range, &mut fill) {
        Ok(true) => return Ok(fill),
        Ok(false) => {}
        Err(error) => return Err(files.error(&error)),
    }
    context
        .on_disk(move || match files.read(file, &range, &mut fill) {
            Ok(()) => Ok(fill),
            Err(error) => Err(files.error(&error)),
        })
        .await
}

fn is_sent() -> FsError {
    FsError::NotSequential(
        "these bytes were sent, and are in no memory any more: they can be read when the file is closed, and at any \
         time with --staging"
            .to_owned(),
    )
}

fn no_base() -> FsError {
    FsError::Stale("the object that the file began with is gone".to_owned())
}

/// Slices of one reply. The kernel takes 1024 at once; from a few on, a copy is cheaper.
const SLICES_MAX: usize = 32;

/// Bytes in memory that any thread may sum.
const SUMMED_INLINE_MAX: u64 = 1 << 20;

/// Steps of [`SUMMED_AT_ONCE`] bytes that one job of a disk thread reads: 2 MiB, so that reads and
/// writes of the kernel need not wait for a whole part.
const STEPS_AT_ONCE: usize = 8;
