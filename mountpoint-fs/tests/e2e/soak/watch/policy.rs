//! What a mount may take, and how much more over time. Pure.

/// A quantity that is looked at every second.
#[derive(Clone, Copy, Debug)]
pub(in crate::soak) struct Measure {
    pub(in crate::soak) name: &'static str,
    /// No sample is above this.
    pub(in crate::soak) most: f64,
    /// How much more the last quarter of a life may have than its second quarter: so much, and
    /// this share of the second quarter.
    pub(in crate::soak) growth: (f64, f64),
}

/// Samples without which a life tells nothing of growth: ten minutes.
const LIFE_MIN: usize = 600;

const MIB: f64 = 1_048_576.0;

/// The measures, in the order of a sample's numbers.
pub(in crate::soak) const MEASURES: [Measure; 9] = [
    // The memory for data, and what the process has beside it.
    measure("rss_anon", 512.0 * MIB + 160.0 * MIB, (24.0 * MIB, 0.10)),
    measure("rss_file", 160.0 * MIB, (8.0 * MIB, 0.10)),
    measure("files", 512.0, (8.0, 0.10)),
    // As many as the client may have connections.
    measure("sockets", 300.0, (16.0, 0.25)),
    measure("threads", 120.0, (4.0, 0.10)),
    measure("inodes", 50_000.0, (500.0, 0.20)),
    measure("folder", 2048.0 * MIB, (64.0 * MIB, 0.25)),
    // Each kind of line is limited; a flood is one of a line for each request.
    measure("log_lines_a_minute", 600.0, (60.0, 0.50)),
    measure("reserved", 512.0 * MIB, (64.0 * MIB, 0.25)),
];

const fn measure(name: &'static str, most: f64, growth: (f64, f64)) -> Measure {
    Measure { name, most, growth }
}

/// Why a sample is above what is allowed.
pub(in crate::soak) fn above(measure: &Measure, value: f64) -> Option<String> {
    let Measure { name, most, .. } = measure;
    (value > *most).then(|| format!("{name} is {value}, and at most {most} is allowed"))
}

/// How much more the last quarter has on average than the second; the first is warm-up.
pub(in crate::soak) fn growth(samples: &[f64]) -> Option<(f64, f64)> {
    let quarter = samples.len() / 4;
    if quarter == 0 {
        return None;
    }
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let second = mean(&samples[quarter..2 * quarter]);
    let last = mean(&samples[samples.len() - quarter..]);
    Some((second, last - second))
}

/// Why the samples of one process are a leak.
pub(in crate::soak) fn leak(measure: &Measure, samples: &[f64]) -> Option<String> {
    if samples.len() < LIFE_MIN {
        return None;
    }
    let (second, more) = growth(samples)?;
    let (absolute, share) = measure.growth;
    let allowed = absolute + share * second;
    let name = measure.name;
    (more > allowed)
        .then(|| format!("{name} grew from {second:.0} by {more:.0}, and {allowed:.0} is allowed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: Measure = measure("m", 100.0, (5.0, 0.1));

    #[track_caller]
    fn check(samples: impl Iterator<Item = f64>, is_leak: bool) {
        let samples: Vec<f64> = samples.collect();
        assert_eq!(
            leak(&OF, &samples).is_some(),
            is_leak,
            "{:?}",
            growth(&samples)
        );
    }

    #[test]
    fn a_slope_is_a_leak_and_noise_is_none() {
        let all = || (0..1000).map(f64::from);
        check(all().map(|_| 50.0), false);
        // The allowance of 50 is 10.
        check(all().map(|at| 50.0 + at / 1000.0 * 12.0), false);
        check(all().map(|at| 50.0 + at / 1000.0 * 30.0), true);
        check(all().map(|at| 90.0 - at / 1000.0 * 30.0), false);
        // Warm-up, and a few peaks.
        check(all().map(|at| if at < 250.0 { 1.0 } else { 50.0 }), false);
        check(
            all().map(|at| if at % 50.0 == 49.0 { 99.0 } else { 50.0 }),
            false,
        );
        // A step between the second and the last quarter.
        check(all().map(|at| if at < 600.0 { 50.0 } else { 70.0 }), true);
    }

    #[test]
    fn a_short_life_tells_nothing() {
        check((0..599).map(f64::from), false);
        assert_eq!(growth(&[1.0, 2.0, 3.0]), None);
    }

    #[test]
    fn a_limit_holds_at_each_moment() {
        assert!(above(&OF, 100.0).is_none());
        assert!(above(&OF, 100.5).is_some());
    }
}
