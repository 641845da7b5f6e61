//! This machine's clock against the server's. Pure.

use crate::doctor::finding::{Area, Check, Finding};

/// The finding on the `Date` of an answer. `is_signed` means that requests contain the time.
pub(in crate::doctor) fn judge(ahead_s: Option<i64>, is_signed: bool) -> Finding {
    const CHECK: &str = "clock";
    let Some(ahead_s) = ahead_s else {
        return Check(Area::Bucket, CHECK).ok("not compared: the server sends no Date header");
    };
    let apart = ahead_s.unsigned_abs();
    let direction = if ahead_s > 0 { "behind" } else { "ahead of" };
    match apart {
        0..=SKEW_NORMAL_S => Check(Area::Bucket, CHECK).ok(format!("within {SKEW_NORMAL_S} s of the server's"),
        ),
        _ if !is_signed => Check(Area::Bucket, CHECK).ok(format!("{apart} s {direction} the server's; unsigned requests do not depend on it"),
        ),
        SKEW_MAX_S.. => Check(Area::Bucket, CHECK).warning(format!("{apart} s {direction} the server's; S3 refuses requests signed with it"),
            "set the clock: `timedatectl set-ntp true`, or start chronyd",
        ),
        _ => Check(Area::Bucket, CHECK).warning(format!(
                "{apart} s {direction} the server's; S3 refuses signed requests from {SKEW_MAX_S} s on"
            ),
            "set the clock: `timedatectl set-ntp true`, or start chronyd",
        ),
    }
}

/// Dates have whole seconds and answers take time.
const SKEW_NORMAL_S: u64 = 5;
/// S3's `RequestTimeTooSkewed` begins at 15 minutes.
const SKEW_MAX_S: u64 = 15 * 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;
    use crate::doctor::finding::tests::expect;

    #[test]
    fn skews() {
        for (ahead_s, is_signed, level, text) in [
            (None, true, Level::Ok, "not compared"),
            (Some(0), true, Level::Ok, "within 5 s"),
            (Some(-5), true, Level::Ok, "within 5 s"),
            (Some(6), true, Level::Warning, "6 s behind"),
            (Some(-60), true, Level::Warning, "60 s ahead"),
            (Some(899), true, Level::Warning, "from 900 s on"),
            (
                Some(900),
                true,
                Level::Warning,
                "S3 refuses requests signed",
            ),
            (Some(i64::MIN), true, Level::Warning, "timedatectl"),
            (Some(7200), false, Level::Ok, "do not depend"),
        ] {
            expect(&[judge(ahead_s, is_signed)], "clock", level, text);
        }
    }
}
