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

/// Longest template and address that are held against each other, in bytes.
const LENGTH_MAX: usize = 8 * 1024;
/// What the search for one address may cost, in characters looked at, whatever servers list: some 20 ms.
const LOOKS_MAX: usize = 10_000_000;

/// A template, read once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriTemplate {
    /// What each address begins with.
    head: String,
    rest: Vec<Part>,
}

/// What is left of the cost of a search.
#[derive(Debug)]
pub struct Looks(usize);

impl Default for Looks {
    fn default() -> Self {
        Self(LOOKS_MAX)
    }
}

impl UriTemplate {
    /// Reads a template; `None` for one with an open brace or of more than 8 KiB, which gives nothing.
    pub fn read(template: &str) -> Option<Self> {
        if template.len() > LENGTH_MAX {
            return None;
        }
        let head = template.split('{').next()?;
        Some(Self { head: head.to_owned(), rest: parts(&template[head.len()..])? })
    }

    /// What each address that comes of it begins with.
    pub fn head(&self) -> &str {
        &self.head
    }

    /// Whether `uri` can come of it.
    pub fn gives(&self, uri: &str, looks: &mut Looks) -> bool {
        let Some(rest) = uri.strip_prefix(&self.head).filter(|_| uri.len() <= LENGTH_MAX) else { return false };
        let uri: Vec<char> = rest.chars().collect();
        // What may be reached: `reached[n]` after the first n characters. Each part looks at each place once.
        let mut reached = vec![false; uri.len() + 1];
        reached[0] = true;
        for part in &self.rest {
            let Some(left) = looks.0.checked_sub(uri.len() + 1) else { return false };
            looks.0 = left;
            let mut next = vec![false; uri.len() + 1];
            let mut open = false;
            for at in 0..=uri.len() {
                let before = at.checked_sub(1).map(|at| uri[at]);
                let step = at > 0 && reached[at - 1];
                let is_plain = before.is_some_and(|c| !matches!(c, '/' | '?' | '#'));
                next[at] = match part {
                    Part::Literal(c) => step && before == Some(*c),
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
            if !next.contains(&true) {
                return false;
            }
            reached = next;
        }
        reached[uri.len()]
    }
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

    fn gives(template: &str, uri: &str) -> bool {
        UriTemplate::read(template).is_some_and(|template| template.gives(uri, &mut Looks::default()))
    }

    #[test]
    fn a_search_costs_no_more_than_so_much() {
        let long = format!("x://{}", "a".repeat(LENGTH_MAX));
        assert!(!gives("x://{+a}", &long) && !gives(&format!("{long}{{a}}"), "x://a"));
        let template = UriTemplate::read(&format!("x://{}/end", "{+a}".repeat(1_000))).unwrap();
        let uri = format!("x://{}/end", "a".repeat(4_000));
        let mut looks = Looks::default();
        assert!(template.gives(&uri, &mut looks));
        let found = (0..10_000).filter(|_| template.gives(&uri, &mut looks)).count();
        assert!(found < 5, "{found}");
        assert!(UriTemplate::read("x://b").unwrap().gives("x://b", &mut looks), "what needs no looking is free");
    }

    proptest::proptest! {
        #[test]
        fn any_template_and_any_address_have_an_answer(template in "[a/{}?+*.é]{0,20}", uri in "[a/?#.é]{0,20}") {
            let _any = gives(&template, &uri);
        }
    }
}
