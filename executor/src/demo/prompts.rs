//! The prompts: texts that a person picks to start a conversation about the issues.

use serde_json::{Map, Value, json};

use super::store::{Issue, LABELS, PEOPLE, Store, person};
use super::wire::RpcError;

/// A prompt and what makes its messages.
struct Prompt {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    arguments: &'static [Argument],
    messages: fn(&Store, &Given) -> Result<Vec<Value>, String>,
}

struct Argument {
    name: &'static str,
    description: &'static str,
    required: bool,
    /// Values to offer while it is being typed.
    suggestions: fn(&Store) -> Vec<String>,
}

/// Arguments of a prompt are strings, all of them.
struct Given(Map<String, Value>);

impl Given {
    /// An argument that was not given is empty.
    fn get(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn issue<'a>(&self, store: &'a Store) -> Result<&'a Issue, String> {
        let number = self.get("number");
        store.issue(number.parse().map_err(|_| format!("`number` must be an issue's number, not {number:?}"))?)
    }
}

const PROMPTS: &[Prompt] = &[
    Prompt {
        name: "triage_issue",
        title: "Triage an issue",
        description: "Asks for a label, a person and a due date for one issue, with reasons.",
        arguments: &[NUMBER],
        messages: triage,
    },
    Prompt {
        name: "answer_customer",
        title: "Answer a customer",
        description: "Drafts a reply to a customer about an issue, in the bakery's own style.",
        arguments: &[
            NUMBER,
            Argument {
                name: "tone",
                description: "formal or friendly; friendly if not given.",
                required: false,
                suggestions: |_| vec!["formal".to_owned(), "friendly".to_owned()],
            },
        ],
        messages: answer,
    },
    Prompt {
        name: "plan_week",
        title: "Plan a week",
        description: "Puts the open issues of a person, or of everybody, into an order for the week.",
        arguments: &[Argument {
            name: "person",
            description: "An id from list_people.",
            required: false,
            suggestions: |_| PEOPLE.iter().map(|person| person.id.to_owned()).collect(),
        }],
        messages: plan,
    },
];

const NUMBER: Argument =
    Argument { name: "number", description: "The issue's number.", required: true, suggestions: numbers };

pub(super) fn numbers(store: &Store) -> Vec<String> {
    store.issues.keys().map(i64::to_string).collect()
}

pub(super) fn list() -> Value {
    let prompts = PROMPTS.iter().map(|prompt| {
        let arguments = prompt
            .arguments
            .iter()
            .map(|one| json!({ "name": one.name, "description": one.description, "required": one.required }));
        json!({
            "name": prompt.name, "title": prompt.title, "description": prompt.description,
            "arguments": arguments.collect::<Vec<_>>(),
        })
    });
    json!({ "prompts": prompts.collect::<Vec<_>>() })
}

/// # Errors
/// Unknown prompt, an argument that is missing, unknown, no string or of no use.
pub(super) fn get(store: &Store, name: &str, given: Map<String, Value>) -> Result<Value, RpcError> {
    let prompt = find(name)?;
    for argument in prompt.arguments.iter().filter(|argument| argument.required) {
        if !given.contains_key(argument.name) {
            return Err(RpcError::parameters(format!("{name}: `{}` is missing", argument.name)));
        }
    }
    for (key, value) in &given {
        if prompt.arguments.iter().all(|argument| argument.name != key) {
            return Err(RpcError::parameters(format!("{name}: there is no argument `{key}`")));
        }
        if !value.is_string() {
            return Err(RpcError::parameters(format!("{name}: `{key}` must be a string")));
        }
    }
    let messages = (prompt.messages)(store, &Given(given)).map_err(RpcError::parameters)?;
    Ok(json!({ "description": prompt.description, "messages": messages }))
}

/// Values that may be meant by an argument's beginning.
///
/// # Errors
/// Unknown prompt or argument.
pub(super) fn suggestions(store: &Store, name: &str, argument: &str) -> Result<Vec<String>, RpcError> {
    let found = find(name)?.arguments.iter().find(|one| one.name == argument);
    let argument = found.ok_or_else(|| RpcError::parameters(format!("{name}: there is no argument `{argument}`")))?;
    Ok((argument.suggestions)(store))
}

fn find(name: &str) -> Result<&'static Prompt, RpcError> {
    let found = PROMPTS.iter().find(|prompt| prompt.name == name);
    found.ok_or_else(|| RpcError::parameters(format!("Unknown prompt: {name}")))
}

fn says(text: &str) -> Value {
    json!({ "role": "user", "content": { "type": "text", "text": text } })
}

fn shows(uri: &str, text: &str) -> Value {
    let resource = json!({ "uri": uri, "mimeType": "text/markdown", "text": text });
    json!({ "role": "user", "content": { "type": "resource", "resource": resource } })
}

fn triage(store: &Store, given: &Given) -> Result<Vec<Value>, String> {
    let issue = given.issue(store)?;
    let people: Vec<_> = PEOPLE.iter().map(|person| format!("{} ({})", person.id, person.role)).collect();
    let ask = format!(
        "Read the issue below. Say which labels it should carry ({}), who should take it ({}), by when, and why, in one \
         sentence each. Then make the changes with the tools.",
        LABELS.join(", "),
        people.join("; ")
    );
    Ok(vec![says(&ask), shows(&format!("issue://{}", issue.number), &issue.markdown())])
}

fn answer(store: &Store, given: &Given) -> Result<Vec<Value>, String> {
    let issue = given.issue(store)?;
    let tone = match given.get("tone") {
        "" | "friendly" => "friendly",
        "formal" => "formal",
        other => return Err(format!("`tone` must be formal or friendly, not {other:?}")),
    };
    let ask = format!("Write a short, {tone} reply to a customer who asked about this issue. Promise no date.");
    let mut messages = vec![says(&ask), shows(&format!("issue://{}", issue.number), &issue.markdown())];
    messages.extend(store.note("style-guide").ok().map(|text| shows("note://style-guide", text)));
    Ok(messages)
}

fn plan(store: &Store, given: &Given) -> Result<Vec<Value>, String> {
    let who = Some(given.get("person")).filter(|id| !id.is_empty()).map(person).transpose()?;
    let mine = |issue: &&Issue| who.is_none_or(|who| issue.assignee.as_deref() == Some(who.id));
    let lines = store.issues.values().filter(|issue| issue.open).filter(mine).map(|issue| {
        let due = issue.due.map_or_else(String::new, |due| format!(", due {due}"));
        format!("- {} {}{due}", issue.number, issue.title)
    });
    let lines: Vec<_> = lines.collect();
    let whose = who.map_or("the team", |person| person.name);
    Ok(vec![says(&format!(
        "Put these issues of {whose} into an order for the week and say why.\n\n{}",
        lines.join("\n")
    ))])
}
