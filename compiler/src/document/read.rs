//! Bytes → [`Source`]: size, encoding, byte order mark. Everything that can be said before YAML is looked at.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::source::{Source, SourceId, SourceMap, Span};

/// Largest file that is read, in bytes.
pub const MAX_BYTES: usize = 4 << 20;

/// Adds the file to `sources`, whatever is in it, so that a problem always has a place to point at.
///
/// With a problem, the text in `sources` is only good for showing.
pub fn read(sources: &mut SourceMap, path: &str, bytes: &[u8]) -> (SourceId, Option<Diagnostic>) {
    if bytes.len() > MAX_BYTES {
        let id = sources.add(Source::new(path, ""));
        let message = format!("the file is longer than the limit of {MAX_BYTES} bytes");
        let problem = Diagnostic::new(Code::FileTooLarge, Span::new(id, 0..0), message)
            .help("a config holds servers and rules; move everything else out of it");
        return (id, Some(problem));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let text = text.strip_prefix('\u{feff}').unwrap_or(text);
            let id = sources.add(Source::new(path, text));
            (id, control_character(id, text))
        }
        Err(error) => not_utf8(sources, path, bytes, error.valid_up_to()),
    }
}

/// Shows the text up to the bad byte and the rest of its line; a binary file would fill the screen otherwise.
fn not_utf8(sources: &mut SourceMap, path: &str, bytes: &[u8], bad: usize) -> (SourceId, Option<Diagnostic>) {
    let rest = &bytes[bad..bytes.len().min(bad + 40)];
    let rest = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let before = String::from_utf8_lossy(&bytes[..bad]);
    let skipped = if before.starts_with('\u{feff}') { 3 } else { 0 };
    let text = format!("{}{}", &before[skipped..], String::from_utf8_lossy(rest));
    let start = bad - skipped;
    let end = start + text[start..].chars().next().map_or(0, char::len_utf8);
    let id = sources.add(Source::new(path, text));
    let (message, label) = match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => ("the file is UTF-16, not UTF-8".to_owned(), String::new()),
        _ => (
            format!("the file is not UTF-8: byte {} is 0x{:02x}", bad + 1, bytes[bad]),
            format!("0x{:02x} here", bytes[bad]),
        ),
    };
    let problem =
        Diagnostic::new(Code::NotUtf8, Span::new(id, start..end), message).label(label).help("save the file as UTF-8");
    (id, Some(problem))
}

/// The first character that YAML forbids everywhere. Found here since a parser may take NUL for the end of the text.
fn control_character(id: SourceId, text: &str) -> Option<Diagnostic> {
    let at = text.bytes().position(|byte| byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r') || byte == 0x7f)?;
    let byte = text.as_bytes()[at];
    let name = if byte == 0 { "a NUL byte".to_owned() } else { format!("the control character U+{byte:04X}") };
    Some(
        Diagnostic::new(Code::Syntax, Span::new(id, at..at + 1), format!("{name} stands in the text"))
            .label("invisible in most editors")
            .help(match byte {
                0 => "remove it; nothing can be given one".to_owned(),
                byte => format!("remove it, or write it as `\\x{byte:02x}` between double quotes"),
            }),
    )
}
