//! The bound of the bucket from here, and the flags that would help. Pure.

use super::figures::{Measured, Unit, Way};

/// Conditions of the run, besides the figures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conditions {
    /// Throughput that the connections are planned for, in Gbit/s.
    pub(super) target_gbps: f64,
    /// Whether `--maximum-throughput-gbps` was given.
    pub(super) is_target_given: bool,
    /// Whether the server said to slow down.
    pub(super) is_throttled: bool,
    /// Whether `--metadata-ttl` was given.
    pub(super) keeps_names: bool,
}

/// The conclusion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The bound of the throughput; `None` if it was not measured.
    pub(super) bound: Option<String>,
    /// Advice, a sentence each.
    pub(super) advice: Vec<String>,
}

/// Judges the figures.
pub(super) fn judge(measured: &[Measured], conditions: &Conditions) -> Verdict {
    let mut verdict = Verdict::default();
    let throughput = |way| {
        let of_way = measured.iter().filter(move |it| it.step.way == way);
        of_way.filter(|it| it.step.unit == Unit::Bytes && it.figures.bytes > 0)
    };
    let rate = |it: &Measured| it.figures.bytes_per_second();
    let reads: Vec<_> = throughput(Way::Client)
        .filter(|it| it.step.name == READ)
        .collect();
    let fastest = reads.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
    if let Some(fastest) = fastest {
        let gbps = rate(fastest) * 8.0 / 1e9;
        let mut by_width: Vec<_> = reads.iter().collect();
        by_width.sort_by_key(|it| it.step.at_once);
        let grows = matches!(by_width[..], [.., before, widest] if rate(widest) > rate(before) * STILL_GROWS);
        let bound = if fastest.figures.busy.is_some_and(|busy| busy > CPU_IS_FULL) {
            "the CPUs of this machine".to_owned()
        } else if conditions.is_throttled {
            verdict.advice.push(
                "the server says to slow down: spread the keys over more prefixes, or start fewer clients at once"
                    .to_owned(),
            );
            "the request rate of S3".to_owned()
        } else if gbps > conditions.target_gbps * NETWORK_IS_FULL {
            if !conditions.is_target_given {
                let wanted = (gbps * 2.0).ceil();
                verdict.advice.push(format!(
                    "--maximum-throughput-gbps {wanted}: connections are planned for {:.0} Gbit/s, which is reached",
                    conditions.target_gbps
                ));
            }
            "the planned throughput, or the network interface".to_owned()
        } else if grows {
            "the latency of S3: throughput still grows with requests in flight".to_owned()
        } else {
            "the server or the network on the way".to_owned()
        };
        verdict.bound = Some(bound);
        advise_on_readers(&mut verdict, rate(fastest), throughput(Way::Mount));
    }
    advise_on_names(&mut verdict, measured, conditions);
    verdict
}

/// Compares readers of the mount with the client.
fn advise_on_readers<'a>(
    verdict: &mut Verdict,
    client: f64,
    readers: impl Iterator<Item = &'a Measured>,
) {
    let readers: Vec<_> = readers.collect();
    let one = readers.iter().find(|it| it.step.at_once == 1);
    let most = readers.iter().max_by_key(|it| it.step.at_once);
    let (Some(one), Some(most)) = (one, most) else {
        return;
    };
    let (of_one, of_most) = (
        one.figures.bytes_per_second(),
        most.figures.bytes_per_second(),
    );
    if of_most > of_one * WORTH_MORE_READERS {
        verdict.advice.push(format!(
            "{} readers at once read {:.1} times what one does: read several files in parallel",
            most.step.at_once,
            of_most / of_one
        ));
    }
    if of_most < client * FAR_BELOW_CLIENT {
        verdict.advice.push(
            "the mount stays far below the client: `mount-s3 doctor` looks for memory limits and FUSE settings that bound it"
                .to_owned(),
        );
    }
}

/// Looks at the first byte, which every open pays.
fn advise_on_names(verdict: &mut Verdict, measured: &[Measured], conditions: &Conditions) {
    let first = measured.iter().find(|it| it.step.unit == Unit::Latency);
    let millis = first
        .and_then(|it| it.figures.quantile(50))
        .map(|median| median.as_secs_f64() * 1e3);
    if let Some(millis) = millis
        && millis > OPENS_ARE_SLOW_MS
        && !conditions.keeps_names
    {
        verdict.advice.push(format!(
            "--metadata-ttl 60, if the bucket seldom changes: a request takes {millis:.0} ms, and opens of known files then send none"
        ));
    }
}

/// The name of the steps that read through the client.
pub(super) const READ: &str = "read";

/// Share of the CPU from which it is the bound.
const CPU_IS_FULL: f64 = 0.9;
/// Share of the planned throughput from which it is the bound.
const NETWORK_IS_FULL: f64 = 0.8;
/// Growth from fewer to most requests that shows that more would help.
const STILL_GROWS: f64 = 1.5;
/// Gain of several readers that is worth a word.
const WORTH_MORE_READERS: f64 = 1.5;
/// Share of the client's throughput below which the mount has another bound.
const FAR_BELOW_CLIENT: f64 = 0.5;
/// Median of the first byte above which opens are slow, in milliseconds.
const OPENS_ARE_SLOW_MS: f64 = 10.0;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::figures::{Figures, Step};
    use super::*;

    const CONDITIONS: Conditions = Conditions {
        target_gbps: 10.0,
        is_target_given: false,
        is_throttled: false,
        keeps_names: false,
    };

    fn read(way: Way, at_once: usize, mb_per_second: u64, busy: f64) -> Measured {
        let mut figures = Figures {
            elapsed: Duration::from_secs(1),
            busy: Some(busy),
            ..Figures::default()
        };
        figures.succeeded(mb_per_second * 1_000_000, Duration::from_millis(1));
        let step = Step {
            way,
            name: READ,
            at_once,
            unit: Unit::Bytes,
        };
        Measured { step, figures }
    }

    fn first_byte(millis: u64) -> Measured {
        let mut measured = read(Way::Client, 1, 0, 0.0);
        measured.figures = Figures::default();
        measured.figures.succeeded(1, Duration::from_millis(millis));
        measured.step.unit = Unit::Latency;
        measured
    }

    /// Client reads with 1, 4, 16 and 64 requests have these rates.
    #[track_caller]
    fn check(rates: [u64; 4], busy: f64, conditions: Conditions, bound: &str) -> Verdict {
        let reads = [1, 4, 16, 64].into_iter().zip(rates);
        let reads: Vec<_> = reads
            .map(|(at_once, rate)| read(Way::Client, at_once, rate, busy))
            .collect();
        let verdict = judge(&reads, &conditions);
        let found = verdict.bound.clone().unwrap();
        assert!(found.contains(bound), "{found}");
        verdict
    }

    #[test]
    fn bounds() {
        check([100, 300, 500, 510], 0.95, CONDITIONS, "CPU");
        check([100, 300, 500, 510], 0.3, CONDITIONS, "server");
        check([50, 100, 200, 400], 0.3, CONDITIONS, "latency");
        let full = check([500, 1000, 1100, 1100], 0.3, CONDITIONS, "planned");
        assert!(full.advice[0].contains("--maximum-throughput-gbps 18"));
        let given = Conditions {
            is_target_given: true,
            ..CONDITIONS
        };
        let full = check([500, 1000, 1100, 1100], 0.3, given, "planned");
        assert_eq!(full.advice, Vec::<String>::new());
        let throttled = Conditions {
            is_throttled: true,
            ..CONDITIONS
        };
        let slow = check([50, 100, 100, 100], 0.3, throttled, "request rate");
        assert!(slow.advice[0].contains("prefixes"));
        assert_eq!(judge(&[], &CONDITIONS), Verdict::default());
    }

    #[test]
    fn advice_on_mounts_and_opens() {
        let mut all = vec![
            read(Way::Client, 16, 1000, 0.3),
            read(Way::Mount, 1, 100, 0.3),
            read(Way::Mount, 4, 300, 0.3),
            first_byte(30),
        ];
        let verdict = judge(&all, &CONDITIONS);
        let text = verdict.advice.join("\n");
        for part in ["3.0 times", "doctor", "--metadata-ttl", "30 ms"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        all[3] = first_byte(2);
        all[1] = read(Way::Mount, 1, 900, 0.3);
        all[2] = read(Way::Mount, 4, 950, 0.3);
        assert_eq!(judge(&all, &CONDITIONS).advice, Vec::<String>::new());
    }
}
