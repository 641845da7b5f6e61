//! The list of what fails in a suite.
//!
//! A heading has the modes, or `all`, and the reason; the lines behind it have the failures:
//! `part.name` or `part: message`.

use std::collections::BTreeSet;

use super::{Failure, MODES};

/// What a list says.
pub(super) struct Expected<'a> {
    /// The modes, and a failure there.
    failures: Vec<(&'a str, &'a str)>,
}

impl<'a> Expected<'a> {
    /// Reads a list. A line that it cannot mean fails the test.
    pub(super) fn read(list: &'a str) -> Self {
        let mut modes = "";
        let mut failures = Vec::new();
        for line in list.lines().filter(|line| !line.is_empty()) {
            let Some(heading) = line.strip_prefix('[') else {
                assert!(!modes.is_empty(), "before a heading: {line}");
                failures.push((modes, line));
                continue;
            };
            let (named, reason) = heading.split_once("] ").unwrap_or((heading, ""));
            assert!(!reason.is_empty(), "without a reason: {line}");
            let is_known = |name| name == ALL || MODES.iter().any(|mode| mode.name == name);
            assert!(named.split(' ').all(is_known), "unknown mode: {line}");
            modes = named;
        }
        Self { failures }
    }

    /// The failures of a part in a mode.
    fn of(&self, mode: &str, part: &str) -> BTreeSet<&str> {
        let is_there = |modes: &str| modes.split(' ').any(|name| name == ALL || name == mode);
        let all = self.failures.iter();
        all.filter(|(modes, name)| is_there(modes) && part_of(name) == part)
            .map(|(_, name)| *name)
            .collect()
    }

    /// What went otherwise than the list says in a part, in words.
    pub(super) fn differences(&self, (mode, part): (&str, &str), found: &[Failure]) -> Vec<String> {
        let expected = self.of(mode, part);
        let names: BTreeSet<_> = found.iter().map(|failure| failure.name.as_str()).collect();
        let new = found.iter().filter(|it| !expected.contains(&*it.name));
        let new = new.map(|it| format!("{mode}: fails: {}\n{}", it.name, it.said));
        let passed = expected.iter().filter(|name| !names.contains(*name));
        let passed = passed.map(|name| format!("{mode}: is listed, and does not fail: {name}"));
        new.chain(passed).collect()
    }

    /// Every failure of the list belongs to one of these parts.
    pub(super) fn check_parts(&self, parts: &[&str]) {
        for (_, name) in &self.failures {
            assert!(parts.contains(&part_of(name)), "no such part: {name}");
        }
    }
}

/// The part of a suite that a failure is in.
fn part_of(name: &str) -> &str {
    let end = name.find(['.', ':']);
    end.map_or(name, |end| &name[..end])
}

const ALL: &str = "all";

#[test]
fn a_list_tells_what_is_new_and_what_does_not_fail() {
    let list = "[all] A reason.\na.one\nb: two\n\n[default staging] Another.\na.three\n";
    let expected = Expected::read(list);
    expected.check_parts(&["a", "b"]);
    let failure = |name: &str| Failure {
        name: name.to_owned(),
        said: "why".to_owned(),
    };
    let found = [failure("a.three"), failure("a.four")];
    let differences = |mode, part| expected.differences((mode, part), &found);
    let four = |mode: &str| format!("{mode}: fails: a.four\nwhy");
    let passes = |mode: &str, name: &str| format!("{mode}: is listed, and does not fail: {name}");
    assert_eq!(
        differences("staging", "a"),
        [four("staging"), passes("staging", "a.one")]
    );
    let there = "write-back: fails: a.three\nwhy".to_owned();
    let others = [there, four("write-back"), passes("write-back", "a.one")];
    assert_eq!(differences("write-back", "a"), others);
    let none = expected.differences(("default", "b"), &[failure("b: two")]);
    assert!(none.is_empty());
}
