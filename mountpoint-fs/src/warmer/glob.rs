//! Patterns of names with `*`, `**`, `?`, `[…]`, `{…,…}` and `\`, over characters.
//!
//! Pure. Each is a regular expression, whose matches take bounded time.

use std::iter::Peekable;
use std::str::Chars;

use regex_lite::Regex;

/// A pattern of a whole key.
#[derive(Clone, Debug)]
pub(super) struct Glob(Regex);

impl Glob {
    /// Parses a pattern.
    ///
    /// # Errors
    /// The reason, for the user.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut text = text.chars().peekable();
        let mut pattern = "(?s)^".to_owned();
        let mut begins_name = true;
        // Whether a name begins at each brace that is open.
        let mut braces = Vec::new();
        while let Some(next) = text.next() {
            let began = std::mem::take(&mut begins_name);
            match next {
                '?' => pattern.push_str("[^/]"),
                '*' => {
                    let stars = stars(&mut text, began);
                    begins_name = stars == DIRECTORIES;
                    pattern.push_str(stars);
                }
                '[' => class(&mut text, &mut pattern)?,
                '{' => {
                    braces.push(began);
                    begins_name = began;
                    pattern.push_str("(?:");
                }
                ',' if !braces.is_empty() => {
                    begins_name = braces.last().copied().unwrap_or_default();
                    pattern.push('|');
                }
                '}' => {
                    braces.pop().ok_or("a } without a {")?;
                    pattern.push(')');
                }
                other => {
                    let literal = match other {
                        '\\' => text.next().ok_or("a \\ at the end")?,
                        other => other,
                    };
                    begins_name = literal == '/';
                    add(literal, &mut pattern);
                }
            }
        }
        if !braces.is_empty() {
            return Err("a { without a }".to_owned());
        }
        pattern.push('$');
        let parsed = Regex::new(&pattern);
        parsed.map(Self).map_err(|error| error.to_string())
    }

    /// Whether the pattern is of the whole `key`.
    pub(super) fn is_match(&self, key: &str) -> bool {
        self.0.is_match(key)
    }
}

/// The expression of one or more stars, the first of which was read.
fn stars(text: &mut Peekable<Chars<'_>>, begins_name: bool) -> &'static str {
    let mut is_single = true;
    while text.next_if_eq(&'*').is_some() {
        is_single = false;
    }
    if is_single || !begins_name {
        return IN_A_NAME;
    }
    if text.next_if_eq(&'/').is_some() {
        return DIRECTORIES;
    }
    match text.peek() {
        None | Some(',' | '}') => ".+",
        Some(_) => IN_A_NAME,
    }
}

/// Adds the expression of `[…]`, whose bracket was read: one character but a slash.
fn class(text: &mut Peekable<Chars<'_>>, pattern: &mut String) -> Result<(), String> {
    let unclosed = || "a [ without a ]".to_owned();
    let is_out = text.next_if(|it| matches!(it, '!' | '^')).is_some();
    pattern.push_str(if is_out { "[^/" } else { "[" });
    let mut is_first = true;
    loop {
        let first = text.next().ok_or_else(unclosed)?;
        // A bracket in the first place is a character.
        if first == ']' && !is_first {
            break;
        }
        is_first = false;
        let mut last = first;
        let mut ahead = text.clone();
        if ahead.next() == Some('-') && ahead.peek().is_some_and(|last| *last != ']') {
            text.next();
            last = text.next().ok_or_else(unclosed)?;
        }
        if first > last {
            return Err(format!("{first}-{last} is no range"));
        }
        let around_slash = [(first, last.min('.')), (first.max('0'), last)];
        for (first, last) in around_slash.iter().filter(|(first, last)| first <= last) {
            add(*first, pattern);
            pattern.push('-');
            add(*last, pattern);
        }
    }
    pattern.push(']');
    Ok(())
}

/// Adds a character that stands for itself.
fn add(literal: char, pattern: &mut String) {
    pattern.push_str(&regex_lite::escape(literal.encode_utf8(&mut [0; 4])));
}

/// Any characters but slashes.
const IN_A_NAME: &str = "[^/]*";
/// Any directories, or none.
const DIRECTORIES: &str = "(?:.*/)?";
