//! What no client should have to cope with: JSON that is allowed and that many readers refuse, and with it the whole
//! message, so that the answer in it never comes.

use memchr::{memchr, memchr2, memchr2_iter, memmem};

use super::results::Text;

/// Deepest nesting that is passed on. Readers stop at 128, and a message has levels of its own around a result.
pub const DEPTH_MAX: usize = 120;

/// The result as any client can read it: half a character, which is what cutting a text in the middle of one leaves,
/// becomes the sign for an unknown one.
///
/// # Errors
/// When it is nested too deeply.
pub fn sound(result: Text) -> Result<Text, String> {
    if is_deeper(result.get(), DEPTH_MAX) {
        return Err(format!("it is nested deeper than {DEPTH_MAX}, and clients don't read that"));
    }
    let halves = halves(result.get());
    if halves.is_empty() {
        return Ok(result);
    }
    let mut text = result.into_string();
    for at in halves {
        text.replace_range(at..at + "fffd".len(), "fffd");
    }
    Ok(Text::cut_out(text))
}

/// Whether lists and objects stand in each other more than `max` times. `text` is JSON.
fn is_deeper(text: &str, max: usize) -> bool {
    // Most texts don't hold so many at all, and to count them is many times faster than to follow the strings.
    if memchr2_iter(b'{', b'[', text.as_bytes()).nth(max).is_none() {
        return false;
    }
    let (bytes, mut at, mut depth) = (text.as_bytes(), 0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => at = end_of_string(bytes, at),
            _ => {}
        }
        if depth > max {
            return true;
        }
        at += 1;
    }
    false
}

/// The place of the quote that ends the string beginning at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if bytes[at] == b'"' {
            return at;
        }
        at += 2;
    }
    bytes.len()
}

/// Where the four digits stand of each `\u` escape of a pair that has no other half.
fn halves(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), memmem::find(bytes, b"\\u").map_or(bytes.len(), |_| 0));
    while let Some(escape) = bytes.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        at += escape;
        match unit(bytes, at) {
            Some(0xd800..=0xdbff) if matches!(unit(bytes, at + 6), Some(0xdc00..=0xdfff)) => at += 12,
            Some(0xd800..=0xdfff) => {
                found.push(at + 2);
                at += 6;
            }
            _ => at += 2,
        }
    }
    found
}

/// What the escape `\uXXXX` at `at` stands for, if there is one.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Result<String, String> {
        sound(Text::new(text.to_owned()).unwrap()).map(Text::into_string)
    }

    #[test]
    fn half_a_character_becomes_the_sign_for_an_unknown_one() {
        for (said, passed) in [
            (r#"{"a":"x\ud83dy","\udc00":1}"#, r#"{"a":"x\ufffdy","\ufffd":1}"#),
            (r#"["\uD83D\uD83D\uDE00\uDE00"]"#, r#"["\ufffd\uD83D\uDE00\ufffd"]"#),
            (r#"["\ud83d"]"#, r#"["\ufffd"]"#),
        ] {
            assert_eq!(told(said).unwrap(), passed);
            assert!(serde_json::from_str::<serde_json::Value>(passed).is_ok());
        }
        for whole in [r#"["\ud83d\ude00 \\ud83d \\\\ud83d \u00e9 \n"]"#, r#"{"n":1.50}"#, r#"["\\"]"#] {
            assert_eq!(told(whole).unwrap(), whole, "byte for byte");
        }
    }

    #[test]
    fn what_clients_would_not_read_is_not_passed_on() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(told(&nested(DEPTH_MAX)).is_ok());
        assert!(told(&nested(DEPTH_MAX + 1)).unwrap_err().contains("deeper than 120"));
        assert!(told(&nested(100_000)).is_err());
        let brackets = format!(r#"["{0}\"{0}", {{}}, "\\", []]"#, "[{".repeat(200));
        assert_eq!(told(&brackets).unwrap(), brackets, "what stands in a text doesn't count");
        assert!(told(&format!("[{}]", ["[{}]"; 1000].join(","))).is_ok());
    }

    #[test]
    fn whatever_passes_is_read_by_a_strict_reader() {
        // Every sequence of a few odd pieces, in a string.
        let pieces = [r"\ud83d", r"\ude00", r"\\", r"\\ud83d", "u", "é"];
        for number in 0..pieces.len().pow(4) {
            let text: String = (0..4).map(|place| pieces[number / pieces.len().pow(place) % pieces.len()]).collect();
            let passed = told(&format!("[\"{text}\"]")).unwrap();
            assert!(serde_json::from_str::<serde_json::Value>(&passed).is_ok(), "{text}: {passed}");
        }
    }
}
