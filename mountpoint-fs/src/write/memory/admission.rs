//! How writers part their memory: who may take how much, and when.
//!
//! Pure. A file that is open for writing holds nothing, the beginning of a part, or room for a
//! whole part. Beginnings alone could fill all memory, and none of them could be sent: S3 takes no
//! part below 5 MiB. So some is kept for whole parts, as much as one needs at least. Whoever gets
//! that can fill its part without more memory, sends it, and gives it back, so the next one can:
//! those who wait are served in turn, and none for ever.
//!
//!
//! What is held of WRITEs that wait is in memory as well, and nobody can refuse it: the kernel has
//! handed it over. So beginnings leave room for what the threads that write may have waiting at
//! once, and it takes of all memory what the others leave.
//!
//! Invariants: `beginnings + parts + waiting <= all`, unless the only part needs a little more or
//! is larger than that; a whole part fits as soon as those that are held have been sent, whatever
//! beginnings are held, and whatever waits.

use crate::config::limits::{
    READ_KEPT_MIN, READ_KEPT_SHARE, WRITE_EAGER_SHARE, WRITE_MEMORY_SHARE, WRITE_PART_KEPT_SHARE,
    WRITE_PLENTY_SHARE,
};

/// What memory is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::write) enum Kind {
    /// The beginning of a part: it is sent when the file is closed, or has grown.
    Beginning,
    /// A part that can be filled and sent.
    Part,
}

/// What a writer asks for, in bytes: one of the lengths, in place of what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::write) struct Ask {
    /// What it holds: a beginning that grows.
    pub(in crate::write) held: u64,
    /// What does for a while.
    pub(in crate::write) len: u64,
    /// What does for now.
    pub(in crate::write) least: u64,
    /// A whole part.
    pub(in crate::write) whole: u64,
    /// The shortest part that can be sent before the file ends.
    pub(in crate::write) shortest: u64,
    /// Parts were sent: it is not a small file.
    pub(in crate::write) is_large: bool,
}

/// How a writer came to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::write) enum Turn {
    /// Just now, and nobody waits.
    First,
    /// It has waited.
    Waited,
    /// It has waited, and nothing is on its way that would give memory back.
    Stuck,
}

/// What is held of the memory, and how much of it may be.
#[derive(Debug)]
pub(in crate::write) struct Shares {
    limits: Limits,
    beginnings: u64,
    parts: u64,
    /// What is held of WRITEs that wait, as far as it is counted.
    waiting: u64,
    /// What they may come to.
    expected: u64,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    /// All that writers may hold.
    all: u64,
    /// The same for who has the only part: reads lend something where what is behind parts of a
    /// fixed size, which cannot go with them, has taken room that was kept.
    alone: u64,
    /// What parts may fill, as far as beginnings do not.
    usual: u64,
    /// What beginnings leave to parts.
    kept: u64,
    /// What beginnings may take whatever waits: small files go on side by side.
    begun: u64,
    /// Up to here beginnings get what does for a while.
    plenty: u64,
    /// Up to here a file gets room for its first part at once.
    eager: u64,
}

impl Shares {
    /// Of a mount with `memory` bytes, whose first parts need `part`.
    pub(in crate::write) fn new(memory: u64, part: u64) -> Self {
        let begun = begun(memory);
        let all = all(memory);
        Self {
            limits: Limits {
                all,
                alone: all + (memory - all) / 2,
                usual: memory / WRITE_MEMORY_SHARE,
                kept: part.min(part_max(memory)).max(begun),
                begun,
                plenty: memory / WRITE_PLENTY_SHARE,
                eager: memory / WRITE_EAGER_SHARE,
            },
            beginnings: 0,
            parts: 0,
            waiting: 0,
            expected: 0,
        }
    }

    /// Bytes that are held of what was taken.
    pub(in crate::write) fn used(&self) -> u64 {
        self.beginnings + self.parts
    }

    /// From now on WRITEs that wait may come to `bytes`.
    pub(in crate::write) fn expect(&mut self, bytes: u64) {
        self.expected = bytes;
    }

    /// A WRITE of `bytes` waits. Returns how many of them are counted: what is beyond all memory is
    /// not, so that parts and some beginnings still find room.
    pub(in crate::write) fn wait(&mut self, bytes: u64) -> u64 {
        let others = self.beginnings.max(self.limits.begun) + self.parts.max(self.limits.kept);
        let free = self.limits.all.saturating_sub(others + self.waiting);
        let counted = bytes.min(free);
        self.waiting += counted;
        counted
    }

    /// One of which so many were counted waits no more.
    pub(in crate::write) fn waited(&mut self, counted: u64) {
        self.waiting -= counted;
    }

    /// What `ask` gets now: `None` if it has to wait.
    pub(in crate::write) fn choose(&self, ask: Ask, turn: Turn) -> Option<(Kind, u64)> {
        let beginning = |bytes: u64| {
            let fits = bytes < ask.whole && self.beginning_fits(ask.held, bytes);
            fits.then_some((Kind::Beginning, bytes))
        };
        let part = |bytes: u64| {
            self.part_fits(ask.held, bytes)
                .then_some((Kind::Part, bytes))
        };
        let has_plenty = self.beginnings - ask.held + ask.len <= self.limits.plenty;
        let is_eager = self.used() - ask.held + ask.len <= self.limits.eager;
        let is_for_part = ask.is_large || ask.len == ask.whole && is_eager;
        // A large file's beginning becomes a part, which is to leave as much to reads as any.
        let leaves_half = self.used() - ask.held + ask.least <= self.limits.usual;
        let least = || beginning(ask.least).filter(|_| !ask.is_large || leaves_half);
        match turn {
            Turn::First if is_for_part => part(ask.whole).or_else(least),
            Turn::First => {
                let len = beginning(ask.len).filter(|_| has_plenty);
                len.or_else(|| beginning(ask.least))
                    .or_else(|| part(ask.whole))
            }
            Turn::Waited => part(ask.whole).or_else(least),
            Turn::Stuck => {
                let usual = part(ask.whole).or_else(|| beginning(ask.least));
                let shorter = ask.whole.min(self.limits.kept);
                let is_enough = shorter >= ask.shortest.max(ask.least);
                usual.or_else(|| part(shorter).filter(|_| is_enough))
            }
        }
    }

    /// Whether a further beginning of `bytes` finds room.
    pub(in crate::write) fn has_room(&self, bytes: u64) -> bool {
        self.beginning_fits(0, bytes)
    }

    /// Takes `bytes` more for `kind`.
    pub(in crate::write) fn take(&mut self, kind: Kind, bytes: u64) {
        *self.of(kind) += bytes;
    }

    /// Gives back what is held.
    pub(in crate::write) fn give_back(&mut self, kind: Kind, bytes: u64) {
        *self.of(kind) -= bytes;
    }

    /// What is held for one is for the other now.
    pub(in crate::write) fn turn(&mut self, bytes: u64, from: Kind, to: Kind) {
        self.give_back(from, bytes);
        self.take(to, bytes);
    }

    /// What is held for a part is a beginning of `kept` bytes from then on, if beginnings leave
    /// enough to one part all the same, with what reads lend: others wait for the rest, and
    /// beginnings may be full. Returns whether they do.
    pub(in crate::write) fn cut(&mut self, bytes: u64, kept: u64) -> bool {
        let parts = self.parts - bytes;
        let others = parts.max(self.limits.kept) + self.waiting;
        if self.beginnings + kept + others > self.limits.alone {
            return false;
        }
        self.parts = parts;
        self.beginnings += kept;
        true
    }

    fn of(&mut self, kind: Kind) -> &mut u64 {
        match kind {
            Kind::Beginning => &mut self.beginnings,
            Kind::Part => &mut self.parts,
        }
    }

    fn beginning_fits(&self, held: u64, bytes: u64) -> bool {
        let beginnings = self.beginnings - held + bytes;
        let others = beginnings + self.parts.max(self.limits.kept);
        let leaves_room = others + self.expected <= self.limits.all;
        let is_free = leaves_room || beginnings <= self.limits.begun;
        is_free && others + self.waiting <= self.limits.all
    }

    fn part_fits(&self, held: u64, bytes: u64) -> bool {
        let beginnings = self.beginnings - held;
        let parts = self.parts + bytes;
        if bytes > self.limits.all {
            // One that is larger than all memory is served alone rather than never.
            return beginnings == 0 && self.parts == 0;
        }
        let usual = self.limits.usual.saturating_sub(beginnings);
        let all = if self.parts == 0 {
            self.limits.alone
        } else {
            self.limits.all
        };
        parts <= usual.max(self.limits.kept) && beginnings + parts + self.waiting <= all
    }
}

/// Most memory that a part may take whose size is fixed: what writers may have, and a share of it
/// for beginnings.
pub(in crate::write) fn part_max(memory: u64) -> u64 {
    all(memory) - begun(memory)
}

/// What beginnings have in any case: as much as they leave to parts at least.
fn begun(memory: u64) -> u64 {
    memory / WRITE_PART_KEPT_SHARE
}

fn all(memory: u64) -> u64 {
    let reads = (memory / READ_KEPT_SHARE).max(READ_KEPT_MIN);
    memory
        .saturating_sub(reads)
        .max(memory / WRITE_MEMORY_SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const WHOLE: u64 = 9 * MIB;

    fn ask(held: u64, len: u64) -> Ask {
        Ask {
            held,
            len,
            least: len,
            whole: WHOLE,
            shortest: 6 * MIB,
            is_large: false,
        }
    }

    fn take(shares: &mut Shares, ask: Ask, turn: Turn) -> Option<(Kind, u64)> {
        let chosen = shares.choose(ask, turn)?;
        let (kind, bytes) = chosen;
        shares.take(kind, bytes - ask.held);
        shares.turn(ask.held, Kind::Beginning, kind);
        Some(chosen)
    }

    #[test]
    fn beginnings_take_three_quarters_and_parts_what_is_kept() {
        // MiB of memory, and how many beginnings of 1 MiB and whole parts behind them fit.
        for (memory, beginnings, parts) in
            [(64, 47, 1), (128, 96, 1), (512, 384, 7), (8192, 6144, 113)]
        {
            let mut shares = Shares::new(memory * MIB, WHOLE);
            let begun = std::iter::from_fn(|| take(&mut shares, ask(0, MIB), Turn::First));
            let kinds: Vec<_> = begun.map(|(kind, _)| kind).collect();
            let count = |kind| kinds.iter().filter(|it| **it == kind).count();
            assert_eq!(
                (count(Kind::Beginning), count(Kind::Part)),
                (beginnings, parts),
                "{memory}"
            );
            assert!(shares.used() <= memory * MIB - (memory * MIB / 8).max(READ_KEPT_MIN));
        }
    }

    #[test]
    fn the_largest_part_always_finds_room() {
        for memory in [16, 24, 64, 512, 8192] {
            let memory = memory * MIB;
            let part = part_max(memory);
            let mut shares = Shares::new(memory, part);
            let begun = std::iter::from_fn(|| {
                let ask = Ask {
                    whole: part,
                    ..ask(0, 64 << 10)
                };
                let chosen = shares.choose(ask, Turn::First);
                let (kind, bytes) = chosen.filter(|(kind, _)| *kind == Kind::Beginning)?;
                shares.take(kind, bytes);
                Some(bytes)
            });
            assert!(begun.sum::<u64>() > memory / 8 - MIB);
            let large = Ask {
                whole: part,
                ..ask(0, MIB)
            };
            assert_eq!(shares.choose(large, Turn::Waited), Some((Kind::Part, part)));
        }
    }

    #[test]
    fn parts_take_half_and_leave_the_rest_to_reads() {
        let mut shares = Shares::new(512 * MIB, WHOLE);
        let large = Ask {
            is_large: true,
            least: 0,
            ..ask(0, WHOLE)
        };
        let parts = (0..30).filter_map(|_| take(&mut shares, large, Turn::First));
        let parts = parts.filter(|(kind, _)| *kind == Kind::Part).count();
        assert_eq!(parts, 256 / 9);
        // More of one would become a part by and by; where nothing else would give memory back,
        // that is better than nothing.
        let more = Ask {
            least: 8 * MIB,
            ..large
        };
        for (turn, expected) in [
            (Turn::First, None),
            (Turn::Waited, None),
            (Turn::Stuck, Some((Kind::Beginning, 8 * MIB))),
        ] {
            assert_eq!(shares.choose(more, turn), expected, "{turn:?}");
        }
        // Small files find room all the same.
        assert_eq!(
            shares.choose(ask(0, 4096), Turn::Waited),
            Some((Kind::Beginning, 4096))
        );
    }

    #[test]
    fn a_file_gets_a_whole_part_early_only_while_little_is_held() {
        let mut shares = Shares::new(512 * MIB, WHOLE);
        let growing = Ask {
            held: MIB,
            len: WHOLE,
            least: MIB + (256 << 10),
            ..ask(0, 0)
        };
        let mut kinds = Vec::new();
        for _ in 0..12 {
            shares.take(Kind::Beginning, MIB);
            kinds.push(take(&mut shares, growing, Turn::First).unwrap().0);
        }
        assert_eq!(kinds.iter().filter(|kind| **kind == Kind::Part).count(), 7);
        assert_eq!(kinds[11], Kind::Beginning);
        // Who has waited is to come to an end.
        shares.take(Kind::Beginning, MIB);
        assert_eq!(
            shares.choose(growing, Turn::Waited),
            Some((Kind::Part, WHOLE))
        );
    }

    #[test]
    fn beginnings_leave_room_for_what_may_wait() {
        let begun = |expected| {
            let mut shares = Shares::new(512 * MIB, WHOLE);
            shares.expect(expected * MIB);
            while let Some((Kind::Beginning, _)) = shares.choose(ask(0, MIB), Turn::First) {
                shares.take(Kind::Beginning, MIB);
            }
            // Whatever was expected, some are begun, and a part finds room.
            assert_eq!(
                shares.choose(ask(0, WHOLE), Turn::Waited).unwrap().0,
                Kind::Part
            );
            let counted = shares.wait(4096 * MIB);
            assert_eq!(
                shares.choose(ask(0, WHOLE), Turn::Waited).unwrap().0,
                Kind::Part
            );
            (shares.used() / MIB, counted / MIB)
        };
        // MiB that may wait; MiB of beginnings, and what is counted then of WRITEs that wait.
        for (expected, beginnings, counted) in [
            (0, 384, 0),
            (100, 284, 100),
            (320, 64, 320),
            (5000, 64, 320),
        ] {
            assert_eq!(begun(expected), (beginnings, counted), "{expected}");
        }
    }

    #[test]
    fn what_waits_is_counted_as_far_as_there_is_memory_and_given_back() {
        let mut shares = Shares::new(512 * MIB, WHOLE);
        let counted: Vec<_> = (0..500).map(|_| shares.wait(MIB)).collect();
        assert_eq!(counted.iter().sum::<u64>(), 320 * MIB);
        let more = std::iter::from_fn(|| take(&mut shares, ask(0, MIB), Turn::Waited));
        let parts = more.filter(|(kind, _)| *kind == Kind::Part);
        assert_eq!(parts.count(), 128 / 9);
        for counted in counted {
            shares.waited(counted);
        }
        assert_eq!(
            take(&mut shares, ask(0, MIB), Turn::First),
            Some((Kind::Beginning, MIB))
        );
    }

    #[test]
    fn parts_are_cut_where_beginnings_are_full_as_far_as_reads_lend() {
        let mut shares = Shares::new(512 * MIB, WHOLE);
        shares.take(Kind::Beginning, 384 * MIB);
        for (kept, expected) in [(31, true), (2, false), (1, true)] {
            shares.take(Kind::Part, WHOLE);
            assert_eq!(shares.cut(WHOLE, kept * MIB), expected, "{kept}");
            if !expected {
                shares.give_back(Kind::Part, WHOLE);
            }
            let next = shares.choose(ask(0, WHOLE), Turn::Waited);
            assert_eq!(next, Some((Kind::Part, WHOLE)));
        }
    }

    #[test]
    fn small_buffers_are_generous_while_beginnings_are_few() {
        let mut shares = Shares::new(512 * MIB, WHOLE);
        let generous = Ask {
            least: 4096,
            ..ask(0, MIB)
        };
        let sizes: Vec<_> = (0..40)
            .map(|_| take(&mut shares, generous, Turn::First).unwrap().1)
            .collect();
        assert_eq!(sizes.iter().filter(|size| **size == MIB).count(), 32);
        assert_eq!(sizes[39], 4096);
    }

    #[test]
    fn large_parts_are_cut_short_only_where_nothing_else_helps() {
        let mut shares = Shares::new(512 * MIB, WHOLE);
        shares.take(Kind::Beginning, 384 * MIB);
        let large = Ask {
            least: MIB,
            whole: 128 * MIB,
            is_large: true,
            ..ask(0, 128 * MIB)
        };
        for (turn, expected) in [
            (Turn::First, None),
            (Turn::Waited, None),
            (Turn::Stuck, Some((Kind::Part, 64 * MIB))),
        ] {
            assert_eq!(shares.choose(large, turn), expected, "{turn:?}");
        }
        let fixed = Ask {
            shortest: large.whole,
            ..large
        };
        assert_eq!(shares.choose(fixed, Turn::Stuck), None);
        // One that is larger than all memory is served when nobody else has any.
        let huge = Ask {
            len: 1024 * MIB,
            least: 1024 * MIB,
            whole: 1024 * MIB,
            ..fixed
        };
        assert_eq!(shares.choose(huge, Turn::Waited), None);
        shares.give_back(Kind::Beginning, 384 * MIB);
        assert_eq!(
            shares.choose(huge, Turn::Waited),
            Some((Kind::Part, 1024 * MIB))
        );
    }
}
