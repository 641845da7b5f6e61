//! How long the streams of one open file are, where its reader leaves them before the end of the
//! file.
//!
//! Pure. A reader of columns, records or tensors reads some of a file in sequence, then goes
//! elsewhere; what was asked for beyond that is wasted. Where the last streams were left, the next
//! ones are first asked ahead as far as the shortest of them went, and an eighth more; who reads on
//! beyond gets twice as far, and so on.
//!
//! Who has read on at each of the last places reads on at the next, which then need not wait for
//! its second read; and so does who read on whenever the two places before were what they are now:
//! a database reads a page of an index, then a run of rows, and again.
//!
//! Invariant: nothing is known before two streams were left.

/// The latest streams that were left.
#[derive(Debug, Default)]
pub(super) struct RunLengthPredictor {
    /// Where they began and how long they were; the latest last.
    left: Vec<(u64, u64)>,
    /// A read began at a new place, and nothing has continued it yet.
    is_open: bool,
    /// New places in a row at which the reader stayed.
    stays: u8,
    /// Whether it stayed at the last two, as bits, the latest lowest.
    past: u8,
    /// After each such past, how often in a row it stayed.
    stays_after: [u8; 4],
}

impl RunLengthPredictor {
    /// The stream that began at `start` was left after `len` bytes.
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

    /// The stream that began at `start` goes on: it was not left after all.
    pub(super) fn resumed(&mut self, start: u64) {
        if std::mem::take(&mut self.is_open) {
            self.learn(true);
        }
        self.left.retain(|(left, _)| *left != start);
    }

    /// A read began at a new place.
    pub(super) fn began(&mut self) {
        if self.is_open {
            self.learn(false);
        }
        self.is_open = true;
    }

    /// The reader stayed at its last place, or it did not.
    fn learn(&mut self, stayed: bool) {
        let count = |before: u8| if stayed { before.saturating_add(1) } else { 0 };
        self.stays = count(self.stays);
        let after = &mut self.stays_after[usize::from(self.past)];
        *after = count(*after);
        self.past = (self.past << 1 | u8::from(stayed)) & 3;
    }

    /// Whether the reader stays wherever it begins, as far as can be known: its next place need not
    /// show that first.
    pub(super) fn begins_runs(&self) -> bool {
        let after = self.stays_after[usize::from(self.past)];
        self.left.len() >= LEFT_MIN && self.stays.max(after) >= STAYS_MIN
    }

    /// How far a stream that began at `start` and has come to `end` may be asked ahead.
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

/// Streams that are remembered: a reader of columns has some lengths, again and again.
const LEFT_MAX: usize = 4;
/// Streams whose lengths say something of the next one.
const LEFT_MIN: usize = 2;
/// New places at which the reader must have stayed since the last at which it did not.
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
        // Each a row of places, `s` where it stays, and how many of the last eight it is believed
        // at.
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
        // By chance it is believed seldom, and not where it never stays.
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
