//! Proof that a listing of many pages repeats itself, without keeping its pages.
//!
//! Brent's cycle search: each page is compared with one earlier page, which is replaced at every
//! power of two. A listing whose pages repeat with any period is found after at most a few periods.
//!
//! Pure. Knows nothing of what identifies a page: a continuation token, or the names that are in
//! it.

/// Finds out that pages come again. Feed it every page of one listing, in order.
#[derive(Clone, Debug)]
pub struct PageCycle<T> {
    compared_with: Option<T>,
    pages: u64,
    /// The page that later ones are compared with next.
    next_mark: u64,
}

impl<T> Default for PageCycle<T> {
    fn default() -> Self {
        Self {
            compared_with: None,
            pages: 0,
            next_mark: 1,
        }
    }
}

impl<T: PartialEq + Clone> PageCycle<T> {
    /// Whether `page` was seen before, as far as this can tell yet. A page that repeats is not
    /// counted.
    pub fn repeats(&mut self, page: &T) -> bool {
        if self.compared_with.as_ref() == Some(page) {
            return true;
        }
        self.pages += 1;
        if self.pages == self.next_mark {
            self.next_mark = self.next_mark.saturating_mul(2);
            self.compared_with = Some(page.clone());
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages until the listing is known to repeat, which has `lead` pages first and then `period`
    /// for ever.
    fn pages_until_found(lead: u64, period: u64) -> u64 {
        let mut cycle = PageCycle::default();
        let page = |n: u64| {
            if n < lead {
                n
            } else {
                lead + (n - lead) % period
            }
        };
        (0..).position(|n| cycle.repeats(&page(n))).unwrap() as u64
    }

    #[test]
    fn every_period_is_found() {
        for lead in 0..20 {
            for period in 1..20 {
                let found = pages_until_found(lead, period);
                assert!(found >= lead + period, "{lead} {period}: {found}");
                assert!(found <= 3 * (lead + period) + 1, "{lead} {period}: {found}");
            }
        }
        assert_eq!(pages_until_found(0, 1), 1);
    }

    #[test]
    fn pages_that_differ_are_no_cycle() {
        let mut cycle = PageCycle::default();
        assert!((0..10_000).all(|page| !cycle.repeats(&page)));
    }
}
