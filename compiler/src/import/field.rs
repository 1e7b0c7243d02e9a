//! Single fields as clients write them: transports, truth values, command lines, maps that may be lists.

use super::tree::{Foreign, Kind};

/// A way to reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Stdio,
    StreamableHttp,
    Sse,
    Websocket,
    /// Somewhere else; which way shows in the URL.
    Remote,
}

impl Transport {
    /// The word of our language.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::StreamableHttp | Self::Remote => "streamable_http",
            Self::Sse => "sse",
            Self::Websocket => "websocket",
        }
    }

    /// The word of the clients.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::StreamableHttp | Self::Remote => "http",
            Self::Sse => "sse",
            Self::Websocket => "websocket",
        }
    }

    /// What a URL says about the way: its scheme, or a path that ends in `/sse`.
    pub(super) fn of_url(url: &str) -> Self {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        if matches!(scheme.to_ascii_lowercase().as_str(), "ws" | "wss") {
            return Self::Websocket;
        }
        let path = rest.split(['?', '#']).next().unwrap_or_default();
        if path.trim_end_matches('/').ends_with("/sse") { Self::Sse } else { Self::StreamableHttp }
    }
}

/// Reads a transport in any spelling.
pub(super) fn transport(written: &str) -> Option<Transport> {
    let folded: String = written.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    Some(match folded.as_str() {
        "stdio" | "local" | "command" | "process" | "std" | "stdioserver" => Transport::Stdio,
        "http" | "https" | "streamablehttp" | "streamable" | "httpstream" | "streamhttp" | "httpstreamable"
        | "httpstreaming" => Transport::StreamableHttp,
        "sse" | "httpsse" | "ssehttp" => Transport::Sse,
        "websocket" | "ws" | "wss" | "websockets" => Transport::Websocket,
        "remote" | "url" => Transport::Remote,
        _ => return None,
    })
}

/// Reads a truth value, also one written as a text.
pub(super) fn truth(value: &Foreign) -> Option<bool> {
    match &value.kind {
        Kind::Bool(value) => Some(*value),
        Kind::Text(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            _ => None,
        },
        Kind::Number(text) => match text.as_str() {
            "1" => Some(true),
            "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// The texts of a list of scalars, or of one scalar.
pub(super) fn texts(value: &Foreign) -> Option<Vec<String>> {
    match &value.kind {
        Kind::List(items) => items.iter().map(|item| item.text().map(str::to_owned)).collect(),
        Kind::Null => Some(Vec::new()),
        _ => Some(vec![value.text()?.to_owned()]),
    }
}

/// A name and its value; `None` for one that only names something.
pub(super) type Pair = (String, Option<String>);

/// A map of texts, as a map, as `[{ name, value }]`, as `["NAME=value"]` or as `["Name: value"]`.
pub(super) fn pairs(value: &Foreign, separator: char) -> Vec<Result<Pair, String>> {
    let from_item = |item: &Foreign| {
        if let Some(text) = item.string() {
            return Ok(match text.split_once(separator) {
                Some((name, value)) => (name.trim().to_owned(), Some(value.trim_start().to_owned())),
                None => (text.to_owned(), None),
            });
        }
        let name = ["name", "key", "env"].iter().find_map(|key| item.get(key)?.text()).map(str::to_owned);
        let value = item.get("value").or_else(|| item.get("default")).and_then(Foreign::text).map(str::to_owned);
        name.map(|name| (name, value)).ok_or_else(|| item.what().to_owned())
    };
    let map = value.entries().iter().map(|entry| match (&entry.value.kind, entry.value.text()) {
        (_, Some(text)) => Ok((entry.key.clone(), Some(text.to_owned()))),
        (Kind::Null, None) => Ok((entry.key.clone(), None)),
        _ => Err(entry.key.clone()),
    });
    map.chain(value.items().iter().map(from_item)).collect()
}

/// A command line in one text, as words; `None` where it is one program.
///
/// A path may hold blanks, so a text with a slash in its first word is only split when an option follows.
pub(super) fn command_line(text: &str) -> Option<Vec<String>> {
    let words = split(text)?;
    let [program, rest @ ..] = words.as_slice() else { return None };
    if rest.is_empty() {
        return (program != text).then_some(words);
    }
    let path = program.contains(['/', '\\']) && !text.starts_with(['"', '\'']);
    if path && !rest.iter().any(|word| word.starts_with('-')) {
        return None;
    }
    Some(words)
}

/// Words apart, with quotes as a shell has them; `None` when a quote isn't closed.
pub(super) fn split(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// The program of a command, without its directory and ending.
pub(super) fn program(command: &str) -> String {
    let base = command.rsplit(['/', '\\']).next().unwrap_or(command).to_ascii_lowercase();
    [".exe", ".cmd", ".bat"].iter().find_map(|end| base.strip_suffix(end)).unwrap_or(&base).to_owned()
}

/// From which argument on a shell reads the words, if the command is one.
pub(super) fn shell_from(command: &str, args: &[String]) -> Option<usize> {
    let flags: &[&str] = match program(command).as_str() {
        "sh" | "bash" | "zsh" | "dash" | "fish" => &["-c", "-lc", "-ic", "-ec", "-euc"],
        "cmd" => &["/c", "/C", "/k", "/K"],
        "powershell" | "pwsh" => &["-Command", "-command", "-c"],
        _ => return None,
    };
    args.iter().position(|arg| flags.contains(&arg.as_str())).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_transport() {
        for (written, word) in [
            ("stdio", "stdio"),
            ("local", "stdio"),
            ("http", "streamable_http"),
            ("streamable-http", "streamable_http"),
            ("streamableHttp", "streamable_http"),
            ("streamable_http", "streamable_http"),
            ("SSE", "sse"),
            ("websocket", "websocket"),
            ("ws", "websocket"),
            ("remote", "streamable_http"),
        ] {
            assert_eq!(transport(written).unwrap().word(), word, "{written}");
        }
        assert_eq!(transport("mock-mcp"), None);
        assert_eq!(Transport::of_url("https://x.dev/v1/sse?a=1"), Transport::Sse);
        assert_eq!(Transport::of_url("wss://x.dev/mcp"), Transport::Websocket);
        assert_eq!(Transport::of_url("https://sse.dev/mcp"), Transport::StreamableHttp);
    }

    #[test]
    fn command_lines_are_told_from_paths() {
        let words = |text| command_line(text).map(|words| words.join("|"));
        assert_eq!(words("python server.py").as_deref(), Some("python|server.py"));
        assert_eq!(words("npx -y \"a b\"").as_deref(), Some("npx|-y|a b"));
        assert_eq!(words("/usr/bin/npx -y x").as_deref(), Some("/usr/bin/npx|-y|x"));
        assert_eq!(words("C:\\Program Files\\node.exe"), None);
        assert_eq!(words("\"C:\\Program Files\\node.exe\" x").as_deref(), Some("C:\\Program Files\\node.exe|x"));
        assert_eq!(words("npx"), None);
        assert_eq!(words("a \"b"), None);
    }
}
