//! `mcplan add`: one server, from the command line.

use clap::Args;
use mcplan_compiler::builtins::catalogue;
use mcplan_compiler::diagnostic::closest;
use mcplan_compiler::edit::{self, List, Value};
use mcplan_compiler::import;
use mcplan_compiler::name::ServerName;
use serde_json::json;

use super::edited::Edited;
use super::project::Which;
use super::report::{self, CouldNot, Outcome};

/// Add a server to the config
#[derive(Debug, Args)]
#[command(
    override_usage = "mcplan add NAME [OPTIONS] -- COMMAND [ARGS]...\n       mcplan add NAME [OPTIONS] --url URL\n       mcplan add --builtin NAME"
)]
pub(super) struct Add {
    /// What the server is called
    #[arg(required_unless_present = "builtin")]
    name: Option<String>,
    /// The address of a remote server
    #[arg(long, conflicts_with_all = ["command", "builtin"])]
    url: Option<String>,
    /// How the remote server is reached, where the URL doesn't say
    #[arg(long, requires = "url", conflicts_with_all = ["command", "builtin"], value_name = "TRANSPORT")]
    transport: Option<String>,
    /// A header for a remote server; may be given more than once
    #[arg(long = "header", value_name = "NAME=VALUE", requires = "url", conflicts_with_all = ["command", "builtin"])]
    headers: Vec<String>,
    /// A variable for a local server; may be given more than once
    #[arg(long = "env", value_name = "NAME=VALUE", conflicts_with = "url")]
    env: Vec<String>,
    /// What the server is for
    #[arg(long, value_name = "TEXT", conflicts_with = "builtin")]
    description: Option<String>,
    /// A server of the catalogue; `mcplan builtins` lists them
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    builtin: Option<String>,
    /// Write nothing, print the difference
    #[arg(long)]
    dry_run: bool,
    /// The program of a local server and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Add {
    pub(super) fn run(&self, which: &Which) -> anyhow::Result<Outcome> {
        let (list, name, entry) = match &self.builtin {
            Some(builtin) => self.builtin(builtin)?,
            None => self.server()?,
        };
        let mut edited = match Edited::open(which)? {
            Ok(edited) => edited,
            Err(outcome) => return Ok(outcome),
        };
        if edit::names(edited.text()).is_ok_and(|names| names.contains(&name)) {
            report::error(format_args!("`{name}` is in {} already", edited.path().display()));
            return Ok(Outcome::DoesNotHold);
        }
        if let Err(why) = edited.add(list, &entry) {
            why.tell(&format!("`{name}` is not added"), Some(edited.to_paste(list, &entry)));
            return Ok(Outcome::DoesNotHold);
        }
        let outcome = edited.finish(self.dry_run)?;
        if !self.dry_run {
            report::note(format_args!("added `{name}` to {}", edited.path().display()));
        }
        Ok(outcome)
    }

    /// An entry of `mcp_builtins`: the name, or a map where there is more to say.
    fn builtin(&self, builtin: &str) -> Result<(List, String, Value), CouldNot> {
        if !catalogue().contains_key(builtin) {
            let meant = closest(builtin, catalogue().keys().map(String::as_str));
            let meant = meant.map(|meant| format!(" (did you mean `{meant}`?)")).unwrap_or_default();
            return Err(CouldNot::new(format!("there is no builtin `{builtin}`{meant}; 'mcplan builtins' lists them")));
        }
        let name = self.name.as_deref().unwrap_or(builtin);
        let mut map = vec![("name".to_owned(), Value::text(builtin))];
        if name != builtin {
            check_name(name)?;
            map.push(("as".to_owned(), Value::text(name)));
        }
        if !self.env.is_empty() {
            // The same care for secrets as for any server.
            let stand_in = json!({ "command": builtin, "env": pairs(&self.env)? });
            let entry = converted(name, &stand_in)?;
            map.extend(entry.get("env").map(|env| ("env".to_owned(), env.clone())));
        }
        let entry = if map.len() == 1 { Value::text(builtin) } else { Value::Map(map) };
        Ok((List::Builtins, name.to_owned(), entry))
    }

    fn server(&self) -> Result<(List, String, Value), CouldNot> {
        let name = self.name.as_deref().unwrap_or_default();
        check_name(name)?;
        let mut entry = serde_json::Map::new();
        entry.extend(self.description.as_ref().map(|text| ("description".to_owned(), json!(text))));
        match (&self.url, self.command.as_slice()) {
            (Some(url), _) => {
                entry.extend(self.transport.as_ref().map(|word| ("transport".to_owned(), json!(word))));
                entry.insert("url".to_owned(), json!(url));
                if !self.headers.is_empty() {
                    entry.insert("headers".to_owned(), pairs(&self.headers)?);
                }
            }
            (None, [program, args @ ..]) => {
                entry.insert("command".to_owned(), json!(program));
                if !args.is_empty() {
                    entry.insert("args".to_owned(), json!(args));
                }
                if !self.env.is_empty() {
                    entry.insert("env".to_owned(), pairs(&self.env)?);
                }
            }
            (None, []) => {
                return Err(CouldNot::new("say how the server is reached: --url URL, or -- COMMAND ARGS"));
            }
        }
        Ok((List::Servers, name.to_owned(), converted(name, &entry.into())?))
    }
}

fn check_name(name: &str) -> Result<(), CouldNot> {
    ServerName::new(name).map(drop).map_err(|error| {
        let nearest = ServerName::nearest(name).map(|name| format!("; for instance `{name}`")).unwrap_or_default();
        CouldNot::new(format!("{error}{nearest}"))
    })
}

/// `NAME=VALUE`, or `Name: value` as headers are often written.
fn pairs(written: &[String]) -> Result<serde_json::Value, CouldNot> {
    let mut map = serde_json::Map::new();
    for pair in written {
        let split = pair.split_once('=').filter(|(name, _)| !name.contains(':')).or_else(|| pair.split_once(':'));
        let Some((name, value)) = split.filter(|(name, _)| !name.trim().is_empty()) else {
            return Err(CouldNot::new(format!("`{}` is not NAME=VALUE", mcplan_compiler::diagnostic::shown(pair))));
        };
        map.insert(name.trim().to_owned(), json!(value.trim_start()));
    }
    Ok(map.into())
}

/// The entry as an import of our own language gives it: secrets are references then.
fn converted(name: &str, entry: &serde_json::Value) -> Result<Value, CouldNot> {
    let text = json!({ "mcp_servers": [entry] }).to_string();
    let mut imported = import::import(&text, "the command line", Some(name));
    for note in imported.servers.iter().flat_map(|server| &server.notes) {
        report::note(&note.text);
    }
    match (imported.servers.pop(), imported.problems.first()) {
        (Some(server), None) => Ok(server.entry),
        (_, problem) => Err(CouldNot::new(problem.map_or_else(String::new, |problem| problem.text.clone()))),
    }
}
