//! An entry for the hand, where a text isn't edited: written as the file around it is.

use serde_json::Number;

use crate::document::Kind;

use super::add::keyed;
use super::emit::flow;
use super::place::{self, column};
use super::{List, Original, Style, Value};

/// What is pasted, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pasted {
    /// Whole lines.
    pub text: String,
    /// Where they belong, to follow "to paste".
    pub place: String,
}

/// The entry for a list of that kind in `text`: in the file's own style, with the key where that is missing.
pub fn to_paste(text: &str, list: List, entry: &Value) -> Pasted {
    let original = Original::read(text).ok();
    let root = original.as_ref().and_then(|original| Some(&original.document.as_ref()?.root));
    let found = root.and_then(|root| place::find(root, list));
    let listed = found.filter(|(_, key)| matches!(key.value.kind, Kind::List(_) | Kind::Null));
    let place = match listed {
        Some((path, _)) => format!("into the list `{}`", path.join(".")),
        None => "with its key, beside the other keys of the file".to_owned(),
    };
    let key = list.paths()[0][0];
    let (Some(original), Some(root)) = (&original, root) else {
        return Pasted { text: format!("{key}:\n{}", Style::default().item(entry, 2)), place };
    };
    let body = original.body;
    let text = if place::in_braces(body, root) {
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(body).is_ok();
        match (is_json, listed) {
            (true, Some(_)) => pretty(&json(entry)),
            (true, None) => format!("\"{key}\": {}", pretty(&vec![json(entry)].into())),
            (false, Some(_)) => flow(entry, true),
            (false, None) => format!("{key}: [{}]", flow(entry, true)),
        }
    } else {
        match listed.map(|(_, key)| (key, key.value.items())) {
            None => keyed(original, Some(root), key, entry),
            Some((key, [first, ..])) if place::in_brackets(body, &key.value) && first.via.is_none() => {
                flow(entry, true)
            }
            Some((key, items @ [first, ..])) => match place::dash(body, first).filter(|_| key.value.via.is_none()) {
                Some(dash) => place::style_of(body, items).item(entry, column(body, dash)),
                None => Style::default().item(entry, 2),
            },
            Some((key, [])) => {
                let deeper = place::list_indent(body, root).unwrap_or(2);
                Style::default().item(entry, column(body, key.key_at.start) + deeper)
            }
        }
    };
    Pasted { text, place }
}

fn pretty(value: &serde_json::Value) -> String {
    crate::json::pretty(&value.to_string())
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        // What YAML counts as a number and JSON doesn't is a text to JSON.
        Value::Number(text) => text.parse::<Number>().map_or_else(|_| text.as_str().into(), Into::into),
        Value::Text(text) => text.as_str().into(),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(entries) => entries.iter().map(|(key, value)| (key.clone(), json(value))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Value {
        Value::Map(vec![("name".to_owned(), Value::text("x")), ("args".to_owned(), Value::texts(["a", "-y"]))])
    }

    fn pasted(text: &str) -> String {
        let Pasted { text, place } = to_paste(text, List::Servers, &entry());
        format!("{place}\n{text}")
    }

    const KEY: &str = "with its key, beside the other keys of the file\n";
    const LIST: &str = "into the list `mcp_servers`\n";

    #[test]
    fn a_text_to_paste_is_written_as_the_file_is() {
        for (file, expected) in [
            ("", format!("{KEY}mcp_servers:\n  - name: x\n    args: [a, \"-y\"]\n")),
            ("mcp:\n    denylist:\n    - q\n", format!("{KEY}mcp_servers:\n- name: x\n  args: [a, \"-y\"]\n")),
            ("mcp_servers:\n", format!("{LIST}  - name: x\n    args: [a, \"-y\"]\n")),
            (
                "mcp_servers:\n-   name: a\n    args:\n    - b\n",
                format!("{LIST}-   name: x\n    args:\n    - a\n    - \"-y\"\n"),
            ),
            ("mcp_servers: [{ name: a }] # x\n", format!("{LIST}{{ name: x, args: [a, \"-y\"] }}")),
            ("{ mcp_servers: [{ name: a }] }", format!("{LIST}{{ name: x, args: [a, \"-y\"] }}")),
            ("{ version: 1 }", format!("{KEY}mcp_servers: [{{ name: x, args: [a, \"-y\"] }}]")),
            ("{ \"version\": 1 }", format!("{KEY}\"mcp_servers\": [{{\"name\": \"x\"")),
            ("{ \"mcp_servers\": [] }", format!("{LIST}{{")),
        ] {
            let pasted = pasted(file);
            let same = |text: &str| text.split_whitespace().collect::<String>();
            let json = file.contains('"');
            assert!(
                if json { same(&pasted).starts_with(&same(&expected)) } else { pasted == expected },
                "{file}\n{pasted}"
            );
            if json {
                let (_, text) = pasted.split_once('\n').unwrap();
                let text = if text.starts_with('{') { text.to_owned() } else { format!("{{{text}}}") };
                assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
            }
        }
    }
}
