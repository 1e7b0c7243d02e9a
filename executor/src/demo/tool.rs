//! What a tool of the demo server is: its words, its parameters and the function behind it.
//!
//! The JSON schema that clients see and the check of what they send come from the same table of parameters, so the two
//! can't disagree.

use serde_json::{Map, Value, json};

use super::Group;
use super::date::Date;
use super::store::Store;

/// One tool. All of them are constants, in tables, one per group.
pub(super) struct Tool {
    pub(super) group: Group,
    pub(super) name: &'static str,
    /// For people; some tools have none, as in real life.
    pub(super) title: Option<&'static str>,
    pub(super) description: &'static str,
    pub(super) effect: Effect,
    pub(super) parameters: &'static [Parameter],
    /// JSON Schema of `structuredContent`, for tools that answer with data.
    pub(super) output: Option<fn() -> Value>,
    pub(super) run: Run,
}

/// What a tool does to the world; becomes its annotations.
#[derive(Clone, Copy)]
pub(super) enum Effect {
    /// Nothing.
    Reads,
    /// Makes something new each time.
    Adds,
    /// Sets something; twice is as once.
    Sets,
    /// Takes away or overwrites what can't be brought back.
    Destroys,
}

/// How a tool runs.
pub(super) enum Run {
    /// At once, on the store. An error is for the model to read and try again.
    Now(fn(&mut Store, &Arguments) -> Result<Answer, String>),
    /// Slowly, beside other calls (see `count`).
    Counting,
    /// On the list of tools itself (see `session`).
    Visibility,
}

/// One argument that a tool takes.
pub(super) struct Parameter {
    name: &'static str,
    kind: Kind,
    required: bool,
    description: &'static str,
}

impl Parameter {
    pub(super) const fn required(name: &'static str, kind: Kind, description: &'static str) -> Self {
        Self { name, kind, required: true, description }
    }

    pub(super) const fn optional(name: &'static str, kind: Kind, description: &'static str) -> Self {
        Self { name, kind, required: false, description }
    }
}

/// What a parameter takes.
pub(super) enum Kind {
    Text,
    /// `YYYY-MM-DD`.
    Date,
    Integer {
        min: i64,
        max: i64,
    },
    Number,
    Flag,
    Choice(&'static [&'static str]),
    Texts,
    Numbers,
}

impl Kind {
    fn schema(&self) -> Value {
        match self {
            Self::Text => json!({ "type": "string" }),
            Self::Date => json!({ "type": "string", "format": "date" }),
            Self::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
            Self::Number => json!({ "type": "number" }),
            Self::Flag => json!({ "type": "boolean" }),
            Self::Choice(words) => json!({ "type": "string", "enum": words }),
            Self::Texts => json!({ "type": "array", "items": { "type": "string" } }),
            Self::Numbers => json!({ "type": "array", "items": { "type": "number" } }),
        }
    }

    fn accepts(&self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Date => value.as_str().is_some_and(|text| text.parse::<Date>().is_ok()),
            Self::Integer { min, max } => integer(value).is_some_and(|number| (*min..=*max).contains(&number)),
            Self::Number => value.is_number(),
            Self::Flag => value.is_boolean(),
            Self::Choice(words) => value.as_str().is_some_and(|text| words.contains(&text)),
            Self::Texts => value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
            Self::Numbers => value.as_array().is_some_and(|items| items.iter().all(Value::is_number)),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Text => "a string".to_owned(),
            Self::Date => "a date like 2026-03-14".to_owned(),
            Self::Integer { min, max: i64::MAX } => format!("a whole number from {min}"),
            Self::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Self::Number => "a number".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Texts => "a list of strings".to_owned(),
            Self::Numbers => "a list of numbers".to_owned(),
        }
    }
}

/// JSON Schema counts `3.0` as an integer, and some models write it so.
#[expect(clippy::cast_possible_truncation, reason = "only whole numbers within 2^53 get there")]
fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64()?;
        (number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0).then_some(number as i64)
    })
}

impl Tool {
    /// The tool as `tools/list` shows it.
    pub(super) fn listing(&self) -> Value {
        let mut tool = Map::new();
        tool.insert("name".to_owned(), json!(self.name));
        if let Some(title) = self.title {
            tool.insert("title".to_owned(), json!(title));
        }
        tool.insert("description".to_owned(), json!(self.description));
        tool.insert("inputSchema".to_owned(), self.input_schema());
        if let Some(output) = self.output {
            tool.insert("outputSchema".to_owned(), output());
        }
        tool.insert("annotations".to_owned(), self.effect.annotations());
        Value::Object(tool)
    }

    fn input_schema(&self) -> Value {
        let mut properties = Map::new();
        for parameter in self.parameters {
            let mut schema = parameter.kind.schema();
            schema["description"] = json!(parameter.description);
            properties.insert(parameter.name.to_owned(), schema);
        }
        let mut schema = json!({ "type": "object", "properties": properties });
        let required: Vec<_> = self.parameters.iter().filter(|one| one.required).map(|one| one.name).collect();
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema["additionalProperties"] = json!(false);
        schema
    }

    /// Checks what a client sent against the parameters. An optional argument that is `null` counts as not sent.
    ///
    /// # Errors
    /// Everything that is wrong, in one text, with what would have been right.
    pub(super) fn check(&self, mut given: Map<String, Value>) -> Result<Arguments, String> {
        let mut wrong = Vec::new();
        for Parameter { name, kind, required, .. } in self.parameters {
            match given.get(*name) {
                None if *required => wrong.push(format!("`{name}` is missing, it must be {}", kind.words())),
                None => {}
                Some(Value::Null) if !required => {
                    given.shift_remove(*name);
                }
                Some(value) if !kind.accepts(value) => {
                    wrong.push(format!("`{name}` must be {}, not {}", kind.words(), excerpt(value)));
                }
                Some(_) => {}
            }
        }
        let unknown = given.keys().filter(|key| self.parameters.iter().all(|one| one.name != key.as_str()));
        wrong.extend(unknown.map(|key| format!("there is no argument `{key}`")));
        if wrong.is_empty() {
            return Ok(Arguments(given));
        }
        Err(format!("{}: {}. {}", self.name, wrong.join("; "), self.usage()))
    }

    fn usage(&self) -> String {
        if self.parameters.is_empty() {
            return "It takes no arguments.".to_owned();
        }
        let one = |one: &Parameter| format!("{}{}", one.name, if one.required { "" } else { "?" });
        format!("It takes: {}.", self.parameters.iter().map(one).collect::<Vec<_>>().join(", "))
    }
}

/// The start of a value, as much as a message can bear.
fn excerpt(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

impl Effect {
    fn annotations(self) -> Value {
        match self {
            Self::Reads => json!({ "readOnlyHint": true, "openWorldHint": false }),
            Self::Adds => {
                json!({ "readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false })
            }
            Self::Sets => {
                json!({ "readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false })
            }
            Self::Destroys => {
                json!({ "readOnlyHint": false, "destructiveHint": true, "idempotentHint": true, "openWorldHint": false })
            }
        }
    }
}

/// Arguments that passed [`Tool::check`].
#[derive(Debug)]
pub(super) struct Arguments(Map<String, Value>);

impl Arguments {
    pub(super) fn text(&self, name: &str) -> Result<&str, String> {
        self.text_if(name).ok_or_else(|| missing(name))
    }

    pub(super) fn text_if(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    pub(super) fn date(&self, name: &str) -> Result<Date, String> {
        self.text(name)?.parse()
    }

    pub(super) fn date_if(&self, name: &str) -> Option<Date> {
        self.text_if(name)?.parse().ok()
    }

    pub(super) fn integer(&self, name: &str) -> Result<i64, String> {
        self.integer_if(name).ok_or_else(|| missing(name))
    }

    pub(super) fn integer_if(&self, name: &str) -> Option<i64> {
        integer(self.0.get(name)?)
    }

    pub(super) fn number(&self, name: &str) -> Result<f64, String> {
        self.0.get(name).and_then(Value::as_f64).ok_or_else(|| missing(name))
    }

    /// A flag that was not sent is off.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// A list that was not sent is empty.
    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        let items = self.0.get(name).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// A list that was not sent is empty.
    pub(super) fn numbers(&self, name: &str) -> Vec<f64> {
        let items = self.0.get(name).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_f64).collect()
    }
}

fn missing(name: &str) -> String {
    format!("`{name}` is missing")
}

/// What a call gives back: content blocks and, for tools with an output schema, the data itself.
pub(super) struct Answer {
    content: Vec<Value>,
    structured: Option<Value>,
}

impl Answer {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { content: vec![text_block(&text.into())], structured: None }
    }

    /// Data, and the same as text for clients that don't read data.
    pub(super) fn data(value: Value) -> Self {
        Self { content: vec![text_block(&format!("{value:#}"))], structured: Some(value) }
    }

    /// Adds a content block of any type.
    pub(super) fn with(mut self, block: Value) -> Self {
        self.content.push(block);
        self
    }

    /// The `CallToolResult`.
    pub(super) fn into_result(self) -> Value {
        let mut result = json!({ "content": self.content });
        if let Some(structured) = self.structured {
            result["structuredContent"] = structured;
        }
        result["isError"] = json!(false);
        result
    }
}

/// The `CallToolResult` of a call that went wrong in a way that the model can put right.
pub(super) fn failed(text: &str) -> Value {
    json!({ "content": [text_block(text)], "isError": true })
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL: Tool = Tool {
        group: Group::Server,
        name: "probe",
        title: None,
        description: "…",
        effect: Effect::Reads,
        parameters: &[
            Parameter::required("count", Kind::Integer { min: 1, max: 9 }, "…"),
            Parameter::optional("words", Kind::Texts, "…"),
            Parameter::optional("mode", Kind::Choice(&["fast", "slow"]), "…"),
        ],
        output: None,
        run: Run::Counting,
    };

    fn check(value: Value) -> Result<Arguments, String> {
        let Value::Object(map) = value else { panic!("an object") };
        TOOL.check(map)
    }

    #[test]
    fn every_problem_is_said_at_once() {
        let error = check(json!({ "words": ["a", 1], "mode": "medium", "cuont": 3 })).unwrap_err();
        assert_eq!(
            error,
            "probe: `count` is missing, it must be a whole number from 1 to 9; `words` must be a list of strings, not \
             [\"a\",1]; `mode` must be one of fast, slow, not \"medium\"; there is no argument `cuont`. It takes: count, \
             words?, mode?."
        );
    }

    #[test]
    fn whole_numbers_may_be_written_with_a_point_and_null_is_absent() {
        let arguments = check(json!({ "count": 3.0, "mode": null })).unwrap();
        assert_eq!(arguments.integer("count"), Ok(3));
        assert_eq!(arguments.text_if("mode"), None);
        assert!(check(json!({ "count": 3.5 })).is_err());
        assert!(check(json!({ "count": 10 })).is_err());
        assert!(check(json!({ "count": null })).is_err());
    }
}
