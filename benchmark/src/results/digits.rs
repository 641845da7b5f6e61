//! Numbers as text. Pure.

/// Three significant digits, and all digits of a whole number.
pub(crate) fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a logarithm of an f64 is below 400"
    )]
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = usize::try_from(2 - magnitude)
        .unwrap_or(0)
        .min(DECIMALS_MAX);
    format!("{value:.decimals$}")
}

/// Decimals of a figure in a table; smaller ones are noise.
const DECIMALS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_enough() {
        let cases = [
            (0.0, "0"),
            (0.001234, "0.0012"),
            (0.317, "0.317"),
            (2.768, "2.77"),
            (31.41, "31.4"),
            (999.96, "1000"),
            (1234.5, "1234"),
        ];
        for (value, expected) in cases {
            assert_eq!(digits(value), expected);
        }
    }
}
