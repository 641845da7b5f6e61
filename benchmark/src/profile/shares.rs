//! A profile in figures: how many samples had which cause and which function. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cause::Cause;

/// Samples of one mount, or of several rounds of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Shares {
    pub(crate) samples: u64,
    by_cause: BTreeMap<Cause, u64>,
    /// The function that was running, in the kernel or outside.
    by_function: BTreeMap<String, u64>,
}

impl Shares {
    /// Parses the output of `perf script -F comm,ip,sym,dso`: for each sample a line with its
    /// thread, then its functions, the innermost first, then an empty line.
    pub(super) fn of(script: &str) -> Self {
        let mut shares = Self::default();
        for sample in script.split("\n\n") {
            let frames = sample.lines().filter(|line| line.starts_with(['\t', ' ']));
            let frames: Vec<Frame<'_>> = frames.filter_map(Frame::of).collect();
            if let Some(innermost) = frames.first() {
                let in_kernel = frames.iter().take_while(|frame| frame.is_kernel);
                let in_kernel: Vec<_> = in_kernel.map(|frame| frame.function).collect();
                let cause = if in_kernel.is_empty() {
                    Cause::outside(innermost.function)
                } else {
                    Cause::in_kernel(&in_kernel)
                };
                shares.samples += 1;
                *shares.by_cause.entry(cause).or_default() += 1;
                let function = shortened(innermost.function);
                *shares.by_function.entry(function).or_default() += 1;
            }
        }
        shares
    }

    /// Both together.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        self.samples += other.samples;
        for (cause, count) in &other.by_cause {
            *self.by_cause.entry(*cause).or_default() += count;
        }
        for (function, count) in &other.by_function {
            *self.by_function.entry(function.clone()).or_default() += count;
        }
        self
    }

    /// The part of all samples, from 0 to 1.
    pub(crate) fn of_cause(&self, cause: Cause) -> f64 {
        let count = self.by_cause.get(&cause).copied().unwrap_or_default();
        count as f64 / self.samples.max(1) as f64
    }

    /// The functions that were running most often, with their parts of all samples.
    pub(crate) fn top(&self, count: usize) -> Vec<(&str, f64)> {
        let mut functions: Vec<_> = self.by_function.iter().collect();
        functions.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let top = functions.into_iter().take(count);
        let part = |count: u64| count as f64 / self.samples.max(1) as f64;
        top.map(|(function, count)| (function.as_str(), part(*count)))
            .collect()
    }
}

struct Frame<'a> {
    function: &'a str,
    is_kernel: bool,
}

impl<'a> Frame<'a> {
    /// `ffffffff8168a1a5 charge_memcg ([kernel.kallsyms])`.
    fn of(line: &'a str) -> Option<Self> {
        let (_address, rest) = line.trim_start().split_once(' ')?;
        let (function, object) = rest.rsplit_once(" (")?;
        Some(Self {
            function: function.trim(),
            is_kernel: object.starts_with("[kernel") || object.ends_with(".ko)"),
        })
    }
}

/// A function's name without types and hashes, as far as a table has room.
fn shortened(function: &str) -> String {
    let mut name = String::new();
    let mut depth = 0_usize;
    for character in function.chars() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => name.push(character),
            _ => {}
        }
    }
    // `<A as B>::call` has lost its type; what is left of it says too little.
    let name = if name.starts_with("::") {
        let inner: String = function.chars().filter(|c| !"<>&".contains(*c)).collect();
        inner.split(" as ").next().unwrap_or_default().to_owned() + &name
    } else {
        name
    };
    let parts: Vec<_> = name.split("::").filter(|part| !is_hash(part)).collect();
    let from = parts.len().saturating_sub(PARTS_MAX);
    parts[from..]
        .join("::")
        .chars()
        .take(NAME_LENGTH_MAX)
        .collect()
}

/// `h0123456789abcdef`, which Rust puts behind a function's name.
fn is_hash(part: &str) -> bool {
    let digits = part.strip_prefix('h').unwrap_or_default();
    digits.len() == 16 && digits.chars().all(|c| c.is_ascii_hexdigit())
}

/// Segments of a function's path, from its end.
const PARTS_MAX: usize = 3;
const NAME_LENGTH_MAX: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "fuse-0 \n\tffffffff81 copy_page ([kernel.kallsyms])\n\tffffffff82 fuse_dev_do_write ([kernel.kallsyms])\n\t    55d0 tcp_recvmsg_of_mine (/target/release/mount-s3)\n\n\
        fuse-0 \n\tffffffff81 copy_page ([kernel.kallsyms])\n\tffffffff82 tcp_recvmsg ([kernel.kallsyms])\n\n\
        loop 1 \n\t    55d0 _int_malloc (/lib/libc.so.6)\n\n\
        loop 1 \n\t    55d1 <a::B<C> as d::E>::poll (/target/release/mount-s3)\n\n";

    #[test]
    fn samples_are_counted_by_cause_and_by_function() {
        let shares = Shares::of(SCRIPT);
        assert_eq!(shares.samples, 4);
        for cause in [Cause::Reply, Cause::Receive, Cause::Allocate, Cause::Own] {
            assert!((shares.of_cause(cause) - 0.25).abs() < 1e-9, "{cause:?}");
        }
        assert!(shares.of_cause(Cause::Send).abs() < 1e-9);
        assert_eq!(shares.top(1), [("copy_page", 0.5)]);
        assert_eq!(shares.top(9).len(), 3);
    }

    #[test]
    fn rounds_are_added() {
        let once = Shares::of(SCRIPT);
        let twice = once.clone().and(&once);
        assert_eq!(twice.samples, 8);
        assert_eq!(twice.top(9), once.top(9));
    }

    #[test]
    fn no_sample_is_no_share() {
        let none = Shares::of("");
        assert_eq!(none, Shares::default());
        assert!(none.of_cause(Cause::Own).abs() < 1e-9);
    }

    #[test]
    fn names_fit_into_a_table() {
        let cases = [
            ("a::b::c::d::h0123456789abcdef", "b::c::d"),
            ("tokio::x<alloc::y<u8>>::z", "tokio::x::z"),
            ("<a::B<C> as d::E>::poll", "a::BC::poll"),
            ("memmove", "memmove"),
        ];
        for (function, expected) in cases {
            assert_eq!(shortened(function), expected);
        }
    }
}
