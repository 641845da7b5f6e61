//! How many bytes may be fetched before a reader asks for them.
//!
//! Bytes that are fetched ahead are borrowed: repaid when they are read, lost when they are not.
//! Files that are opened in order add to the budget. So the bytes fetched in vain are at most the
//! first budget and a share of the bytes opened in order.
//!
//! Invariant: `unread <= budget` whenever something is fetched.

use std::sync::Arc;

use crate::sync::Mutex;

/// Bytes of one mount that may be fetched before they are asked for.
#[derive(Debug)]
pub(super) struct PrefetchBudget {
    budget: u64,
    unread: u64,
    wasted: u64,
}

impl Default for PrefetchBudget {
    fn default() -> Self {
        Self {
            budget: SIBLING_BUDGET,
            unread: 0,
            wasted: 0,
        }
    }
}

impl PrefetchBudget {
    /// A file of `len` bytes was opened in order.
    pub(super) fn earn(&mut self, len: u64) {
        self.budget = (self.budget + len / SIBLING_WASTE_SHARE).min(SIBLING_BUDGET_MAX);
    }

    /// Borrows `len` bytes; `false` if the budget has fewer.
    pub(super) fn borrow(&mut self, len: u64) -> bool {
        let fits = self.unread + len <= self.budget;
        if fits {
            self.unread += len;
        }
        fits
    }

    /// Bytes that were borrowed are read.
    pub(super) fn repay(&mut self, len: u64) {
        assert!(len <= self.unread);
        self.unread -= len;
    }

    /// Bytes that were borrowed will not be read.
    pub(super) fn lose(&mut self, len: u64) {
        self.repay(len);
        self.budget = self.budget.saturating_sub(len);
        self.wasted += len;
    }

    /// Bytes that were fetched and not read yet.
    pub(super) fn unread(&self) -> u64 {
        self.unread
    }

    /// Bytes that were fetched in vain.
    pub(super) fn wasted(&self) -> u64 {
        self.wasted
    }
}

/// Bytes of a file that were fetched ahead. Counts as wasted if it is dropped before
/// [`PrefetchLoan::was_read`].
#[derive(Debug)]
pub(super) struct PrefetchLoan {
    budget: Arc<Mutex<PrefetchBudget>>,
    len: u64,
}

impl PrefetchLoan {
    /// Borrows `len` bytes, if the budget has so many.
    pub(super) fn borrow(budget: &Arc<Mutex<PrefetchBudget>>, len: u64) -> Option<Self> {
        let is_lent = budget.lock().borrow(len);
        is_lent.then(|| Self {
            budget: Arc::clone(budget),
            len,
        })
    }

    /// A reader reads the bytes.
    pub(super) fn was_read(mut self) {
        self.budget.lock().repay(self.len);
        self.len = 0;
    }
}

impl Drop for PrefetchLoan {
    fn drop(&mut self) {
        if self.len > 0 {
            self.budget.lock().lose(self.len);
        }
    }
}

/// Largest number of such bytes, however many files were opened in order before.
const SIBLING_BUDGET_MAX: u64 = 64 << 20;

/// Bytes of files opened in order for each byte that may be fetched in vain.
const SIBLING_WASTE_SHARE: u64 = 8;

/// Initial number of bytes of siblings that may be fetched in vain.
///
/// The number allows `SIBLINGS_AHEAD_MAX` files of 128 KiB.
pub(crate) const SIBLING_BUDGET: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_lost_must_be_earned_again() {
        let mut budget = PrefetchBudget::default();
        assert!(budget.borrow(SIBLING_BUDGET));
        assert!(!budget.borrow(1));
        budget.repay(SIBLING_BUDGET / 2);
        budget.lose(SIBLING_BUDGET / 2);
        assert!(!budget.borrow(SIBLING_BUDGET / 2 + 1));
        assert!(budget.borrow(SIBLING_BUDGET / 2));
        budget.lose(SIBLING_BUDGET / 2);
        assert!(!budget.borrow(1));
        budget.earn(100 * SIBLING_WASTE_SHARE);
        assert!(budget.borrow(100));
        assert!(!budget.borrow(1));
        budget.earn(u64::MAX / 2);
        assert!(!budget.borrow(SIBLING_BUDGET_MAX));
        assert!(budget.borrow(SIBLING_BUDGET_MAX - 100));
        assert_eq!(
            (budget.unread(), budget.wasted()),
            (SIBLING_BUDGET_MAX, SIBLING_BUDGET)
        );
    }

    proptest! {
        /// Whatever happens: what is wasted is what there was at first and a share of what was
        /// opened in order.
        #[test]
        fn waste_is_a_share(ops in prop::collection::vec((0u8..4, 1u64..(2 << 20)), 1..200)) {
            let (mut budget, mut held, mut opened) = (PrefetchBudget::default(), Vec::new(), 0);
            for (op, len) in ops {
                match op {
                    0 => {
                        budget.earn(len);
                        opened += len;
                    }
                    1 if budget.borrow(len) => held.push(len),
                    2 => held.pop().into_iter().for_each(|len| budget.repay(len)),
                    3 => held.pop().into_iter().for_each(|len| budget.lose(len)),
                    _ => {}
                }
                prop_assert_eq!(budget.unread(), held.iter().sum::<u64>());
                let at_worst = budget.wasted() + budget.unread();
                prop_assert!(at_worst <= SIBLING_BUDGET + opened / SIBLING_WASTE_SHARE);
            }
        }
    }
}
