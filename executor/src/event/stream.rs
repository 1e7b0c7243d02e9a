//! Events as they happen, for whoever listens.

use std::sync::LazyLock;

use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::Event;

/// Events that may wait for a slow listener, who hears how many it missed.
const WAITING: usize = 1024;

static EVENTS: LazyLock<broadcast::Sender<Event>> = LazyLock::new(|| broadcast::Sender::new(WAITING));

/// Listens to what happens in this process from now on.
pub fn listen() -> broadcast::Receiver<Event> {
    EVENTS.subscribe()
}

/// Tells whoever listens.
pub(super) fn tell(event: &Event) {
    if EVENTS.receiver_count() > 0 {
        // The last one may have gone meanwhile.
        let _nobody = EVENTS.send(event.clone());
    }
}

impl Event {
    /// The event as JSON: its name, and its fields.
    pub fn json(&self) -> Value {
        let mut json = json!({ "event": self.name() });
        if let (Some(all), Ok(Value::Object(fields))) = (json.as_object_mut(), serde_json::to_value(self)) {
            all.extend(fields);
        }
        json
    }
}

#[cfg(test)]
mod tests {
    use mcplan_compiler::name::ServerName;

    use super::*;

    #[test]
    fn an_event_is_its_name_and_its_fields() {
        let server = ServerName::new("a").unwrap();
        let event = Event::ServerReconnecting { server, attempt: 2, backoff_s: 1.5 };
        let expected = json!({ "event": "server.reconnecting", "server": "a", "attempt": 2, "backoff_s": 1.5 });
        assert_eq!(event.json(), expected);
        assert_eq!(event.json()["event"], event.name());
    }
}
