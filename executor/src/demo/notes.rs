//! The tools for the team's notes: short Markdown pages with a name.

use serde_json::{Value, json};

use super::Group;
use super::store::Store;
use super::tool::{Answer, Arguments, Effect, Kind, Parameter, Run, Tool};

const NAME: Parameter = Parameter::required("name", Kind::Text, "The note's name, for instance `style-guide`.");

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        group: Group::Notes,
        name: "list_notes",
        title: Some("List notes"),
        description: "Names, first lines and sizes of all notes.",
        effect: Effect::Reads,
        parameters: &[],
        output: Some(list_schema),
        run: Run::Now(list),
    },
    Tool {
        group: Group::Notes,
        name: "read_note",
        title: None,
        description: "The whole text of a note, as an embedded resource.",
        effect: Effect::Reads,
        parameters: &[NAME],
        output: None,
        run: Run::Now(read),
    },
    Tool {
        group: Group::Notes,
        name: "write_note",
        title: Some("Write a note"),
        description: "Writes a note. If there is one of that name it is only replaced when `overwrite` is true; to add a \
                      few lines to it use append_to_note.",
        effect: Effect::Destroys,
        parameters: &[
            Parameter::required("name", Kind::Text, "Small letters, digits and hyphens, at most 40 of them."),
            Parameter::required("text", Kind::Text, "Markdown."),
            Parameter::optional("overwrite", Kind::Flag, "Replace the note that is there."),
        ],
        output: None,
        run: Run::Now(write),
    },
    Tool {
        group: Group::Notes,
        name: "append_to_note",
        title: None,
        description: "Adds lines at the end of a note.",
        effect: Effect::Adds,
        parameters: &[NAME, Parameter::required("text", Kind::Text, "What to add.")],
        output: None,
        run: Run::Now(append),
    },
    Tool {
        group: Group::Notes,
        name: "search_notes",
        title: None,
        description: "Finds the lines of all notes that contain a text, whatever the case, with note and line number.",
        effect: Effect::Reads,
        parameters: &[Parameter::required("text", Kind::Text, "What to look for.")],
        output: None,
        run: Run::Now(search),
    },
    Tool {
        group: Group::Notes,
        name: "rename_note",
        title: None,
        description: "Gives a note another name.",
        effect: Effect::Sets,
        parameters: &[NAME, Parameter::required("to", Kind::Text, "The new name; must be free.")],
        output: None,
        run: Run::Now(rename),
    },
    Tool {
        group: Group::Notes,
        name: "delete_note",
        title: None,
        description: "Removes a note for good.",
        effect: Effect::Destroys,
        parameters: &[NAME],
        output: None,
        run: Run::Now(delete),
    },
];

fn list_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "notes": { "type": "array", "items": {
            "type": "object",
            "properties": {
                "name": { "type": "string" },
                "heading": { "type": "string" },
                "characters": { "type": "integer" },
            },
            "required": ["name", "heading", "characters"],
        } } },
        "required": ["notes"],
    })
}

fn list(store: &mut Store, _: &Arguments) -> Result<Answer, String> {
    let notes = store
        .notes
        .iter()
        .map(|(name, text)| json!({ "name": name, "heading": heading(text), "characters": text.chars().count() }));
    Ok(Answer::data(json!({ "notes": notes.collect::<Vec<_>>() })))
}

/// The first line, without the marks of a heading.
pub(super) fn heading(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim_start_matches(['#', ' '])
}

fn read(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let name = arguments.text("name")?;
    let text = store.note(name)?;
    let resource = json!({ "uri": format!("note://{name}"), "mimeType": "text/markdown", "text": text });
    Ok(Answer::text(heading(text)).with(json!({ "type": "resource", "resource": resource })))
}

fn write(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let name = valid(arguments.text("name")?)?;
    if store.notes.contains_key(name) && !arguments.flag("overwrite") {
        return Err(format!("there is a note {name:?} already; set `overwrite` to replace it"));
    }
    store.put_note(name, arguments.text("text")?.to_owned());
    Ok(Answer::text(format!("Note {name} is written.")))
}

fn append(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let name = arguments.text("name")?;
    let mut text = store.note(name)?.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text += arguments.text("text")?;
    let lines = text.lines().count();
    store.put_note(name, text);
    Ok(Answer::text(format!("Note {name} has {lines} lines now.")))
}

fn search(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let wanted = arguments.text("text")?.to_lowercase();
    if wanted.is_empty() {
        return Err("`text` must not be empty".to_owned());
    }
    let lines = store
        .notes
        .iter()
        .flat_map(|(name, text)| text.lines().enumerate().map(move |(index, line)| (name, index + 1, line)));
    let found: Vec<_> = lines
        .filter(|(_, _, line)| line.to_lowercase().contains(&wanted))
        .map(|(name, number, line)| format!("{name}:{number}: {line}"))
        .collect();
    Ok(Answer::text(if found.is_empty() { "No line contains that.".to_owned() } else { found.join("\n") }))
}

fn rename(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let (name, to) = (arguments.text("name")?, valid(arguments.text("to")?)?);
    if store.notes.contains_key(to) {
        return Err(format!("there is a note {to:?} already"));
    }
    let text = store.take_note(name)?;
    store.put_note(to, text);
    Ok(Answer::text(format!("Note {name} is called {to} now.")))
}

fn delete(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let name = arguments.text("name")?;
    store.take_note(name)?;
    Ok(Answer::text(format!("Note {name} is gone.")))
}

/// A name that can stand in a URI as it is.
fn valid(name: &str) -> Result<&str, String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=40).contains(&name.len()) && name.bytes().all(fits) {
        return Ok(name);
    }
    Err(format!("{name:?} can't be a note's name: 1 to 40 small letters, digits and hyphens"))
}
