//! What a scalar means (core schema of YAML 1.2) and which bytes of the file its text came from.

use std::ops::Range;

use granit_parser::ScalarStyle;

use super::Kind;

/// How the text of a scalar maps to bytes of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Inner {
    /// Unclear: escapes or folded lines.
    Whole,
    /// Byte for byte, from this offset of the file on.
    From(usize),
    /// Line by line: (offset in the text, offset in the file) of each line of a literal block.
    Lines(Vec<(usize, usize)>),
}

impl Inner {
    /// Where the text of a scalar written over `range` of `source` comes from.
    pub(super) fn of(source: &str, range: &Range<usize>, text: &str, style: ScalarStyle) -> Self {
        let Some(written) = source.get(range.clone()) else { return Self::Whole };
        let (skipped, content) = match style {
            ScalarStyle::Literal => return literal_lines(source, range, text).map_or(Self::Whole, Self::Lines),
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => {
                (1, written.get(1..written.len().saturating_sub(1)).unwrap_or_default())
            }
            // Folding may leave a text as it is; then it is as exact as a plain one.
            _ => (0, written),
        };
        if content == text { Self::From(range.start + skipped) } else { Self::Whole }
    }

    /// Bytes of the file that hold `range` of the text.
    pub(super) fn locate(&self, range: Range<usize>) -> Option<Range<usize>> {
        match self {
            Self::Whole => None,
            Self::From(start) => Some(start + range.start..start + range.end),
            Self::Lines(lines) => {
                let line = lines.partition_point(|(text, _)| *text <= range.start).checked_sub(1)?;
                let (text, file) = lines[line];
                let next = lines.get(line + 1).map_or(usize::MAX, |(text, _)| *text);
                (range.end <= next).then(|| file + (range.start - text)..file + (range.end - text))
            }
        }
    }
}

/// Literal blocks keep their lines one to one, less the indentation.
fn literal_lines(source: &str, range: &Range<usize>, text: &str) -> Option<Vec<(usize, usize)>> {
    let mut lines = Vec::new();
    let mut at_text = 0;
    // The span starts with the content of the first line, after its indentation.
    let mut at_file = line_start(source, range.start);
    for line in text.lines() {
        let written = source.get(at_file..)?.split('\n').next()?;
        let shown = written.strip_suffix('\r').unwrap_or(written);
        let indent = shown.strip_suffix(line)?;
        if !indent.bytes().all(|byte| byte == b' ') {
            return None;
        }
        lines.push((at_text, at_file + indent.len()));
        at_text += line.len() + 1;
        at_file += written.len() + 1;
    }
    Some(lines)
}

/// The first byte of the line that `offset` is on.
pub(super) fn line_start(source: &str, offset: usize) -> usize {
    source[..offset].rfind('\n').map_or(0, |newline| newline + 1)
}

/// The value of a plain scalar.
pub(super) fn resolve(text: String) -> Kind {
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Bool(true, text),
        "false" | "False" | "FALSE" => Kind::Bool(false, text),
        written if number(written).is_some() => Kind::Number(text),
        _ => Kind::String(text),
    }
}

/// A number as read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    /// A whole number.
    Whole(i128),
    /// Any other finite one, or one too large for the above.
    Float(f64),
}

/// Reads a number of the core schema, or says that it is none. Infinities and leading zeros are none.
pub(crate) fn number(text: &str) -> Option<Number> {
    // Nothing but these characters: a cheap answer for nearly every text.
    if text.len() > 400 || !text.bytes().all(|byte| byte.is_ascii_hexdigit() || b"+-.xo".contains(&byte)) {
        return None;
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !decimal(unsigned) {
        return None;
    }
    if unsigned.bytes().all(|byte| byte.is_ascii_digit())
        && let Ok(whole) = text.parse::<i128>()
    {
        return Some(Number::Whole(whole));
    }
    text.parse::<f64>().ok().filter(|float| float.is_finite()).map(Number::Float)
}

fn radix(digits: &str, radix: u32) -> Option<Number> {
    if digits.starts_with(['+', '-']) {
        return None;
    }
    i128::from_str_radix(digits, radix).ok().map(Number::Whole)
}

/// `[0-9]+ ( \. [0-9]* )?` or `\. [0-9]+`, then an exponent; no digit after a leading zero.
fn decimal(text: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    let mut rest = &text[whole..];
    let mut fraction = 0;
    if let Some(after) = rest.strip_prefix('.') {
        fraction = digits(after);
        rest = &after[fraction..];
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if exponent.is_empty() || digits(exponent) != exponent.len() {
            return false;
        }
        rest = "";
    }
    rest.is_empty() && whole + fraction > 0 && !(whole > 1 && text.starts_with('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_schema_numbers_and_the_texts_that_only_look_like_them() {
        for (text, value) in [
            ("0", Number::Whole(0)),
            ("8080", Number::Whole(8080)),
            ("-5", Number::Whole(-5)),
            ("+5", Number::Whole(5)),
            ("0x1F", Number::Whole(31)),
            ("0o17", Number::Whole(15)),
            ("18446744073709551616", Number::Whole(1 << 64)),
            ("1.10", Number::Float(1.1)),
            ("1.", Number::Float(1.0)),
            (".5", Number::Float(0.5)),
            ("-.5", Number::Float(-0.5)),
            ("0.5", Number::Float(0.5)),
            ("1e3", Number::Float(1000.0)),
            ("1.5E-3", Number::Float(0.0015)),
        ] {
            assert_eq!(number(text), Some(value), "{text}");
        }
        for text in [
            "017", "00", "-017", "1_000", ".inf", "-.inf", ".nan", "1e999", "inf", "NaN", ".", "-", "+", "e3", "1e",
            "1e+", "1.2.3", "0x", "0x-1", "0b1", "1:30", "abc", "--1", "1-", "00.5", "",
        ] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn words_of_yaml_1_1_are_texts() {
        for word in ["yes", "no", "on", "off", "y", "n", "tRUE", "nULL"] {
            assert!(matches!(resolve(word.to_owned()), Kind::String(_)), "{word}");
        }
        assert!(matches!(resolve("~".to_owned()), Kind::Null));
        assert!(matches!(resolve("True".to_owned()), Kind::Bool(true, text) if text == "True"));
    }
}
