//! Tracks of a trace: bars of one track follow each other, so requests that overlap need several.
//!
//! Pure. Bars come in about the order of their ends.

use std::collections::HashMap;

/// The tracks of all groups.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    groups: HashMap<TrackGroup, Vec<Track>>,
    count: u64,
}

/// A program's thread, or an operation of the mount: the bars of a track have it in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TrackGroup {
    /// Number of the process.
    pub(super) process: u64,
    /// The thread, or the operation.
    pub(super) title: String,
}

#[derive(Debug)]
struct Track {
    number: u64,
    /// End of its last bar.
    end: u64,
}

/// The track of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    /// Its number, from 1.
    pub(super) number: u64,
    /// Set if the bar is its first: its number in its group, from 1.
    pub(super) is_new: Option<usize>,
}

impl Tracks {
    /// The track for a bar from `began` to `end`: of the free tracks, the one that was used last.
    pub(super) fn place(&mut self, group: &TrackGroup, began: u64, end: u64) -> Placed {
        let tracks = self.groups.entry(group.clone()).or_default();
        let free = tracks.iter_mut().filter(|track| track.end <= began);
        if let Some(track) = free.max_by_key(|track| track.end) {
            track.end = end;
            return Placed {
                number: track.number,
                is_new: None,
            };
        }
        self.count += 1;
        tracks.push(Track {
            number: self.count,
            end,
        });
        Placed {
            number: self.count,
            is_new: Some(tracks.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_of_a_track_do_not_overlap_and_tracks_are_few() {
        let mut tracks = Tracks::default();
        let group = |title: &str| TrackGroup {
            process: 1,
            title: title.to_owned(),
        };
        let (one, other) = (group("one"), group("other"));
        // Group, begin, end, track, and its number in the group if it is new.
        for (group, began, end, number, is_new) in [
            (&one, 0, 10, 1, Some(1)),
            (&one, 5, 12, 2, Some(2)),
            (&one, 10, 13, 1, None),
            (&other, 0, 20, 3, Some(1)),
            // Both are free; the second has ended last.
            (&one, 14, 15, 1, None),
            (&one, 13, 16, 2, None),
            // It came late: it began before both ended.
            (&one, 0, 11, 4, Some(3)),
        ] {
            let placed = tracks.place(group, began, end);
            assert_eq!(placed, Placed { number, is_new }, "{began}");
        }
    }
}
