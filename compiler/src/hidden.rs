//! Which characters a reader doesn't see but a model does.
//!
//! One definition for what the prompt block leaves out, what lint points at and what drift calls suspicious.

use serde_json::Value;

use crate::diagnostic::shown;
use crate::observed::{Entry, Introduction, Prompt, ResourceTemplate, Tool};

/// Whether `c` shows nothing by itself: zero width, bidirectional control, tag, variation selector, filler, joiner.
///
/// That is Unicode's Default_Ignorable_Code_Point and the interlinear annotation marks. Controls such as escape count
/// too; tab, line feed and carriage return are white space and don't. Nor do U+FE0E and U+FE0F, which say whether the
/// character before them is drawn as text or in colour: many an honest emoji (`⚠️`) ends with one.
pub fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{b}' | '\u{c}');
    }
    matches!(c,
        '\u{80}'..='\u{84}' | '\u{86}'..='\u{9f}'
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// `text` with what a reader wouldn't see, controls among it, written out as `\u{202e}`.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) || c.is_control() {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Where a server's words have characters that a reader doesn't see, how many, and the first of them.
pub fn hidden_places<'a>(
    introduction: &Introduction,
    tools: impl IntoIterator<Item = &'a Entry<Tool>>,
    prompts: impl IntoIterator<Item = &'a Entry<Prompt>>,
    templates: impl IntoIterator<Item = &'a Entry<ResourceTemplate>>,
) -> Vec<String> {
    let mut places = Vec::new();
    let mut look = |what: String, text: &str| {
        let odd: Vec<_> = text.chars().filter(|c| is_hidden(*c)).collect();
        if let Some(first) = odd.first() {
            places.push(format!("{what} ({} times, first U+{:04X})", odd.len(), *first as u32));
        }
    };
    look("its instructions".to_owned(), introduction.instructions.as_deref().unwrap_or_default());
    for tool in tools {
        // The whole text, so that parameter names and nested descriptions count too.
        look(format!("the tool `{}`", shown(&visible(&tool.known.name))), &unescaped(tool.raw.get()));
    }
    for prompt in prompts {
        look(format!("the prompt `{}`", shown(&visible(&prompt.known.name))), &unescaped(prompt.raw.get()));
    }
    for template in templates {
        let name = template.known.name.as_deref().unwrap_or(&template.known.uri_template);
        look(format!("the resource template `{}`", shown(&visible(name))), &unescaped(template.raw.get()));
    }
    places
}

/// Every string of a JSON text, one after the other.
fn unescaped(text: &str) -> String {
    let mut all = String::new();
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        collect(&value, &mut all);
    }
    all
}

fn collect(value: &Value, all: &mut String) {
    match value {
        Value::String(text) => all.push_str(text),
        Value::Array(items) => items.iter().for_each(|item| collect(item, all)),
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            all.push_str(key);
            collect(value, all);
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_carries_a_message_unseen_is_hidden_and_letters_are_not() {
        for c in ['\0', '\u{1b}', '\u{7f}', '\u{200b}', '\u{202e}', '\u{2066}', '\u{feff}', '\u{e0041}', '\u{e0101}'] {
            assert!(is_hidden(c), "{c:?}");
        }
        for c in ['a', ' ', '\n', '\t', '\u{85}', '\u{2028}', 'é', '漢', '🙂', '\u{301}', '\u{fe0f}'] {
            assert!(!is_hidden(c), "{c:?}");
        }
    }
}
