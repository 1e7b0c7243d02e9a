//! A source's path as programs address it: relative to where they look from, or absolute.

/// `path` with `/` between its parts, relative to `root` where it lies below, without `./` at its start.
///
/// `root` is an absolute directory; without one paths stay as relative or absolute as they are.
pub(super) fn relative(path: &str, root: Option<&str>) -> String {
    let slashes = |path: &str| if cfg!(windows) { path.replace('\\', "/") } else { path.to_owned() };
    let path = slashes(path);
    let below = root.map(slashes).and_then(|root| {
        let rest = path.strip_prefix(root.trim_end_matches('/'))?.strip_prefix('/')?;
        Some(rest.to_owned())
    });
    let mut path = below.as_deref().unwrap_or(&path);
    while let Some(rest) = path.strip_prefix("./") {
        path = rest.trim_start_matches('/');
    }
    path.to_owned()
}

/// The path as a URI reference (RFC 3986): relative, or `file:` where it is absolute.
pub(super) fn uri(path: &str, root: Option<&str>) -> String {
    let path = relative(path, root);
    let drive = path.as_bytes().get(1) == Some(&b':') && path.as_bytes()[0].is_ascii_alphabetic() && cfg!(windows);
    let start = match path.starts_with('/') {
        true => "file://",
        false if drive => "file:///",
        false => "",
    };
    let mut uri = start.to_owned();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=@".contains(&byte) || (drive && byte == b':') {
            uri.push(char::from(byte));
        } else {
            uri += &format!("%{byte:02X}");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_root_where_they_lie_below_it() {
        for (path, seen) in [
            ("config.yml", "config.yml"),
            ("./a/config.yml", "a/config.yml"),
            (".//config.yml", "config.yml"),
            ("../config.yml", "../config.yml"),
            ("/srv/repo/a/config.yml", "a/config.yml"),
            ("/srv/repository/config.yml", "/srv/repository/config.yml"),
            ("/etc/config.yml", "/etc/config.yml"),
        ] {
            assert_eq!(relative(path, Some("/srv/repo")), seen, "{path}");
            assert_eq!(relative(path, Some("/srv/repo/")), seen, "{path}");
        }
        assert_eq!(relative("/srv/repo/x", None), "/srv/repo/x");
        assert_eq!(relative("/x", Some("/")), "x");
    }

    #[test]
    fn a_uri_holds_only_what_a_uri_can() {
        assert_eq!(uri("teams/a b#1?.yml", None), "teams/a%20b%231%3F.yml");
        assert_eq!(uri("é:100%.yml", None), "%C3%A9%3A100%25.yml");
        assert_eq!(uri("/etc/my config.yml", Some("/work")), "file:///etc/my%20config.yml");
    }
}
