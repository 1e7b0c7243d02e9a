//! The issue tracker's tools.

use serde_json::{Value, json};

use super::Group;
use super::base64;
use super::store::{Issue, PEOPLE, Store, person};
use super::tool::{Answer, Arguments, Effect, Kind, Parameter, Run, Tool};

const NUMBER: Parameter = Parameter::required("number", NUMBERS, "The number of the issue, as list_issues shows it.");
const NUMBERS: Kind = Kind::Integer { min: 1, max: i64::MAX };

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        group: Group::Issues,
        name: "list_issues",
        title: Some("List issues"),
        description: "Lists issues of the web shop, one line each, lowest number first. All filters are optional and \
                      must all hold. For a text search use search_issues.",
        effect: Effect::Reads,
        parameters: &[
            Parameter::optional("state", Kind::Choice(&["open", "closed", "all"]), "Which ones; open if not given."),
            Parameter::optional("label", Kind::Text, "Only issues that carry this label."),
            Parameter::optional("assignee", Kind::Text, "Only issues of this person (an id like `jonas`)."),
            Parameter::optional("due_before", Kind::Date, "Only issues that are due before this day."),
            Parameter::optional("limit", Kind::Integer { min: 1, max: 100 }, "At most this many; 20 if not given."),
        ],
        output: Some(list_schema),
        run: Run::Now(list),
    },
    Tool {
        group: Group::Issues,
        name: "get_issue",
        title: Some("Read an issue"),
        description: "Everything about one issue: text, state, labels, assignee, due date and comments.",
        effect: Effect::Reads,
        parameters: &[NUMBER],
        output: Some(issue_schema),
        run: Run::Now(get),
    },
    Tool {
        group: Group::Issues,
        name: "search_issues",
        title: None,
        description: "Finds issues whose title, text or comments contain every word of the query, in any order and \
                      whatever the case. Closed ones are found too.",
        effect: Effect::Reads,
        parameters: &[Parameter::required("query", Kind::Text, "One or more words.")],
        output: Some(list_schema),
        run: Run::Now(search),
    },
    Tool {
        group: Group::Issues,
        name: "create_issue",
        title: Some("Open a new issue"),
        description: "Reports a bug or asks for something new. Look with search_issues first: the same thing twice helps \
                      nobody. Put one problem into one issue, say in the text what you did, what you expected and what \
                      happened instead, and leave out names and addresses of customers. Labels, assignee and due date \
                      can be set now or later with label_issue, assign_issue and update_issue. The answer holds the \
                      number of the new issue.",
        effect: Effect::Adds,
        parameters: &[
            Parameter::required("title", Kind::Text, "What is wrong or wanted, in one line."),
            Parameter::optional("body", Kind::Text, "The details, in Markdown."),
            Parameter::optional("labels", Kind::Texts, "Labels, for instance bug or feature."),
            Parameter::optional("assignee", Kind::Text, "Who takes care of it (an id from list_people)."),
            Parameter::optional("due", Kind::Date, "When it has to be done."),
        ],
        output: Some(issue_schema),
        run: Run::Now(create),
    },
    Tool {
        group: Group::Issues,
        name: "update_issue",
        title: None,
        description: "Changes title, text or due date of an issue. What is not given stays as it is.",
        effect: Effect::Sets,
        parameters: &[
            NUMBER,
            Parameter::optional("title", Kind::Text, "The new title."),
            Parameter::optional("body", Kind::Text, "The new text; replaces the old one."),
            Parameter::optional("due", Kind::Date, "The new due date."),
        ],
        output: Some(issue_schema),
        run: Run::Now(update),
    },
    Tool {
        group: Group::Issues,
        name: "close_issue",
        title: None,
        description: "Closes an issue.",
        effect: Effect::Sets,
        parameters: &[
            NUMBER,
            Parameter::optional(
                "reason",
                Kind::Choice(&["done", "not planned", "duplicate"]),
                "Why; done if not given.",
            ),
        ],
        output: None,
        run: Run::Now(close),
    },
    Tool {
        group: Group::Issues,
        name: "reopen_issue",
        title: None,
        description: "Opens a closed issue again.",
        effect: Effect::Sets,
        parameters: &[NUMBER],
        output: None,
        run: Run::Now(reopen),
    },
    Tool {
        group: Group::Issues,
        name: "comment_on_issue",
        title: Some("Comment"),
        description: "Adds a comment to an issue, under the name of someone from the team.",
        effect: Effect::Adds,
        parameters: &[
            NUMBER,
            Parameter::required("author", Kind::Text, "Who says it (an id from list_people)."),
            Parameter::required("body", Kind::Text, "What they say, in Markdown."),
        ],
        output: None,
        run: Run::Now(comment),
    },
    Tool {
        group: Group::Issues,
        name: "label_issue",
        title: None,
        description: "Adds labels to an issue and takes others off. A label that nobody used before is fine.",
        effect: Effect::Sets,
        parameters: &[
            NUMBER,
            Parameter::optional("add", Kind::Texts, "Labels to add."),
            Parameter::optional("remove", Kind::Texts, "Labels to take off."),
        ],
        output: None,
        run: Run::Now(label),
    },
    Tool {
        group: Group::Issues,
        name: "assign_issue",
        title: None,
        description: "Gives an issue to someone, or to nobody.",
        effect: Effect::Sets,
        parameters: &[
            NUMBER,
            Parameter::optional("assignee", Kind::Text, "An id from list_people; left out, nobody has it any more."),
        ],
        output: None,
        run: Run::Now(assign),
    },
    Tool {
        group: Group::Issues,
        name: "delete_issue",
        title: Some("Delete an issue for good"),
        description: "Removes an issue with all its comments. It can't be brought back and its number is not used again. \
                      close_issue is nearly always what is wanted.",
        effect: Effect::Destroys,
        parameters: &[NUMBER],
        output: None,
        run: Run::Now(delete),
    },
    Tool {
        group: Group::Issues,
        name: "issue_statistics",
        title: Some("Issue statistics"),
        description: "How many issues are open and closed, how many each person has open, and how often each label is \
                      used on open issues. Given a day, also which open issues are overdue on it.",
        effect: Effect::Reads,
        parameters: &[Parameter::optional("on", Kind::Date, "The day to count overdue issues for.")],
        output: Some(statistics_schema),
        run: Run::Now(statistics),
    },
    Tool {
        group: Group::Issues,
        name: "issue_badge",
        title: None,
        description: "A small SVG picture with the number and state of an issue, for a page or a chat.",
        effect: Effect::Reads,
        parameters: &[NUMBER],
        output: None,
        run: Run::Now(badge),
    },
    Tool {
        group: Group::Issues,
        name: "list_people",
        title: None,
        description: "Who is on the team and what they do.",
        effect: Effect::Reads,
        parameters: &[],
        output: None,
        run: Run::Now(people),
    },
];

fn summary_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "number": { "type": "integer" },
            "title": { "type": "string" },
            "state": { "type": "string", "enum": ["open", "closed"] },
            "labels": { "type": "array", "items": { "type": "string" } },
            "assignee": { "type": "string" },
            "due": { "type": "string", "format": "date" },
            "reason": { "type": "string" },
        },
        "required": ["number", "title", "state", "labels"],
    })
}

fn issue_schema() -> Value {
    let mut schema = summary_schema();
    let text = json!({ "type": "string" });
    schema["properties"]["body"] = text.clone();
    schema["properties"]["comments"] = json!({
        "type": "array",
        "items": { "type": "object", "properties": { "author": text, "body": text }, "required": ["author", "body"] },
    });
    schema["required"] = json!(["number", "title", "state", "labels", "body", "comments"]);
    schema
}

fn list_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "issues": { "type": "array", "items": summary_schema() },
            "total": { "type": "integer", "description": "How many there are, shown or not." },
        },
        "required": ["issues", "total"],
    })
}

fn statistics_schema() -> Value {
    let counts = json!({ "type": "object", "additionalProperties": { "type": "integer" } });
    json!({
        "type": "object",
        "properties": {
            "open": { "type": "integer" },
            "closed": { "type": "integer" },
            "open_by_assignee": counts,
            "open_by_label": counts,
            "overdue": { "type": "array", "items": { "type": "integer" } },
        },
        "required": ["open", "closed", "open_by_assignee", "open_by_label"],
    })
}

fn listed(found: &[&Issue], limit: usize) -> Answer {
    let issues: Vec<_> = found.iter().take(limit).map(|issue| issue.summary()).collect();
    Answer::data(json!({ "issues": issues, "total": found.len() }))
}

fn list(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let state = arguments.text_if("state").unwrap_or("open");
    let label = arguments.text_if("label");
    let assignee = arguments.text_if("assignee").map(person).transpose()?.map(|person| person.id);
    let due_before = arguments.date_if("due_before");
    let holds = |issue: &&Issue| {
        (state == "all" || issue.state() == state)
            && label.is_none_or(|label| issue.labels.iter().any(|one| one == label))
            && (assignee.is_none() || issue.assignee.as_deref() == assignee)
            && due_before.is_none_or(|day| issue.due.is_some_and(|due| due < day))
    };
    let found: Vec<_> = store.issues.values().filter(holds).collect();
    let limit = arguments.integer_if("limit").and_then(|limit| usize::try_from(limit).ok());
    Ok(listed(&found, limit.unwrap_or(20)))
}

fn get(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    Ok(Answer::data(store.issue(arguments.integer("number")?)?.json()))
}

fn search(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let query = arguments.text("query")?.to_lowercase();
    let words: Vec<_> = query.split_whitespace().collect();
    if words.is_empty() {
        return Err("`query` needs at least one word".to_owned());
    }
    let holds = |issue: &&Issue| {
        let text = issue.markdown().to_lowercase();
        words.iter().all(|word| text.contains(word))
    };
    let found: Vec<_> = store.issues.values().filter(holds).collect();
    Ok(listed(&found, usize::MAX))
}

fn create(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let title = filled(arguments.text("title")?, "title")?;
    let assignee = arguments.text_if("assignee").map(person).transpose()?;
    let number = store.add_issue(title, arguments.text_if("body").unwrap_or_default());
    let issue = store.change_issue(number, "opened")?;
    issue.labels = sorted(arguments.texts("labels"));
    issue.assignee = assignee.map(|person| person.id.to_owned());
    issue.due = arguments.date_if("due");
    Ok(Answer::data(issue.json()))
}

fn update(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let title = arguments.text_if("title").map(|title| filled(title, "title")).transpose()?;
    let body = arguments.text_if("body");
    let due = arguments.date_if("due");
    if title.is_none() && body.is_none() && due.is_none() {
        return Err("nothing to change: give at least one of title, body, due".to_owned());
    }
    let issue = store.change_issue(arguments.integer("number")?, "changed")?;
    if let Some(title) = title {
        issue.title = title.to_owned();
    }
    if let Some(body) = body {
        issue.body = body.to_owned();
    }
    issue.due = due.or(issue.due);
    Ok(Answer::data(issue.json()))
}

fn close(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let reason = arguments.text_if("reason").unwrap_or("done");
    let issue = store.change_issue(arguments.integer("number")?, "closed")?;
    issue.open = false;
    issue.reason = Some(reason.to_owned());
    Ok(Answer::text(format!("Issue {} \"{}\" is closed ({reason}).", issue.number, issue.title)))
}

fn reopen(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let issue = store.change_issue(arguments.integer("number")?, "opened again")?;
    issue.open = true;
    issue.reason = None;
    Ok(Answer::text(format!("Issue {} \"{}\" is open.", issue.number, issue.title)))
}

fn comment(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let author = person(arguments.text("author")?)?;
    let body = filled(arguments.text("body")?, "body")?;
    let issue = store.change_issue(arguments.integer("number")?, "commented")?;
    issue.comments.push((author.id.to_owned(), body.to_owned()));
    Ok(Answer::text(format!("Comment {} on issue {} added.", issue.comments.len(), issue.number)))
}

fn label(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let (add, remove) = (arguments.texts("add"), arguments.texts("remove"));
    if add.is_empty() && remove.is_empty() {
        return Err("nothing to change: give labels to `add` or to `remove`".to_owned());
    }
    let issue = store.change_issue(arguments.integer("number")?, "labelled")?;
    let kept = std::mem::take(&mut issue.labels).into_iter().filter(|label| !remove.contains(label));
    issue.labels = sorted(kept.chain(add).collect());
    let labels = if issue.labels.is_empty() { "none".to_owned() } else { issue.labels.join(", ") };
    Ok(Answer::text(format!("Labels of issue {}: {labels}.", issue.number)))
}

fn assign(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let assignee = arguments.text_if("assignee").map(person).transpose()?;
    let issue = store.change_issue(arguments.integer("number")?, "assigned")?;
    issue.assignee = assignee.map(|person| person.id.to_owned());
    let name = assignee.map_or("nobody", |person| person.name);
    Ok(Answer::text(format!("Issue {} is with {name} now.", issue.number)))
}

fn delete(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let number = arguments.integer("number")?;
    store.change_issue(number, "deleted")?;
    store.issues.remove(&number);
    Ok(Answer::text(format!("Issue {number} is gone.")))
}

fn statistics(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let (open, closed): (Vec<_>, Vec<_>) = store.issues.values().partition(|issue| issue.open);
    let mut by_assignee = json!({});
    let mut by_label = json!({});
    let count = |counts: &mut Value, key: &str| counts[key] = json!(counts[key].as_i64().unwrap_or(0) + 1);
    for issue in &open {
        count(&mut by_assignee, issue.assignee.as_deref().unwrap_or("nobody"));
        issue.labels.iter().for_each(|label| count(&mut by_label, label));
    }
    for counts in [&mut by_assignee, &mut by_label] {
        counts.sort_all_objects();
    }
    let mut data = json!({
        "open": open.len(), "closed": closed.len(), "open_by_assignee": by_assignee, "open_by_label": by_label,
    });
    if let Some(day) = arguments.date_if("on") {
        let overdue = open.iter().filter(|issue| issue.due.is_some_and(|due| due < day));
        data["overdue"] = json!(overdue.map(|issue| issue.number).collect::<Vec<_>>());
    }
    Ok(Answer::data(data))
}

fn badge(store: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let issue = store.issue(arguments.integer("number")?)?;
    let colour = if issue.open { "#1a7f37" } else { "#57606a" };
    let label = format!("{} {}", issue.number, issue.state());
    let svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="96" height="20"><rect width="96" height="20" rx="4" fill="{colour}"/><text x="48" y="14" font-family="sans-serif" font-size="12" text-anchor="middle" fill="#ffffff">{label}</text></svg>"##
    );
    let image = json!({ "type": "image", "data": base64::encode(svg.as_bytes()), "mimeType": "image/svg+xml" });
    Ok(Answer::text(label).with(image))
}

fn people(_: &mut Store, _: &Arguments) -> Result<Answer, String> {
    let lines: Vec<_> = PEOPLE.iter().map(|one| format!("{}: {}, {}", one.id, one.name, one.role)).collect();
    Ok(Answer::text(lines.join("\n")))
}

/// The text, which must hold something that can be seen.
fn filled<'a>(text: &'a str, name: &str) -> Result<&'a str, String> {
    let text = text.trim();
    if text.is_empty() { Err(format!("`{name}` must not be empty")) } else { Ok(text) }
}

fn sorted(mut labels: Vec<String>) -> Vec<String> {
    labels.sort();
    labels.dedup();
    labels
}
