//! Patterns against a second, plain implementation of `fnmatch`: the first line is the pattern, the rest the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcplan_compiler::pattern::Pattern;

/// Every way to spend a `*`, as a table: nothing clever that could be wrong in the same way.
fn fnmatch(pattern: &[char], text: &[char]) -> bool {
    let mut fits = vec![false; text.len() + 1];
    fits[0] = true;
    let mut at = 0;
    while at < pattern.len() {
        let mut next = vec![false; text.len() + 1];
        let class = if pattern[at] == '[' { class(&pattern[at + 1..]) } else { None };
        if pattern[at] == '*' {
            let mut any = false;
            for place in 0..=text.len() {
                any |= fits[place];
                next[place] = any;
            }
            at += 1;
        } else {
            for place in 0..text.len() {
                let takes = match (&class, pattern[at]) {
                    (Some((members, _)), _) => takes(members, text[place]),
                    (None, '?') => true,
                    (None, other) => text[place] == other,
                };
                next[place + 1] = fits[place] && takes;
            }
            at += class.map_or(1, |(_, length)| length + 2);
        }
        fits = next;
    }
    fits[text.len()]
}

/// What stands between `[` and its `]`, which isn't the first character of the class.
fn class(rest: &[char]) -> Option<(Vec<char>, usize)> {
    let first = usize::from(rest.first() == Some(&'!')) + 1;
    let close = (first..rest.len()).find(|at| rest[*at] == ']')?;
    Some((rest[..close].to_vec(), close))
}

fn takes(members: &[char], c: char) -> bool {
    let (negated, members) = match members {
        ['!', rest @ ..] => (true, rest),
        all => (false, all),
    };
    let mut found = false;
    let mut at = 0;
    while at < members.len() {
        if at + 2 < members.len() && members[at + 1] == '-' {
            found |= (members[at]..=members[at + 2]).contains(&c);
            at += 3;
        } else {
            found |= members[at] == c;
            at += 1;
        }
    }
    found != negated
}

fuzz_target!(|input: &str| {
    let (pattern, text) = input.split_once('\n').unwrap_or((input, ""));
    if pattern.len() * text.len() > 1 << 16 {
        return;
    }
    let (characters, told): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let compiled = Pattern::new(pattern);
    assert_eq!(compiled.matches(text), fnmatch(&characters, &told), "{pattern:?} on {text:?}");
    if compiled.is_literal() {
        assert_eq!(compiled.matches(text), pattern == text);
    }
});
