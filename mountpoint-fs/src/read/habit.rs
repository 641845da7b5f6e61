//! How long the streams of one open file are, where its reader leaves them before the end of the file.
//!
//! Pure. A reader of columns, records or tensors reads some of a file in sequence, then goes elsewhere; what was asked
//! for beyond that is wasted. Where the last streams were left, the next ones are first asked ahead as far as the
//! shortest of them went, and an eighth more; who reads on beyond gets twice as far, and so on.
//!
//! Invariant: nothing is known before two streams were left.

/// The latest streams that were left.
#[derive(Debug, Default)]
pub(super) struct Habit {
    /// Where they began and how long they were; the latest last.
    left: Vec<(u64, u64)>,
}

impl Habit {
    /// The stream that began at `start` was left after `len` bytes.
    pub(super) fn left(&mut self, start: u64, len: u64) {
        self.resumed(start);
        if self.left.len() == LEFT_MAX {
            self.left.remove(0);
        }
        self.left.push((start, len));
    }

    /// The stream that began at `start` goes on: it was not left after all.
    pub(super) fn resumed(&mut self, start: u64) {
        self.left.retain(|(left, _)| *left != start);
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
/// Streams before they are a habit.
const LEFT_MIN: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_far_as_the_shortest_of_the_last() {
        let mut habit = Habit::default();
        assert_eq!(habit.reach(50, 60), u64::MAX);
        habit.left(0, 80);
        assert_eq!(habit.reach(50, 60), u64::MAX);
        habit.left(1000, 160);
        assert_eq!(habit.reach(50, 60), 50 + 90);
        assert_eq!(habit.reach(50, 140), 50 + 90);
        assert_eq!(habit.reach(50, 141), 50 + 180);
        assert_eq!(habit.reach(50, 50 + 1000), 50 + 1440);
        (2..5).for_each(|number| habit.left(number * 1000, 800));
        assert_eq!(habit.reach(0, 1), 180, "the first is forgotten");
        habit.resumed(1000);
        assert_eq!(habit.reach(0, 1), 900);
        (2..4).for_each(|number| habit.resumed(number * 1000));
        assert_eq!(habit.reach(0, 1), u64::MAX);
    }
}
