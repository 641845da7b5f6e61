//! How much may be fetched that nobody has asked for yet.
//!
//! Pure. What is fetched ahead is on credit: it is repaid when it is read, and lost when it is not. Files that are opened
//! in order earn credit, asked ahead or not; so what is fetched in vain is at most what there was to begin with and a
//! share of what was opened in order.
//!
//! Invariant: `unread <= credit` whenever something is fetched.

use std::sync::Arc;

use crate::config::limits::{NEXT_FILES_CREDIT, NEXT_FILES_CREDIT_MAX, NEXT_FILES_WASTE_SHARE};
use crate::sync::Mutex;

/// The credit of one mount.
#[derive(Debug)]
pub(super) struct Credit {
    credit: u64,
    unread: u64,
    wasted: u64,
}

impl Default for Credit {
    fn default() -> Self {
        Self {
            credit: NEXT_FILES_CREDIT,
            unread: 0,
            wasted: 0,
        }
    }
}

impl Credit {
    /// A file of `len` bytes was opened in order.
    pub(super) fn earn(&mut self, len: u64) {
        self.credit = (self.credit + len / NEXT_FILES_WASTE_SHARE).min(NEXT_FILES_CREDIT_MAX);
    }

    /// Takes `len` bytes, if there are so many.
    pub(super) fn borrow(&mut self, len: u64) -> bool {
        let fits = self.unread + len <= self.credit;
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
        self.credit = self.credit.saturating_sub(len);
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

/// Bytes of a file that were fetched ahead. Counts as wasted if it is dropped before [`Ahead::was_read`].
#[derive(Debug)]
pub(super) struct Ahead {
    credit: Arc<Mutex<Credit>>,
    len: u64,
}

impl Ahead {
    /// Takes `len` bytes of credit, if there are so many.
    pub(super) fn borrow(credit: &Arc<Mutex<Credit>>, len: u64) -> Option<Self> {
        let is_lent = credit.lock().borrow(len);
        is_lent.then(|| Self {
            credit: Arc::clone(credit),
            len,
        })
    }

    /// Somebody reads them.
    pub(super) fn was_read(mut self) {
        self.credit.lock().repay(self.len);
        self.len = 0;
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if self.len > 0 {
            self.credit.lock().lose(self.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_lost_must_be_earned_again() {
        let mut credit = Credit::default();
        assert!(credit.borrow(NEXT_FILES_CREDIT));
        assert!(!credit.borrow(1));
        credit.repay(NEXT_FILES_CREDIT / 2);
        credit.lose(NEXT_FILES_CREDIT / 2);
        assert!(!credit.borrow(NEXT_FILES_CREDIT / 2 + 1));
        assert!(credit.borrow(NEXT_FILES_CREDIT / 2));
        credit.lose(NEXT_FILES_CREDIT / 2);
        assert!(!credit.borrow(1));
        credit.earn(100 * NEXT_FILES_WASTE_SHARE);
        assert!(credit.borrow(100));
        assert!(!credit.borrow(1));
        credit.earn(u64::MAX / 2);
        assert!(!credit.borrow(NEXT_FILES_CREDIT_MAX));
        assert!(credit.borrow(NEXT_FILES_CREDIT_MAX - 100));
        assert_eq!(
            (credit.unread(), credit.wasted()),
            (NEXT_FILES_CREDIT_MAX, NEXT_FILES_CREDIT)
        );
    }

    proptest! {
        /// Whatever happens: what is wasted is what there was at first and a share of what was opened in order.
        #[test]
        fn waste_is_a_share(ops in prop::collection::vec((0u8..4, 1u64..(2 << 20)), 1..200)) {
            let (mut credit, mut held, mut opened) = (Credit::default(), Vec::new(), 0);
            for (op, len) in ops {
                match op {
                    0 => {
                        credit.earn(len);
                        opened += len;
                    }
                    1 if credit.borrow(len) => held.push(len),
                    2 => held.pop().into_iter().for_each(|len| credit.repay(len)),
                    3 => held.pop().into_iter().for_each(|len| credit.lose(len)),
                    _ => {}
                }
                prop_assert_eq!(credit.unread(), held.iter().sum::<u64>());
                let at_worst = credit.wasted() + credit.unread();
                prop_assert!(at_worst <= NEXT_FILES_CREDIT + opened / NEXT_FILES_WASTE_SHARE);
            }
        }
    }
}
