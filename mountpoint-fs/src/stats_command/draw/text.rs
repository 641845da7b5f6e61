//! Numbers as people read them. Pure.

use indicatif::{HumanBytes, HumanCount};
use ratatui::text::Line;

/// The rows of a text that is `width` columns wide. Words stay whole if they fit into a row.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in text.split(' ') {
        let row = rows.last_mut().expect("there is one");
        let room = width.saturating_sub(columns(row) + 1);
        if row.is_empty() {
            row.push_str(word);
        } else if columns(word) <= room {
            row.extend([" ", word]);
        } else {
            rows.push(word.to_owned());
        }
        let row = rows.pop().expect("there is one");
        rows.extend(cut(&row, width));
    }
    rows
}

/// Pieces of a text, each at most `width` columns wide; the text itself if there is no width.
fn cut(text: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for letter in text.chars() {
        let piece = pieces.last_mut().expect("there is one");
        let mut longer = piece.clone();
        longer.push(letter);
        if columns(&longer) > width.max(1) && !piece.is_empty() {
            pieces.push(letter.to_string());
        } else {
            *piece = longer;
        }
    }
    pieces
}

/// A text without its middle, if it is wider than `width` columns.
pub(super) fn shortened(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let front = cut(text, kept / 2).swap_remove(0);
    let backwards: String = text.chars().rev().collect();
    let end = cut(&backwards, kept - kept / 2).swap_remove(0);
    let end: String = end.chars().rev().collect();
    format!("{front}…{end}")
}

/// The columns that a text takes in a terminal.
pub(super) fn columns(text: &str) -> usize {
    Line::from(text).width()
}

/// Bytes in a second with three digits, as `1.50 MiB/s`, in at most ten columns.
pub(super) fn short_byte_rate(rate: f64) -> String {
    let (mut value, mut unit) = (rate.max(0.0), "B");
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1023.5 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    let digits = match value {
        _ if unit == "B" => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}/s")
}

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
    fn texts_are_wrapped_at_words_that_fit() {
        let rows = |text: &str, width| wrapped(text, width).join("|");
        for (text, width, expected) in [
            ("", 10, ""),
            ("one two three", 20, "one two three"),
            ("one two three", 7, "one two|three"),
            ("one two three", 6, "one|two|three"),
            ("/a/long/path is cut", 6, "/a/lon|g/path|is cut"),
            ("a /a/long/path", 6, "a|/a/lon|g/path"),
            ("ab", 0, "a|b"),
        ] {
            assert_eq!(rows(text, width), expected, "{text} {width}");
        }
    }

    #[test]
    fn the_middle_of_a_long_text_is_left_out() {
        for (width, expected) in [
            (14, "/a/long/path/x"),
            (9, "/a/l…th/x"),
            (8, "/a/…th/x"),
            (3, "/…x"),
        ] {
            assert_eq!(shortened("/a/long/path/x", width), expected);
        }
    }

    #[test]
    fn short_rates_have_ten_columns_at_most() {
        let mib = 1024.0 * 1024.0;
        for (rate, expected) in [
            (0.0, "0 B/s"),
            (1023.0, "1023 B/s"),
            (1.5 * mib, "1.50 MiB/s"),
            (15.04 * mib, "15.0 MiB/s"),
            (1023.0 * mib, "1023 MiB/s"),
            (1023.9 * mib, "1.00 GiB/s"),
            (99.97 * mib, "100 MiB/s"),
        ] {
            let text = short_byte_rate(rate);
            assert_eq!(text, expected);
            assert!(columns(&text) <= 10, "{text}");
        }
    }

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
    }
}
