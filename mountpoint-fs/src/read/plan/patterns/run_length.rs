//! Lengths of streams that a reader leaves before the end of the file.
//!
//! Pure. A reader of columns, records or tensors reads some of a file in sequence and then jumps;
//! read-ahead beyond the jump is wasted. The first read-ahead of a new stream is therefore limited
//! to nine eighths of the shortest recent run, and doubles whenever the reader passes the limit.
//!
//! A reader that read on at each of the recent places is expected to read on at the next, without
//! waiting for a second read. So is one that always read on after the same two outcomes: a database
//! that reads an index page, then a run of rows, and so on.
//!
//! Invariant: no prediction before two streams were left.

/// The streams that were left most recently.
#[derive(Debug, Default)]
pub(super) struct RunLengthPredictor {
    /// Start and length of each stream; the latest is the last.
    left: Vec<(u64, u64)>,
    /// Whether a read began at a new place and no read has continued it yet.
    is_open: bool,
    /// Number of new places in a row at which the reader read on.
    stays: u8,
    /// Whether the reader read on at the last two places, as bits; the latest is the lowest.
    past: u8,
    /// For each value of `past`: how many times in a row the reader then read on.
    stays_after: [u8; 4],
}

impl RunLengthPredictor {
    /// Records that the stream from `start` was left after `len` bytes.
    pub(super) fn left(&mut self, start: u64, len: u64) {
        self.left.retain(|(left, _)| *left != start);
        if self.left.is_empty() {
            self.stays = self.stays.max(1);
        }
        if self.left.len() == LEFT_MAX {
            self.left.remove(0);
        }
        self.left.push((start, len));
    }

    /// Records that the stream from `start` continues: it was not left after all.
    pub(super) fn resumed(&mut self, start: u64) {
        if std::mem::take(&mut self.is_open) {
            self.learn(true);
        }
        self.left.retain(|(left, _)| *left != start);
    }

    /// Records that a read began at a new place.
    pub(super) fn began(&mut self) {
        if self.is_open {
            self.learn(false);
        }
        self.is_open = true;
    }

    /// Records whether the reader read on at its last place.
    fn learn(&mut self, stayed: bool) {
        let count = |before: u8| if stayed { before.saturating_add(1) } else { 0 };
        self.stays = count(self.stays);
        let after = &mut self.stays_after[usize::from(self.past)];
        *after = count(*after);
        self.past = (self.past << 1 | u8::from(stayed)) & 3;
    }

    /// Whether the reader is expected to read on at its next place.
    pub(super) fn begins_runs(&self) -> bool {
        let after = self.stays_after[usize::from(self.past)];
        self.left.len() >= LEFT_MIN && self.stays.max(after) >= STAYS_MIN
    }

    /// Limit of the read-ahead of a stream that began at `start` and has reached `end`.
    pub(super) fn reach(&self, start: u64, end: u64) -> u64 {
        let shortest = self.left.iter().map(|(_, len)| *len).min();
        let Some(shortest) = shortest.filter(|_| self.left.len() >= LEFT_MIN) else {
            return u64::MAX;
        };
        let mut reach = shortest.saturating_add(shortest / 8).max(1);
        while reach < end - start {
            reach = reach.saturating_mul(2);
        }
        start.saturating_add(reach)
    }
}

/// Number of streams to remember: a reader of columns repeats a few lengths.
const LEFT_MAX: usize = 4;
/// Number of streams needed for a prediction.
const LEFT_MIN: usize = 2;
/// New places in a row at which the reader must have read on.
const STAYS_MIN: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_far_as_the_shortest_of_the_last() {
        let mut lengths = RunLengthPredictor::default();
        assert_eq!(lengths.reach(50, 60), u64::MAX);
        lengths.left(0, 80);
        assert_eq!(lengths.reach(50, 60), u64::MAX);
        lengths.left(1000, 160);
        assert_eq!(lengths.reach(50, 60), 50 + 90);
        assert_eq!(lengths.reach(50, 140), 50 + 90);
        assert_eq!(lengths.reach(50, 141), 50 + 180);
        assert_eq!(lengths.reach(50, 50 + 1000), 50 + 1440);
        (2..5).for_each(|number| lengths.left(number * 1000, 800));
        assert_eq!(lengths.reach(0, 1), 180, "the first is forgotten");
        lengths.resumed(1000);
        assert_eq!(lengths.reach(0, 1), 900);
        (2..4).for_each(|number| lengths.resumed(number * 1000));
        assert_eq!(lengths.reach(0, 1), u64::MAX);
    }

    #[test]
    fn who_stays_in_turns_stays_when_its_turn_comes() {
        // A repeated row of places, `s` where the reader reads on, and the predictions of the last
        // eight.
        for (places, begun) in [("-s", "-s-s-s-s"), ("--s", "-s--s--s"), ("s", "ssssssss")] {
            let mut lengths = RunLengthPredictor::default();
            let mut believed = String::new();
            for (number, place) in (0..24).zip(places.chars().cycle()) {
                lengths.began();
                believed.push(if lengths.begins_runs() { 's' } else { '-' });
                if place == 's' {
                    lengths.resumed(number * 1000 + 500);
                    lengths.left(number * 1000, 80);
                }
            }
            assert_eq!(&believed[16..], begun, "{places}");
        }
        // A reader that never reads on is never expected to.
        let mut lengths = RunLengthPredictor::default();
        lengths.left(0, 80);
        lengths.left(1000, 80);
        for _ in 0..20 {
            lengths.began();
            assert!(!lengths.begins_runs());
        }
    }

    #[test]
    fn who_stays_at_new_places_stays_at_the_next() {
        let mut lengths = RunLengthPredictor::default();
        let stay = |lengths: &mut RunLengthPredictor, start| {
            lengths.left(start, 80);
            lengths.began();
            let begins = lengths.begins_runs();
            lengths.resumed(start + 1000);
            begins
        };
        let stays: Vec<_> = (0..4)
            .map(|number| stay(&mut lengths, number * 1000))
            .collect();
        assert_eq!(stays, [false, true, true, true]);
        lengths.began();
        lengths.began();
        assert!(!lengths.begins_runs());
    }
}
