//! Selection of keys by the patterns of `--include` and `--exclude`.
//!
//! Pure. A pattern without `/` matches each name in a key, one with `/` the whole key below the
//! prefix. A pattern that matches a directory matches all keys below it. `*` stays within a name,
//! as in a shell.

use super::glob::Glob;

/// The pattern of one flag.
#[derive(Clone, Debug)]
pub(super) struct Pattern(Vec<Glob>);

/// The patterns of a run.
#[derive(Clone, Debug)]
pub(super) struct Patterns {
    /// `None` if all keys are included.
    include: Option<Vec<Glob>>,
    exclude: Vec<Glob>,
}

impl Patterns {
    /// Combines the patterns of the flags.
    pub(super) fn new(include: &[Pattern], exclude: &[Pattern]) -> Self {
        Self {
            include: (!include.is_empty()).then(|| all_of(include)),
            exclude: all_of(exclude),
        }
    }

    /// Whether the patterns select `key`, which is relative to the prefix.
    pub(super) fn want(&self, key: &str) -> bool {
        if self.include.is_none() && self.exclude.is_empty() {
            return true;
        }
        let has = |globs: &[Glob]| globs.iter().any(|glob| glob.is_match(key));
        self.include.as_deref().is_none_or(has) && !has(&self.exclude)
    }
}

fn all_of(patterns: &[Pattern]) -> Vec<Glob> {
    let globs = patterns.iter().flat_map(|pattern| &pattern.0);
    globs.cloned().collect()
}

/// Parses the pattern of a flag.
pub(super) fn parse_pattern(text: &str) -> Result<Pattern, String> {
    let body = text.trim_start_matches('/').trim_end_matches('/');
    if body.is_empty() {
        return Err("a pattern names something below the prefix".to_owned());
    }
    let is_whole_key = text.starts_with('/') || body.contains('/');
    let base = if is_whole_key {
        body.to_owned()
    } else {
        format!("**/{body}")
    };
    let below = format!("{base}/**");
    let is_directory = text.ends_with('/');
    let globs = [(!is_directory).then_some(base), Some(below)];
    let parsed = globs.iter().flatten().map(|glob| Glob::parse(glob));
    Ok(Pattern(parsed.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks which of `keys` the patterns select.
    #[track_caller]
    fn check(include: &[&str], exclude: &[&str], keys: &str, wanted: &str) {
        let parse = |texts: &[&str]| -> Vec<Pattern> {
            texts.iter().map(|it| parse_pattern(it).unwrap()).collect()
        };
        let patterns = Patterns::new(&parse(include), &parse(exclude));
        let kept: Vec<&str> = keys.split(' ').filter(|key| patterns.want(key)).collect();
        assert_eq!(kept.join(" "), wanted, "{include:?} {exclude:?}");
    }

    #[test]
    fn patterns_of_names_and_of_keys() {
        let all = "a.jpg b.png d/a.jpg d/e/c.jpg d/.hidden.jpg";
        check(&[], &[], all, all);
        check(
            &["*.jpg"],
            &[],
            all,
            "a.jpg d/a.jpg d/e/c.jpg d/.hidden.jpg",
        );
        check(&["/*.jpg"], &[], all, "a.jpg");
        check(&["d/*.jpg"], &[], all, "d/a.jpg d/.hidden.jpg");
        check(&["d/**/*.jpg"], &[], all, "d/a.jpg d/e/c.jpg d/.hidden.jpg");
        check(&["*.png", "e"], &[], all, "b.png d/e/c.jpg");
        check(&["{a,c}.jpg"], &[], all, "a.jpg d/a.jpg d/e/c.jpg");
        check(&["?.jpg"], &["a.*"], all, "d/e/c.jpg");
        check(&["[b-c].*"], &[], all, "b.png d/e/c.jpg");
        check(&["[!b-c].*"], &[], all, "a.jpg d/a.jpg");
        check(&["/{**/c,b}.*"], &[], all, "b.png d/e/c.jpg");
        check(&["/d**g"], &[], all, "");
        check(&["/**/e/*"], &[], all, "d/e/c.jpg");
        check(&["\\a.jpg"], &[], all, "a.jpg d/a.jpg");
        check(&["d[+-9]a*"], &[], all, "");
        check(&["[.]*.jpg"], &[], all, "d/.hidden.jpg");
    }

    #[test]
    fn characters_count_and_not_their_bytes() {
        let all = "\u{e9}.jpg \u{1f600}.jpg ab.jpg \u{e9}\u{e8}.jpg";
        check(&["?.jpg"], &[], all, "\u{e9}.jpg \u{1f600}.jpg");
        check(&["??.jpg"], &[], all, "ab.jpg \u{e9}\u{e8}.jpg");
        check(&["[\u{e0}-\u{ff}].jpg"], &[], all, "\u{e9}.jpg");
        check(
            &["[!a-z]*"],
            &["\u{e9}?.*"],
            all,
            "\u{e9}.jpg \u{1f600}.jpg",
        );
    }

    #[test]
    fn directories_stand_for_all_below() {
        let all = "x tmp y/tmp tmp/x a/tmp/b/x tmpx/a";
        check(&[], &["tmp/"], all, "x tmp y/tmp tmpx/a");
        check(&[], &["tmp"], all, "x tmpx/a");
        check(&["/tmp"], &[], all, "tmp tmp/x");
        check(&["a/tmp/"], &[], all, "a/tmp/b/x");
        check(&["a/*/b"], &[], all, "a/tmp/b/x");
        check(&["t*"], &["x"], all, "tmp y/tmp tmpx/a");
    }

    #[test]
    fn patterns_that_are_none() {
        for text in ["", "/", "//", "[", "[]", "[z-a]", "{a", "a}", "a\\"] {
            assert!(parse_pattern(text).is_err(), "{text}");
        }
    }
}
