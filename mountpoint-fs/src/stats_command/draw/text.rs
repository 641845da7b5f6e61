//! Numbers as people read them. Pure.

use indicatif::{HumanBytes, HumanCount};

/// Bytes, as `1.50 MiB`.
pub(super) fn bytes(count: f64) -> String {
    HumanBytes(whole(count)).to_string()
}

/// Bytes in a second.
pub(super) fn byte_rate(rate: f64) -> String {
    format!("{}/s", bytes(rate))
}

/// A count, as `1,234`; small rates with a digit behind the point.
pub(super) fn count(count: f64) -> String {
    if count > 0.0 && count < 10.0 && count.fract() != 0.0 {
        return format!("{count:.1}");
    }
    HumanCount(whole(count)).to_string()
}

/// A time in microseconds, as `1.5 ms`.
pub(super) fn time(micros: f64) -> String {
    let (value, unit) = match micros {
        micros if micros < 1e3 => return format!("{micros:.0} us"),
        micros if micros < 1e6 => (micros / 1e3, "ms"),
        micros => (micros / 1e6, "s"),
    };
    match value < 10.0 {
        true => format!("{value:.1} {unit}"),
        false => format!("{value:.0} {unit}"),
    }
}

/// A long time in milliseconds, as `2 d 3 h`.
pub(super) fn uptime(millis: u64) -> String {
    let seconds = millis / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A sum of money; small ones with more digits, so that one request is not nothing.
pub(super) fn dollars(amount: f64) -> String {
    match amount {
        amount if amount <= 0.0 => "$0".to_owned(),
        amount if amount < 0.01 => format!("${amount:.6}"),
        amount if amount < 10.0 => format!("${amount:.4}"),
        amount => format!("${amount:.2}"),
    }
}

/// A share, as `12 %`.
pub(super) fn share(part: f64, whole: f64) -> String {
    let share = if whole > 0.0 { part / whole } else { 0.0 };
    format!("{:.0} %", share * 100.0)
}

/// The nearest count; 0 for what is none.
pub(super) fn whole(value: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the conversion saturates, and takes 0 for what is no number"
    )]
    let whole = value.round() as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(bytes(1_572_864.0), "1.50 MiB");
        assert_eq!(byte_rate(0.0), "0 B/s");
        for (value, expected) in [(0.0, "0"), (0.25, "0.2"), (3.0, "3"), (12_345.6, "12,346")] {
            assert_eq!(count(value), expected);
        }
        for (micros, expected) in [
            (0.0, "0 us"),
            (999.0, "999 us"),
            (1500.0, "1.5 ms"),
            (15_000.0, "15 ms"),
            (2_500_000.0, "2.5 s"),
        ] {
            assert_eq!(time(micros), expected);
        }
        for (seconds, expected) in [
            (59, "59 s"),
            (61, "1 min"),
            (7260, "2 h 1 min"),
            (90_000, "1 d 1 h"),
        ] {
            assert_eq!(uptime(seconds * 1000), expected);
        }
        assert_eq!(
            (share(1.0, 3.0).as_str(), share(1.0, 0.0).as_str()),
            ("33 %", "0 %")
        );
        assert_eq!(count(f64::NAN), "0");
        for (amount, expected) in [
            (0.0, "$0"),
            (0.000_4, "$0.000400"),
            (1.5, "$1.5000"),
            (12.345, "$12.35"),
        ] {
            assert_eq!(dollars(amount), expected);
        }
    }
}
