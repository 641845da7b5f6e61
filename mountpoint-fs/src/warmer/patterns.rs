//! Selection of keys by the patterns of `--include` and `--exclude`.
//!
//! Pure. A pattern without `/` matches each name in a key, one with `/` the whole key below the
//! prefix. A pattern that matches a directory matches all keys below it. `*` stays within a name,
//! as in a shell.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

/// The pattern of one flag.
#[derive(Clone, Debug)]
pub(super) struct Pattern(Vec<Glob>);

/// The patterns of a run.
#[derive(Clone, Debug)]
pub(super) struct Patterns {
    /// `None` if all keys are included.
    include: Option<GlobSet>,
    exclude: GlobSet,
}

impl Patterns {
    /// Combines the patterns of the flags.
    ///
    /// # Errors
    /// A text for the user: the patterns together are too large.
    pub(super) fn new(include: &[Pattern], exclude: &[Pattern]) -> Result<Self, String> {
        let include = (!include.is_empty()).then(|| set_of(include));
        Ok(Self {
            include: include.transpose()?,
            exclude: set_of(exclude)?,
        })
    }

    /// Whether the patterns select `key`, which is relative to the prefix.
    pub(super) fn want(&self, key: &str) -> bool {
        let is_included = match &self.include {
            Some(include) => include.is_match(key),
            None => true,
        };
        is_included && !self.exclude.is_match(key)
    }
}

fn set_of(patterns: &[Pattern]) -> Result<GlobSet, String> {
    let mut set = GlobSetBuilder::new();
    for glob in patterns.iter().flat_map(|pattern| &pattern.0) {
        set.add(glob.clone());
    }
    set.build()
        .map_err(|error| format!("cannot use the patterns: {error}"))
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
    let parsed = globs.into_iter().flatten().map(|glob| {
        let mut builder = GlobBuilder::new(&glob);
        builder.literal_separator(true).backslash_escape(true);
        builder.build().map_err(|error| error.kind().to_string())
    });
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
        let patterns = Patterns::new(&parse(include), &parse(exclude)).unwrap();
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
        for text in ["", "/", "//", "[", "{a", "a\\"] {
            assert!(parse_pattern(text).is_err(), "{text}");
        }
    }
}
