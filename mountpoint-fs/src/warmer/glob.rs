//! Patterns of names with `*`, `**`, `?`, `[…]`, `{…,…}` and `\`, over characters.
//!
//! Pure. The time of a match is bounded by the lengths of pattern and key: it follows all places of
//! the key that the pattern can have reached.

use std::iter::Peekable;
use std::ops::RangeInclusive;
use std::str::Chars;

/// A pattern of a whole key.
#[derive(Clone, Debug)]
pub(super) struct Glob(Vec<Token>);

#[derive(Clone, Debug)]
enum Token {
    Character(char),
    /// `?`, and `[…]`: one character but a slash, in or out of the ranges.
    One {
        ranges: Vec<RangeInclusive<char>>,
        is_in: bool,
    },
    /// `*`: any characters but slashes.
    Many,
    /// `**/`: any directories, or none.
    Directories,
    /// `**` at the end: all that follows, one character at least.
    Rest,
    Either(Vec<Vec<Self>>),
}

impl Glob {
    /// Parses a pattern.
    ///
    /// # Errors
    /// The reason, for the user.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut text = text.chars().peekable();
        let tokens = sequence(&mut text, true, 0)?;
        match text.next() {
            None => Ok(Self(tokens)),
            Some(_) => Err("a } without a {".to_owned()),
        }
    }

    /// Whether the pattern is of the whole `key`.
    pub(super) fn is_match(&self, key: &[char]) -> bool {
        reached(&self.0, key, vec![0]).contains(&key.len())
    }
}

/// The tokens up to the end of the text, or of an alternative at that `depth` of braces.
fn sequence(
    text: &mut Peekable<Chars<'_>>,
    begins_name: bool,
    depth: u32,
) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    while let Some(next) = text.peek().copied() {
        if next == '}' || next == ',' && depth > 0 {
            break;
        }
        text.next();
        let begins_name = match tokens.last() {
            None => begins_name,
            Some(Token::Character('/') | Token::Directories) => true,
            Some(_) => false,
        };
        tokens.push(match next {
            '?' => Token::One {
                ranges: Vec::new(),
                is_in: false,
            },
            '*' => stars(text, begins_name),
            '[' => class(text)?,
            '{' => Token::Either(alternatives(text, begins_name, depth)?),
            '\\' => Token::Character(text.next().ok_or("a \\ at the end")?),
            other => Token::Character(other),
        });
    }
    Ok(tokens)
}

/// The token of one or more stars, the first of which was read.
fn stars(text: &mut Peekable<Chars<'_>>, begins_name: bool) -> Token {
    let mut is_single = true;
    while text.next_if_eq(&'*').is_some() {
        is_single = false;
    }
    if is_single || !begins_name {
        return Token::Many;
    }
    if text.next_if_eq(&'/').is_some() {
        return Token::Directories;
    }
    match text.peek() {
        None | Some(',' | '}') => Token::Rest,
        Some(_) => Token::Many,
    }
}

/// The characters of `[…]`, whose bracket was read.
fn class(text: &mut Peekable<Chars<'_>>) -> Result<Token, String> {
    let unclosed = || "a [ without a ]".to_owned();
    let is_out = text.next_if(|it| matches!(it, '!' | '^')).is_some();
    let mut ranges = Vec::new();
    loop {
        let first = text.next().ok_or_else(unclosed)?;
        // A bracket in the first place is a character.
        if first == ']' && !ranges.is_empty() {
            break;
        }
        let mut range = first..=first;
        let mut ahead = text.clone();
        if ahead.next() == Some('-') && ahead.peek().is_some_and(|last| *last != ']') {
            text.next();
            range = first..=text.next().ok_or_else(unclosed)?;
        }
        if range.is_empty() {
            return Err(format!("{}-{} is no range", range.start(), range.end()));
        }
        ranges.push(range);
    }
    let is_in = !is_out;
    Ok(Token::One { ranges, is_in })
}

/// The alternatives of `{…}`, whose brace was read.
fn alternatives(
    text: &mut Peekable<Chars<'_>>,
    begins_name: bool,
    depth: u32,
) -> Result<Vec<Vec<Token>>, String> {
    if depth == BRACES_MAX {
        return Err(format!("more than {BRACES_MAX} braces in each other"));
    }
    let mut all = Vec::new();
    loop {
        all.push(sequence(text, begins_name, depth + 1)?);
        match text.next() {
            Some(',') => {}
            Some(_) => return Ok(all),
            None => return Err("a { without a }".to_owned()),
        }
    }
}

/// The places of `key` behind `tokens` that begin at one of `places`. Sorted, each once.
fn reached(tokens: &[Token], key: &[char], mut places: Vec<usize>) -> Vec<usize> {
    for token in tokens {
        let mut next = Vec::new();
        for place in places {
            let rest = &key[place..];
            match token {
                Token::Character(wanted) => {
                    next.extend((rest.first() == Some(wanted)).then_some(place + 1));
                }
                Token::One { ranges, is_in } => {
                    let is_it = |it: &char| {
                        *it != '/' && ranges.iter().any(|range| range.contains(it)) == *is_in
                    };
                    next.extend(rest.first().is_some_and(is_it).then_some(place + 1));
                }
                Token::Many => {
                    let name = rest.iter().take_while(|it| **it != '/').count();
                    next.extend(place..=place + name);
                }
                Token::Directories => {
                    next.push(place);
                    let slashes = rest.iter().enumerate().filter(|(_, it)| **it == '/');
                    next.extend(slashes.map(|(index, _)| place + index + 1));
                }
                Token::Rest => next.extend((!rest.is_empty()).then_some(key.len())),
                Token::Either(all) => {
                    for one in all {
                        next.extend(reached(one, key, vec![place]));
                    }
                }
            }
        }
        next.sort_unstable();
        next.dedup();
        places = next;
    }
    places
}

/// Braces in each other. More would be an endless recursion's.
const BRACES_MAX: u32 = 16;
