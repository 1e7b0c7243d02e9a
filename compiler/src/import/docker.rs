//! Entries of Docker's MCP catalogue: an image, the secrets and settings it takes, or a remote server.

use super::NoteKind;
use super::draft::Draft;
use super::field;
use super::input::variable_name;
use super::tree::{Entry, Foreign};

/// Whether this is an entry of the catalogue that runs an image.
pub(super) fn is_image(node: &Foreign) -> bool {
    let image = node.get("image").is_some_and(|image| image.string().is_some());
    let other = ["command", "cmd", "url"].iter().any(|key| node.get(key).is_some_and(|value| value.string().is_some()));
    let remote = node.get("remote").is_some_and(Foreign::is_map);
    (image || remote) && !other
}

/// Keys that describe a server and change nothing about its run.
const ABOUT: [&str; 17] = [
    "name",
    "type",
    "meta",
    "about",
    "source",
    "title",
    "icon",
    "dynamic",
    "upstream",
    "readme",
    "toolsUrl",
    "tools",
    "dateAdded",
    "metadata",
    "ref",
    "allowHosts",
    "prompts",
];

/// Reads an entry: `docker run -i --rm` with what the catalogue says, or its `remote`.
pub(super) fn read(draft: &mut Draft<'_>, node: &Foreign) {
    let title = |node: &Foreign| node.get("description").and_then(Foreign::string).map(|text| text.trim().to_owned());
    draft.description = title(node).or_else(|| title(node.get("about")?));
    let mut volumes = Vec::new();
    let mut words = Vec::new();
    for entry in node.entries() {
        match entry.key.as_str() {
            "image" | "description" => {}
            "config" => config(draft, &entry.value),
            "secrets" => secrets(draft, &entry.value),
            "env" => variables(draft, &entry.value),
            "command" => words.extend(field::texts(&entry.value).unwrap_or_default()),
            "volumes" => volumes.extend(field::texts(&entry.value).unwrap_or_default()),
            "run" => run(draft, &entry.value, &mut volumes, &mut words),
            "remote" => remote(draft, &entry.value),
            "oauth" if !entry.value.is_empty() => oauth(draft, entry),
            key if ABOUT.contains(&key) => {
                if !entry.value.is_empty() && !matches!(key, "name" | "type" | "tools") {
                    draft.lost(entry.at, format!("`{key}` has no counterpart"));
                }
            }
            key => draft.lost(entry.at, format!("`{}` has no counterpart", crate::diagnostic::shown(key))),
        }
    }
    let Some(image) = node.get("image").and_then(Foreign::string).filter(|_| draft.url.is_none()) else { return };
    draft.command = Some("docker".to_owned());
    let mut args: Vec<String> = ["run", "-i", "--rm"].map(str::to_owned).to_vec();
    // The value stays out of the arguments, which every user of the machine sees.
    let names = draft.env.iter().flat_map(|(name, _)| ["-e".to_owned(), name.clone()]);
    args.extend(names.collect::<Vec<_>>());
    args.extend(volumes.into_iter().flat_map(|volume| ["-v".to_owned(), volume]));
    args.push(image.to_owned());
    args.extend(words);
    draft.args = args;
    draft.note(node.at, NoteKind::Changed, "the image is started with `docker run`");
}

fn config(draft: &mut Draft<'_>, config: &Foreign) {
    for entry in config.entries() {
        match entry.key.as_str() {
            "secrets" => secrets(draft, &entry.value),
            "env" => variables(draft, &entry.value),
            // Only describes what the values ask for; each is a variable now.
            "description" | "parameters" => {}
            key => draft.lost(entry.at, format!("`config.{}` has no counterpart", crate::diagnostic::shown(key))),
        }
    }
}

/// `[{ name: x.api_key, env: API_KEY, example: … }]`
fn secrets(draft: &mut Draft<'_>, list: &Foreign) {
    for secret in list.items() {
        let name = secret.get("env").or_else(|| secret.get("name")).and_then(Foreign::string);
        let Some(name) =
            name.and_then(|name| if name.contains('.') { variable_name(name) } else { Some(name.to_owned()) })
        else {
            draft.lost(secret.at, "a secret without a name");
            continue;
        };
        draft.note(
            secret.at,
            NoteKind::Set(name.clone()),
            format!("the image takes the secret `{name}`; set it where mcplan runs"),
        );
        draft.variable("secrets", secret.at, &name, format!("${{{name}}}"));
    }
}

/// `[{ name: MODE, value: "{{x.mode}}", example: … }]`
fn variables(draft: &mut Draft<'_>, list: &Foreign) {
    if list.is_map() {
        return draft.variables("env", list.at, list);
    }
    for variable in list.items() {
        let Some(name) = variable.get("name").and_then(Foreign::string) else {
            draft.lost(variable.at, "a variable without a name");
            continue;
        };
        let value = variable.get("value").and_then(Foreign::text).map_or_else(|| format!("${{{name}}}"), str::to_owned);
        draft.variable("env", variable.at, name, value);
    }
}

fn run(draft: &mut Draft<'_>, run: &Foreign, volumes: &mut Vec<String>, words: &mut Vec<String>) {
    for entry in run.entries() {
        match entry.key.as_str() {
            "volumes" => volumes.extend(field::texts(&entry.value).unwrap_or_default()),
            "command" => words.extend(field::texts(&entry.value).unwrap_or_default()),
            "env" => variables(draft, &entry.value),
            key => draft.lost(entry.at, format!("`run.{}` has no counterpart", crate::diagnostic::shown(key))),
        }
    }
}

fn remote(draft: &mut Draft<'_>, remote: &Foreign) {
    for entry in remote.entries() {
        match entry.key.as_str() {
            "url" => draft.url = entry.value.string().map(str::to_owned),
            "transport_type" | "type" | "transport" => {
                draft.transport = entry.value.string().and_then(field::transport);
            }
            "headers" => draft.headers_of("headers", entry.at, &entry.value, |value| value),
            key => draft.lost(entry.at, format!("`remote.{}` has no counterpart", crate::diagnostic::shown(key))),
        }
    }
}

/// A login in the browser; the catalogue says which variable can hold a token instead.
fn oauth(draft: &mut Draft<'_>, entry: &Entry) {
    let list = entry.value.get("providers").unwrap_or(&entry.value);
    let name = list.items().iter().find_map(|provider| provider.get("env")?.string());
    match name.filter(|_| draft.url.is_some()) {
        Some(name) => {
            draft.headers.push(("Authorization".to_owned(), format!("Bearer ${{{name}}}")));
            let text = format!("`oauth`: logging in by OAuth isn't imported; set `{name}` to a token instead");
            draft.note(entry.at, NoteKind::Set(name.to_owned()), text);
        }
        None => draft.lost(entry.at, "`oauth`: logging in by OAuth isn't imported; give the server a token"),
    }
}
