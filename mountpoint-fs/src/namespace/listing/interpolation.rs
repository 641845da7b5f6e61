//! Estimates of later names in a directory, from the names of one page.
//!
//! Pure. One page shows which bytes its names have at each place. So a name becomes a number: each
//! place is a digit whose base is the count of bytes that may occur there. The difference between
//! the page's last and first number is the width of a page. The last number plus some widths is the
//! estimated name so many pages behind: `img_001` follows `img_000999.jpg`, and `imh` follows
//! `img_999`.
//!
//! A wrong estimate costs speed, never correctness. Invariant: `value_of` never decreases as names
//! increase.

use std::collections::BTreeSet;
use std::sync::Arc;

/// A mapping from names to numbers, with the width of a page.
#[derive(Debug)]
pub(crate) struct KeyScale {
    /// The bytes that all names share in front of the first digit.
    prefix: Vec<u8>,
    digits: Vec<Digit>,
    /// How many numbers the names of one page cover; at least 1.
    page_width: u128,
}

/// The bytes that may occur at one place of a name.
#[derive(Clone, Debug)]
struct Digit {
    /// Sorted.
    bytes: Vec<u8>,
    /// Whether a name may end in front of this place.
    may_be_absent: bool,
}

/// The bytes that names have at one place, and whether some names end in front of it.
struct Seen {
    bytes: BTreeSet<u8>,
    ends: bool,
}

impl KeyScale {
    /// Learns the scale of a page from its sorted names. `None` if the names are too few or too
    /// similar.
    pub(crate) fn learn<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Option<Self> {
        let first = names.clone().next()?.as_bytes();
        let (last, count) = names
            .clone()
            .fold(("", 0_u128), |(_, count), name| (name, count + 1));
        let last = last.as_bytes();
        if count < NAMES_MIN || first >= last {
            return None;
        }
        let varying = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let end = varying + DIGITS_BEHIND;
        let seen: Vec<Seen> = (varying..end)
            .map(|place| Seen::at(names.clone(), place))
            .take_while(|seen| !seen.bytes.is_empty())
            .collect();
        // One page shows few of the bytes that occur at the first place that differs, but nearly
        // all that occur at the next. The same bytes may also occur at the places in front.
        let near = seen.iter().take(2).filter(|seen| seen.bytes.len() > 1);
        let shared: BTreeSet<u8> = near.flat_map(|seen| seen.bytes.iter().copied()).collect();
        let shared = BTreeSet::from_iter(of_the_same_kind(shared));
        let mut behind: Vec<Digit> = seen.into_iter().map(Seen::into_digit).collect();
        if let Some(first) = behind.first_mut() {
            let all = shared.iter().chain(&first.bytes).copied();
            first.bytes = BTreeSet::from_iter(all).into_iter().collect();
        }
        let mut product = behind
            .iter()
            .fold(1_u128, |product, digit| product * digit.base());
        // Adds digits for the places in front, as many as fit into the number.
        let mut front = Vec::new();
        for byte in first[..varying].iter().rev() {
            let digit = Digit::like(*byte, &shared);
            product = match product.checked_mul(digit.base()) {
                Some(product) if product <= VALUE_MAX => product,
                _ => break,
            };
            front.push(digit);
        }
        let prefix = first[..varying - front.len()].to_vec();
        front.reverse();
        front.append(&mut behind);
        let mut scale = Self {
            prefix,
            digits: front,
            page_width: 1,
        };
        let width = scale.value_of(last).saturating_sub(scale.value_of(first));
        // From the first name to the last there is one step fewer than there are names.
        scale.page_width = (width + width / (count - 1)).max(1);
        Some(scale)
    }

    /// Estimates the name that is `pages` behind `name`; always greater than `name`. `None` if the
    /// scale does not reach so far.
    pub(crate) fn behind(&self, name: &str, pages: f64) -> Option<Arc<str>> {
        let value = self.value_of(name.as_bytes());
        let behind = self.name_of(value.checked_add(self.width_of(pages))?)?;
        (&*behind > name).then_some(behind)
    }

    /// Estimated number of pages from `name` to `end`, rather too low than too high.
    pub(super) fn pages_between(&self, name: &str, end: &str) -> f64 {
        let width = self
            .value_of(end.as_bytes())
            .saturating_sub(self.value_of(name.as_bytes()));
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let pages = width as f64 / self.page_width as f64;
        pages
    }

    fn width_of(&self, pages: f64) -> u128 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an estimate; `as` saturates"
        )]
        let width = (self.page_width as f64 * pages) as u128;
        width.clamp(1, VALUE_MAX)
    }

    /// The number of `name`: 0 if it is in front of the shared prefix, the end of the scale if
    /// behind it.
    fn value_of(&self, name: &[u8]) -> u128 {
        let head = &name[..name.len().min(self.prefix.len())];
        if head < &self.prefix[..] {
            return 0;
        }
        if head > &self.prefix[..] {
            return self.end();
        }
        let mut value = 0;
        let mut rest = Some(&name[self.prefix.len()..]);
        for digit in &self.digits {
            let (rank, is_exact) = match rest.and_then(<[u8]>::first) {
                Some(byte) => digit.rank(*byte),
                None => (0, false),
            };
            value = value * digit.base() + rank;
            rest = rest.filter(|_| is_exact).map(|rest| &rest[1..]);
        }
        value
    }

    /// The shortest name of this number; `None` at the end of the scale.
    fn name_of(&self, mut value: u128) -> Option<Arc<str>> {
        if value >= self.end() {
            return None;
        }
        let mut ranks = Vec::with_capacity(self.digits.len());
        for digit in self.digits.iter().rev() {
            ranks.push(value % digit.base());
            value /= digit.base();
        }
        let mut name = self.prefix.clone();
        for (digit, rank) in self.digits.iter().zip(ranks.into_iter().rev()) {
            match digit.byte(rank) {
                Some(byte) => name.push(byte),
                None => break,
            }
        }
        // A digit may be a part of a character: cutting in front of that character is close enough.
        let name = String::from_utf8(name).unwrap_or_else(|error| {
            let valid = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            bytes.truncate(valid);
            String::from_utf8(bytes).unwrap_or_default()
        });
        (!name.is_empty()).then(|| Arc::from(name))
    }

    fn end(&self) -> u128 {
        self.digits
            .iter()
            .fold(1, |product, digit| product * digit.base())
    }
}

impl Seen {
    fn at<'a>(names: impl Iterator<Item = &'a str>, place: usize) -> Self {
        let mut seen = Self {
            bytes: BTreeSet::new(),
            ends: false,
        };
        for name in names {
            match name.as_bytes().get(place) {
                Some(byte) => {
                    seen.bytes.insert(*byte);
                }
                None => seen.ends = true,
            }
        }
        seen
    }

    fn into_digit(self) -> Digit {
        Digit {
            bytes: of_the_same_kind(self.bytes),
            may_be_absent: self.ends,
        }
    }
}

impl Digit {
    /// A digit for a place where all names have `byte`; `shared` are the bytes of the varying
    /// places.
    fn like(byte: u8, shared: &BTreeSet<u8>) -> Self {
        let bytes = if shared.contains(&byte) {
            shared.iter().copied().collect()
        } else {
            of_the_same_kind(BTreeSet::from([byte]))
        };
        Self {
            bytes,
            may_be_absent: false,
        }
    }

    fn base(&self) -> u128 {
        self.bytes.len() as u128 + u128::from(self.may_be_absent)
    }

    /// The rank of `byte` in the digit, and whether the digit contains it.
    fn rank(&self, byte: u8) -> (u128, bool) {
        let below = self.bytes.partition_point(|other| *other < byte);
        let is_exact = self.bytes.get(below) == Some(&byte);
        let rank = below.min(self.bytes.len() - 1);
        (rank as u128 + u128::from(self.may_be_absent), is_exact)
    }

    fn byte(&self, rank: u128) -> Option<u8> {
        let rank = rank.checked_sub(u128::from(self.may_be_absent))?;
        self.bytes.get(usize::try_from(rank).ok()?).copied()
    }
}

/// Completes the kinds of characters: one digit adds all digits, one letter all letters of its
/// case. If there are digits and no letters but hexadecimal ones, only hexadecimal letters are
/// added.
fn of_the_same_kind(mut bytes: BTreeSet<u8>) -> Vec<u8> {
    let has = |bytes: &BTreeSet<u8>, kind: std::ops::RangeInclusive<u8>| {
        bytes.range(kind).next().is_some()
    };
    let has_digits = has(&bytes, b'0'..=b'9');
    if has_digits {
        bytes.extend(b'0'..=b'9');
    }
    for (hexadecimal, others, all) in [
        (b'a'..=b'f', b'g'..=b'z', b'a'..=b'z'),
        (b'A'..=b'F', b'G'..=b'Z', b'A'..=b'Z'),
    ] {
        if has(&bytes, others) || has(&bytes, hexadecimal.clone()) && !has_digits {
            bytes.extend(all);
        } else if has(&bytes, hexadecimal.clone()) {
            bytes.extend(hexadecimal);
        }
    }
    bytes.into_iter().collect()
}

/// Fewer names are too small a sample.
const NAMES_MIN: u128 = 16;
/// Places behind the first that varies within a page: they give its width to about a thousandth.
const DIGITS_BEHIND: usize = 4;
/// Largest number in use: a `u128` has room for sums above it.
const VALUE_MAX: u128 = 1 << 120;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scale(names: &[String]) -> KeyScale {
        KeyScale::learn(names.iter().map(String::as_str)).unwrap()
    }

    /// Learns from the page of `names` that begins at `first` and estimates the name `pages` behind
    /// it. `expected` is the true distance of that estimate, in pages.
    #[track_caller]
    fn check(
        mut names: Vec<String>,
        first: usize,
        pages: f64,
        expected: std::ops::RangeInclusive<f64>,
    ) {
        names.sort();
        let page = &names[first..first + 1000];
        let guess = scale(page).behind(&page[999], pages).unwrap();
        let at = names.partition_point(|name| **name <= *guess);
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let found = (at as f64 - (first + 1000) as f64) / 1000.0;
        assert!(expected.contains(&found), "{guess}: {found} pages behind");
    }

    fn hash(number: u64) -> u64 {
        let mut z = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z ^ (z >> 31)
    }

    #[test]
    fn names_of_real_directories() {
        let numbered = || {
            (0..40_000)
                .map(|n| format!("img_{n:06}.jpg"))
                .collect::<Vec<_>>()
        };
        for pages in [1.0, 4.0, 30.0] {
            check(numbered(), 0, pages, pages - 0.1..=pages + 0.1);
            check(numbered(), 7_300, pages, pages - 0.1..=pages + 0.1);
        }
        // Numbers without leading zeros are not in numeric order.
        let plain = || (0..40_000).map(|n| format!("{n}")).collect::<Vec<_>>();
        check(plain(), 10_000, 4.0, 2.0..=6.0);
        let hex = || {
            (0..40_000)
                .map(|n| format!("{:016x}", hash(n)))
                .collect::<Vec<_>>()
        };
        check(hex(), 0, 10.0, 8.5..=11.5);
        check(hex(), 20_000, 10.0, 8.5..=11.5);
        let uuid = |n: u64| {
            let h = format!("{:016x}{:016x}", hash(n), hash(!n));
            format!("{}-{}-4{}-{}", &h[..8], &h[8..12], &h[13..16], &h[16..])
        };
        check((0..40_000).map(uuid).collect(), 3000, 10.0, 8.5..=11.5);
        let days = (0..40_000).map(|n| {
            format!(
                "log-{}-{:02}-{:04}.gz",
                2000 + n / 36_000,
                n / 3000 % 12,
                n % 3000
            )
        });
        check(days.collect(), 0, 1.0, 0.3..=1.5);
        let umlauts = (0..20_000)
            .map(|n| format!("bäü{n:05}"))
            .collect::<Vec<_>>();
        check(umlauts, 0, 4.0, 3.9..=4.1);
    }

    #[test]
    fn behind_the_last_number_the_letters_go_on() {
        let page: Vec<String> = (998_000..999_000)
            .map(|n| format!("img_{n:06}.jpg"))
            .collect();
        let guess = scale(&page).behind(&page[999], 5.0).unwrap();
        assert!(&*guess > "img_999999.jpg", "{guess}");
        assert!(&*guess < "imi", "{guess}");
    }

    #[test]
    fn pages_that_teach_nothing() {
        let learn = |names: &[&str]| KeyScale::learn(names.iter().copied()).is_some();
        assert!(!learn(&[]));
        assert!(!learn(&["a"; 1000]));
        assert!(!learn(&["a", "b", "c"]));
        let unsorted: Vec<String> = (0..1000).rev().map(|n| format!("{n:04}")).collect();
        assert!(KeyScale::learn(unsorted.iter().map(String::as_str)).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

        /// Any names: an estimate is behind its start, has a slash only if the names have, and
        /// numbers keep the order of names.
        #[test]
        fn any_names(names in prop::collection::btree_set("[a-c0-2é.\u{10000}-]{1,9}", 16..80), has_slashes: bool, pages in 0.0..1e12) {
            let slash = if has_slashes { "/" } else { "-" };
            let names: BTreeSet<String> = names.iter().map(|name| name.replace('b', slash)).collect();
            prop_assume!(names.len() >= 16);
            let names: Vec<String> = names.into_iter().collect();
            let scale = scale(&names);
            let values: Vec<u128> = names.iter().map(|name| scale.value_of(name.as_bytes())).collect();
            prop_assert!(values.is_sorted());
            for name in &names {
                if let Some(behind) = scale.behind(name, pages) {
                    prop_assert!(**name < *behind && (has_slashes || !behind.contains('/')));
                }
                prop_assert!(scale.pages_between(name, &names[0]) == 0.0);
            }
        }
    }
}
