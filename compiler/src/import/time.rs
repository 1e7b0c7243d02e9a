//! Timeouts: which limit of ours one is, and whether it is written in seconds or in milliseconds.

use super::NoteKind;
use super::find::Client;
use super::tree::{Foreign, Kind};

/// A limit of ours and its seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub key: &'static str,
    pub seconds: String,
}

const CONNECT: &str = "timeout_seconds";
const CALL: &str = "call_timeout_seconds";

/// Which limit a foreign key sets, and its unit where the key says it: `true` is milliseconds.
fn meaning(folded: &str, client: Client) -> Option<(&'static str, Option<bool>)> {
    Some(match folded {
        "timeout" if client == Client::OpenCode => (CONNECT, Some(true)),
        "timeout" if client == Client::Goose => (CALL, Some(false)),
        "timeout" | "requesttimeout" | "tooltimeout" | "readtimeout" | "calltimeout" | "tooltimeouts" => (CALL, None),
        "timeoutms" | "requesttimeoutms" | "tooltimeoutms" => (CALL, Some(true)),
        "timeoutsec" | "timeoutsecs" | "tooltimeoutsec" | "tooltimeoutseconds" | "readtimeoutseconds" => {
            (CALL, Some(false))
        }
        "startuptimeoutsec" | "startuptimeoutseconds" | "connectiontimeoutseconds" => (CONNECT, Some(false)),
        "startuptimeoutms" | "inittimeout" | "connectiontimeout" => (CONNECT, Some(true)),
        "startuptimeout" | "connecttimeout" | "inittimeoutseconds" => (CONNECT, None),
        _ => return None,
    })
}

/// A limit and what is to be said about it, or why it can't be taken over.
pub(super) type Read = Result<(Limit, (NoteKind, String)), String>;

/// Reads a timeout. `None` when the key is none; an error says why it can't be taken over.
pub(super) fn limit(key: &str, folded: &str, value: &Foreign, client: Client) -> Option<Read> {
    let (ours, unit) = meaning(folded, client)?;
    let number = match &value.kind {
        Kind::Number(text) | Kind::Text(text) => text.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0),
        _ => None,
    };
    let Some(number) = number else {
        return Some(Err(format!("`{key}` is no number of seconds or milliseconds")));
    };
    // No connection or call of a sane server is given a quarter of an hour, or less than a second.
    let milliseconds = unit.unwrap_or(number >= 1000.0);
    let seconds = if milliseconds { number / 1000.0 } else { number };
    if ours == CONNECT && seconds == 0.0 {
        return Some(Err(format!("`{key}: 0` can't be said: a server has to answer some time")));
    }
    let unit = if milliseconds { "milliseconds" } else { "seconds" };
    let said = format!("`{key}: {number}` is taken as {unit}: `{ours}: {seconds}`");
    Some(Ok((Limit { key: ours, seconds: seconds.to_string() }, (NoteKind::Changed, said))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(key: &str, value: &str, client: Client) -> String {
        let folded: String = key.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
        let value = Foreign { at: 0, kind: Kind::Number(value.to_owned()) };
        match limit(key, &folded, &value, client) {
            None => "-".to_owned(),
            Some(Ok((limit, _))) => format!("{}={}", limit.key, limit.seconds),
            Some(Err(problem)) => problem,
        }
    }

    #[test]
    fn the_unit_shows_in_the_key_the_client_or_the_size() {
        assert_eq!(read("timeout", "60000", Client::Other), "call_timeout_seconds=60");
        assert_eq!(read("timeout", "60", Client::Other), "call_timeout_seconds=60");
        assert_eq!(read("timeout", "1500", Client::Goose), "call_timeout_seconds=1500");
        assert_eq!(read("timeout", "5000", Client::OpenCode), "timeout_seconds=5");
        assert_eq!(read("startup_timeout_sec", "20", Client::Other), "timeout_seconds=20");
        assert_eq!(read("initTimeout", "2500", Client::Other), "timeout_seconds=2.5");
        assert_eq!(read("tool_timeout_sec", "45.5", Client::Other), "call_timeout_seconds=45.5");
        assert!(read("startup_timeout_sec", "0", Client::Other).contains("can't be said"));
        assert!(read("timeout", "-1", Client::Other).contains("no number"));
        assert_eq!(read("colour", "1", Client::Other), "-");
    }
}
