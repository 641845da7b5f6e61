//! Variables that were probably meant to be others. Pure.

/// A warning for each variable of Mountpoint in `set` that is nearly one of `read`.
pub(super) fn misspelt(set: impl Iterator<Item = String>, read: &[&str]) -> Vec<String> {
    let warning = |name: String| {
        let is_ours = name.contains("MOUNTPOINT_");
        if !is_ours || read.contains(&name.as_str()) {
            return None;
        }
        let near = read.iter().map(|known| (distance(&name, known), known));
        let near = near.filter(|(distance, _)| *distance <= name.len() / DISTANCE_SHARE);
        let (_, known) = near.min()?;
        Some(format!(
            "{name} is no variable of mount-s3; there is {known}"
        ))
    };
    set.filter_map(warning).collect()
}

/// The letters to insert, remove or replace until one text is the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.bytes().enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (place, known) in other.bytes().enumerate() {
            let replaced = before + usize::from(letter != known);
            before = row[place + 1];
            row[place + 1] = replaced.min(before + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

/// The part of a name that may differ, as a divisor. Variables of scripts, as `MOUNTPOINT_DIR`,
/// differ more.
const DISTANCE_SHARE: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    const READ: [&str; 4] = [
        "MOUNTPOINT_HEDGING",
        "MOUNTPOINT_PID_FILE",
        "MOUNTPOINT_MAX_BACKGROUND",
        "UNSTABLE_MOUNTPOINT_MAX_PREFETCH_WINDOW_SIZE",
    ];

    #[test]
    fn names_that_are_nearly_known_are_told() {
        for (name, known) in [
            ("MOUNTPOINT_HEDGEING", Some("MOUNTPOINT_HEDGING")),
            ("MOUNTPOINT_PIDFILE", Some("MOUNTPOINT_PID_FILE")),
            (
                "MOUNTPOINT_MAX_BACKGROUNDS",
                Some("MOUNTPOINT_MAX_BACKGROUND"),
            ),
            (
                "UNSTABLE_MOUNTPOINT_MAX_PREFETCH_WINDOW",
                Some("UNSTABLE_MOUNTPOINT_MAX_PREFETCH_WINDOW_SIZE"),
            ),
            ("MOUNTPOINT_HEDGING", None),
            ("UNSTABLE_MOUNTPOINT_PID_FILE", None),
            ("MOUNTPOINT_TEST_SERVERS", None),
            ("MOUNTPOINT_DIR", None),
            ("MOUNTPOINT_PATH", None),
            ("HEDGING", None),
            ("", None),
        ] {
            let warnings = misspelt([name.to_owned()].into_iter(), &READ);
            let expected = known.map(|known| format!("; there is {known}"));
            assert_eq!(warnings.is_empty(), known.is_none(), "{warnings:?}");
            assert!(
                warnings
                    .iter()
                    .all(|it| it.ends_with(expected.as_deref().unwrap_or_default())),
                "{warnings:?}"
            );
        }
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
