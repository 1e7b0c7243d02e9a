//! Which URIs a resource template (RFC 6570) stands for. Nothing is taken out of them: the server does that.

/// A stretch of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Literal(char),
    /// A character that an expression without an operator gives: it encodes the separators of a URI.
    One,
    /// Any number of them.
    Some,
    /// Any text.
    Anything,
}

/// Whether `uri` can come of `template`. A template with an open brace gives nothing.
pub fn gives(template: &str, uri: &str) -> bool {
    let Some(parts) = parts(template) else { return false };
    let uri: Vec<char> = uri.chars().collect();
    // What may be reached: `reached[n]` after the first n characters. Each part looks at each place once.
    let mut reached = vec![false; uri.len() + 1];
    reached[0] = true;
    for part in parts {
        let mut next = vec![false; uri.len() + 1];
        let mut open = false;
        for at in 0..=uri.len() {
            let before = at.checked_sub(1).map(|at| uri[at]);
            let step = at > 0 && reached[at - 1];
            let is_plain = before.is_some_and(|c| !matches!(c, '/' | '?' | '#'));
            next[at] = match part {
                Part::Literal(c) => step && before == Some(c),
                Part::One => step && is_plain,
                Part::Some => {
                    open = reached[at] || open && is_plain;
                    open
                }
                Part::Anything => {
                    open |= reached[at];
                    open
                }
            };
        }
        reached = next;
    }
    reached[uri.len()]
}

fn parts(template: &str) -> Option<Vec<Part>> {
    let (mut parts, mut rest) = (Vec::new(), template);
    while let Some((literal, expression)) = rest.split_once('{') {
        let (expression, after) = expression.split_once('}')?;
        parts.extend(literal.chars().map(Part::Literal));
        match expression.chars().next()? {
            // These leave separators as they are, or bring some along.
            '+' | '#' | '/' | '?' | '&' => parts.push(Part::Anything),
            '.' | ';' => parts.push(Part::Some),
            // Several servers mean by it that the value may hold slashes.
            _ if expression.ends_with('*') => parts.push(Part::Anything),
            _ => parts.extend([Part::One, Part::Some]),
        }
        rest = after;
    }
    parts.extend(rest.chars().map(Part::Literal));
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_gives_what_its_expressions_can() {
        for (template, uri, expected) in [
            ("note://{id}", "note://7", true),
            ("note://{id}", "note://", false),
            ("note://{id}", "note://7/8", false),
            ("note://{id}/text", "note://7/text", true),
            ("note://{id}/text", "note://7/other", false),
            ("repo://{owner}/{name}", "repo://me/mcplan", true),
            ("repo://{owner}/{name}", "repo://me", false),
            ("file:///{+path}", "file:///a/b?c#d", true),
            ("file:///{path*}", "file:///a/b", true),
            ("x://list{?page,size}", "x://list", true),
            ("x://list{?page,size}", "x://list?page=2", true),
            ("x://list{?page,size}", "y://list?page=2", false),
            ("x://a{/b}", "x://a/b", true),
            ("x://a{.ext}", "x://a.json", true),
            ("x://a{.ext}", "x://a/json", false),
            ("x://plain", "x://plain", true),
            ("x://plain", "x://plain2", false),
            ("x://{open", "x://{open", false),
            ("x://{}", "x://", false),
            ("x://{name}", "x://Grüße%20dir", true),
        ] {
            assert_eq!(gives(template, uri), expected, "{template} {uri}");
        }
    }

    #[test]
    fn a_long_uri_takes_no_longer_than_its_length() {
        let template = "x://{a}{b}{c}{d}{+e}{+f}{+g}/end";
        assert!(!gives(template, &format!("x://{}", "a".repeat(20_000))));
    }
}
