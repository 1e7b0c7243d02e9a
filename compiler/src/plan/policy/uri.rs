//! URIs: the one form that they are compared in, and patterns over them.

/// A pattern over URIs and paths: `*` stops at `/`, `**` does not, `?` is one character other than `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlashPattern(Vec<SlashPart>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlashPart {
    Literal(char),
    One,
    Segment,
    Anything,
}

impl SlashPattern {
    /// Compiles `text`. Every text is a pattern.
    pub fn new(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            parts.push(match c {
                '*' if chars.peek() == Some(&'*') => {
                    while chars.next_if_eq(&'*').is_some() {}
                    SlashPart::Anything
                }
                '*' => SlashPart::Segment,
                '?' => SlashPart::One,
                other => SlashPart::Literal(other),
            });
        }
        Self(parts)
    }

    /// What every text that it matches begins with.
    pub fn head(&self) -> String {
        let parts = self.0.iter();
        parts.map_while(|part| if let SlashPart::Literal(c) = part { Some(*c) } else { None }).collect()
    }

    /// Whether it matches whatever begins with its [head](Self::head).
    pub(super) fn is_head(&self) -> bool {
        matches!(&self.0[..], [head @ .., SlashPart::Anything] if head.iter().all(|part| matches!(part, SlashPart::Literal(_))))
    }

    /// Whether it is `**`, which matches every text.
    pub(super) fn is_everything(&self) -> bool {
        self.0 == [SlashPart::Anything]
    }

    /// The one text that it matches, when there is only one.
    pub(super) fn literal(&self) -> Option<String> {
        let parts = self.0.iter();
        parts.map(|part| if let SlashPart::Literal(c) = part { Some(*c) } else { None }).collect()
    }

    /// Whether the whole of `text` matches. Each part at each place is looked at once.
    pub fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        // What may be reached: `reached[n]` after the first n characters.
        let mut reached = vec![false; text.len() + 1];
        reached[0] = true;
        for part in &self.0 {
            let mut next = vec![false; text.len() + 1];
            let mut open = false;
            for at in 0..=text.len() {
                let before = at.checked_sub(1).map(|at| text[at]);
                let step = at > 0 && reached[at - 1];
                next[at] = match part {
                    SlashPart::Literal(c) => step && before == Some(*c),
                    SlashPart::One => step && before != Some('/'),
                    SlashPart::Anything => {
                        open |= reached[at];
                        open
                    }
                    SlashPart::Segment => {
                        open = reached[at] || open && before != Some('/');
                        open
                    }
                };
            }
            reached = next;
        }
        reached[text.len()]
    }
}

/// A URI in the one form that rules are matched against and servers are sent (RFC 3986): scheme and host in lower case,
/// `localhost` dropped from `file:`, unreserved percent-codes decoded, the others in upper case, dot segments removed. What
/// programs take for one file has one form: `file:/a`, `file:////a` and `file://127.0.0.1/a` are `file:///a`.
///
/// `None` for what can't be trusted to mean one thing: no scheme, a NUL, an encoded slash or backslash, a broken code, a
/// `file:` of another host, of a relative path or with a query.
pub fn normalize_uri(uri: &str) -> Option<String> {
    let (scheme, rest) = uri.split_once(':')?;
    let valid = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    if !valid || rest.contains(|c: char| c.is_control() || c == '\\') {
        return None;
    }
    let scheme = scheme.to_ascii_lowercase();
    let rest = decode(rest)?;
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let (hierarchy, tail) = rest.split_at(end);
    if scheme == "file" {
        // Some programs take a query for a part of the name, others for nothing.
        return file(hierarchy).filter(|_| tail.is_empty()).map(|path| format!("file://{path}"));
    }
    let Some(after) = hierarchy.strip_prefix("//") else {
        let path = if hierarchy.starts_with('/') { without_dots(hierarchy) } else { hierarchy.to_owned() };
        return Some(format!("{scheme}:{path}{tail}"));
    };
    let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
    let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(user, host)| (user, host));
    let host = host.to_ascii_lowercase();
    let at = if user.is_empty() { "" } else { "@" };
    Some(format!("{scheme}://{user}{at}{host}{}{tail}", without_dots(path)))
}

/// The path of a `file:` on this machine. Programs differ in what they make of other hosts and of doubled slashes.
fn file(hierarchy: &str) -> Option<String> {
    let path = match hierarchy.strip_prefix("//") {
        None => hierarchy,
        Some(after) => {
            let (host, path) = after.split_at(after.find('/')?);
            let is_here = ["", "localhost", "127.0.0.1", "[::1]"].iter().any(|here| host.eq_ignore_ascii_case(here));
            is_here.then_some(path)?
        }
    };
    let mut single = path.starts_with('/').then(String::new)?;
    for c in path.chars() {
        if c != '/' || !single.ends_with('/') {
            single.push(c);
        }
    }
    Some(without_dots(&single))
}

/// Percent-codes of unreserved characters decoded, the others in upper case.
fn decode(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 3).filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()))?;
        let byte = u8::from_str_radix(code, 16).ok()?;
        match byte {
            0 | b'/' | b'\\' => return None,
            b if b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~') => out.push(b as char),
            _ => {
                out.push('%');
                out.push_str(&code.to_ascii_uppercase());
            }
        }
        rest = &rest[at + 3..];
    }
    out.push_str(rest);
    Some(out)
}

fn without_dots(path: &str) -> String {
    if path.is_empty() {
        return String::new();
    }
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    for (index, segment) in segments.iter().enumerate() {
        let last = index + 1 == segments.len();
        match *segment {
            "." if last => kept.push(""),
            "." => {}
            ".." => {
                kept.pop();
                if last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn uris_have_one_form() {
        for (uri, expected) in [
            ("FILE://LOCALHOST/a/../b", "file:///b"),
            ("file:///%61/%2e%2e/b", "file:///b"),
            ("file:/etc/./passwd", "file:///etc/passwd"),
            ("file:////etc//passwd", "file:///etc/passwd"),
            ("file://127.0.0.1/etc/passwd", "file:///etc/passwd"),
            ("file://[::1]/etc/x", "file:///etc/x"),
            ("file:///a/.//../b", "file:///b"),
            ("file:///", "file:///"),
            ("https://User@EXAMPLE.com/a%c3%a9?q=../x", "https://User@example.com/a%C3%A9?q=../x"),
            ("http://h/../../x/..", "http://h/"),
            ("memo:a/../b", "memo:a/../b"),
            ("http://h", "http://h"),
        ] {
            assert_eq!(normalize_uri(uri).as_deref(), Some(expected), "{uri}");
        }
        for uri in [
            "file:///a%2fb",
            "file:etc/passwd",
            "file:///etc/passwd?x",
            "file:///etc/passwd#x",
            "file:",
            "file://etc",
            "file://other.example/etc/passwd",
            "file:///a%5cb",
            "file:///a%00",
            "file:///a%zz",
            "no scheme",
            "1x:y",
            "file:///a\\b",
            "file:///\u{0}",
        ] {
            assert_eq!(normalize_uri(uri), None, "{uri}");
        }
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing(uri in "(file|http)://[a-zA-Z.]{0,6}(/[a-z.%0-9A-F]{0,6}){0,5}(\\?[a-z]{0,3})?") {
            if let Some(once) = normalize_uri(&uri) {
                let again = normalize_uri(&once);
                prop_assert_eq!(again.as_ref(), Some(&once));
                // Behind the authority, which may be called anything.
                let path = once.split(['?', '#']).next().unwrap_or_default().splitn(4, '/').nth(3).unwrap_or_default();
                prop_assert!(!path.split('/').any(|segment| segment == ".."));
            }
        }

        #[test]
        fn uri_patterns_agree_with_a_regular_expression(pattern in "[ab/*?]{0,8}", text in "[ab/]{0,8}") {
            fn slow(pattern: &[SlashPart], text: &[char]) -> bool {
                match pattern.split_first() {
                    None => text.is_empty(),
                    Some((SlashPart::Literal(c), rest)) => text.first() == Some(c) && slow(rest, &text[1..]),
                    Some((SlashPart::One, rest)) => text.first().is_some_and(|c| *c != '/') && slow(rest, &text[1..]),
                    Some((SlashPart::Anything, rest)) => (0..=text.len()).any(|n| slow(rest, &text[n..])),
                    Some((SlashPart::Segment, rest)) => (0..=text.len()).take_while(|n| !text[..*n].contains(&'/')).any(|n| slow(rest, &text[n..])),
                }
            }
            let compiled = SlashPattern::new(&pattern);
            let chars: Vec<char> = text.chars().collect();
            prop_assert_eq!(compiled.matches(&text), slow(&compiled.0, &chars));
        }
    }
}
