//! Fits a tool's result into `max_result_chars`: text loses its middle, what can't be cut becomes a line that says so.
//!
//! A result below the limit is handed on untouched, byte for byte. Counted is the JSON text of its blocks and of its
//! structured content, in Unicode scalar values, because that is what reaches a model.

use memchr::memmem;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A result as a server wrote it. It is JSON, because it was cut out of JSON, so nobody has to read it again: a large one
/// would cost more time in that than on its whole way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(String);

impl Text {
    /// # Errors
    /// When it is no JSON.
    pub fn new(text: String) -> serde_json::Result<Self> {
        serde_json::from_str::<serde::de::IgnoredAny>(&text)?;
        Ok(Self(text))
    }

    /// For the text of a part of JSON that has been parsed.
    pub(crate) fn cut_out(text: String) -> Self {
        Self(text)
    }

    /// The JSON.
    pub fn get(&self) -> &str {
        &self.0
    }

    /// The JSON.
    pub fn into_string(self) -> String {
        self.0
    }

    /// Whether `word` stands anywhere in it: a quick no for what most results don't hold.
    pub(crate) fn holds(&self, word: &str) -> bool {
        memmem::find(self.0.as_bytes(), word.as_bytes()).is_some()
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(&self.0).map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from)
    }
}

impl From<Box<RawValue>> for Text {
    fn from(value: Box<RawValue>) -> Self {
        Self(Box::<str>::from(value).into())
    }
}

/// The limit of one tool's results, and the names that a shortened result has to tell.
#[derive(Clone, Copy, Debug)]
pub struct Cap<'a> {
    /// Characters; 0 is none.
    pub limit: usize,
    /// The server.
    pub server: &'a str,
    /// The tool, as the agent calls it.
    pub tool: &'a str,
}

/// A result that fits.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// What is sent on.
    pub result: Text,
    /// Characters before it was cut; `None` when it wasn't.
    pub cut_from: Option<usize>,
}

/// Of what is kept of a text, the share that is its head, in percent.
const HEAD_PERCENT: usize = 70;

/// Cuts `result` so that its blocks and structured content have at most `cap.limit` characters of JSON. A limit too
/// small for the marker itself yields the marker alone.
///
/// What isn't an object, or has no `content`, is handed on as it is: it is not ours to understand.
pub fn fit(result: Text, cap: Cap<'_>) -> Fitted {
    let whole = |result| Fitted { result, cut_from: None };
    // Bytes are never fewer than characters, and the result never smaller than its blocks.
    if cap.limit == 0 || result.get().len() <= cap.limit {
        return whole(result);
    }
    let Ok(Value::Object(mut fields)) = serde_json::from_str::<Value>(result.get()) else { return whole(result) };
    let (content, structured) = (raw_length(&result, "content"), raw_length(&result, "structuredContent"));
    let size = content + structured;
    if size <= cap.limit {
        return whole(result);
    }
    let Some(Value::Array(blocks)) = fields.remove("content").or_else(|| Some(json!([]))) else { return whole(result) };
    let blocks = if structured > cap.limit {
        let structured = fields.remove("structuredContent").unwrap_or_default();
        fields.insert("isError".to_owned(), Value::Bool(true));
        let has_text = blocks.iter().any(|block| text_of(block).is_some_and(|text| !text.is_empty()));
        // Without a text the structure itself is what there is to read.
        let blocks = if has_text { blocks } else { vec![text_block(&structured.to_string())] };
        fit_blocks(blocks, cap, cap.limit, size, true)
    } else {
        fit_blocks(blocks, cap, cap.limit.saturating_sub(structured), size, false)
    };
    fields.insert("content".to_owned(), Value::Array(blocks));
    match serde_json::value::to_raw_value(&Value::Object(fields)) {
        Ok(result) => Fitted { result: result.into(), cut_from: Some(size) },
        Err(_) => whole(result),
    }
}

/// Characters of a field's own text.
fn raw_length(result: &Text, key: &str) -> usize {
    #[derive(serde::Deserialize)]
    struct Fields<'a>(#[serde(borrow)] std::collections::HashMap<std::borrow::Cow<'a, str>, &'a RawValue>);
    serde_json::from_str::<Fields<'_>>(result.get())
        .ok()
        .and_then(|fields| Some(mcplan_compiler::json::compact(fields.0.get(key)?.get()).chars().count()))
        .unwrap_or(0)
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The text of a text block, or of an embedded text resource.
fn text_of(block: &Value) -> Option<&str> {
    match block.get("type")?.as_str()? {
        "text" => block.get("text")?.as_str(),
        "resource" => block.get("resource")?.get("text")?.as_str(),
        _ => None,
    }
}

fn set_text(block: &mut Value, text: String) {
    let place = if block.get("type").and_then(Value::as_str) == Some("text") {
        block.get_mut("text")
    } else {
        block.get_mut("resource").and_then(|resource| resource.get_mut("text"))
    };
    if let Some(place) = place {
        *place = Value::String(text);
    }
}

/// Characters of JSON.
fn length(value: &Value) -> usize {
    value.to_string().chars().count()
}

/// Characters that `c` takes inside a JSON string.
fn cost(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if c < ' ' => 6,
        _ => 1,
    }
}

fn text_cost(text: &str) -> usize {
    text.chars().map(cost).sum()
}

/// `blocks` in at most `limit` characters: first what can't be cut, as far as it fits, then the texts share the rest.
fn fit_blocks(blocks: Vec<Value>, cap: Cap<'_>, limit: usize, size: usize, structured: bool) -> Vec<Value> {
    let marker = marker(cap, size, structured);
    // Brackets, the marker and the frames of the texts are there whatever happens; a comma follows each block.
    let frames: usize = blocks.iter().filter_map(|block| Some(length(block) + 1 - text_cost(text_of(block)?))).sum();
    let mut left = limit.saturating_sub(2 + frames + text_cost(&marker));
    let mut fitted: Vec<Value> = Vec::with_capacity(blocks.len());
    for block in blocks {
        if text_of(&block).is_some() {
            fitted.push(block);
            continue;
        }
        let whole = length(&block) + 1;
        if whole <= left {
            left -= whole;
            fitted.push(block);
        } else {
            let line = text_block(&instead_of(&block, cap));
            let cost = length(&line) + 1;
            if cost <= left {
                left -= cost;
                fitted.push(line);
            }
        }
    }
    cut_texts(fitted, left, &marker, limit)
}

/// What stands in for a block that doesn't fit.
fn instead_of(block: &Value, cap: Cap<'_>) -> String {
    let inner = block.get("resource").unwrap_or(block);
    let kind = block.get("type").and_then(Value::as_str).unwrap_or("block");
    let mime = inner.get("mimeType").and_then(Value::as_str).map(|mime| format!(", {mime}")).unwrap_or_default();
    let data = inner.get("data").or_else(|| inner.get("blob")).and_then(Value::as_str);
    // Base64 has four characters for three bytes.
    let size = data.map_or_else(
        || format!("{} characters", length(block)),
        |data| format!("{} bytes", data.trim_end_matches('=').len() * 3 / 4),
    );
    let kind: String = kind.chars().take(40).collect();
    let mime: String = mime.chars().take(80).collect();
    format!("[{kind}{mime}, {size}: left out, over max_result_chars ({})]", cap.limit)
}

fn marker(cap: Cap<'_>, size: usize, structured: bool) -> String {
    let Cap { limit, server, tool } = cap;
    let what = if structured { "the structured result" } else { "the result" };
    format!(
        "\n[… {what} of {tool} (server {server}) has {size} characters and was cut to max_result_chars: {limit} …]\n"
    )
}

/// Cuts the middle out of the texts, taken as one, so that they cost at most `budget` beside the marker.
fn cut_texts(blocks: Vec<Value>, budget: usize, marker: &str, limit: usize) -> Vec<Value> {
    let total: usize = blocks.iter().filter_map(text_of).map(text_cost).sum();
    let (head, tail) = if total <= budget {
        (total, 0)
    } else {
        let head = budget * HEAD_PERCENT / 100;
        (head, budget - head)
    };
    let (mut passed, mut is_marked, mut out) = (0, false, Vec::with_capacity(blocks.len() + 1));
    for mut block in blocks {
        let Some(text) = text_of(&block) else {
            out.push(block);
            continue;
        };
        let own = text_cost(text);
        let (from, to) = (passed, passed + own);
        passed = to;
        if to <= head || (from >= total - tail && tail > 0) {
            out.push(block);
            continue;
        }
        // Some of it is in the gap; a block all in the gap leaves nothing but, once, the marker.
        let kept_head = take(text.chars(), head.saturating_sub(from));
        let kept_tail: String = take(text.chars().rev(), to.saturating_sub(total - tail)).chars().rev().collect();
        let mark = if std::mem::replace(&mut is_marked, true) { "" } else { marker };
        if !mark.is_empty() || !kept_head.is_empty() || !kept_tail.is_empty() {
            set_text(&mut block, format!("{kept_head}{mark}{kept_tail}"));
            out.push(block);
        }
    }
    if !is_marked {
        out.push(text_block(marker.trim()));
    }
    // Frames alone may be over a very small limit; then only the marker is left.
    if out.iter().map(|block| length(block) + 1).sum::<usize>() + 1 > limit {
        return vec![text_block(marker.trim())];
    }
    out
}

/// As many characters as cost at most `budget`.
fn take(chars: impl Iterator<Item = char>, budget: usize) -> String {
    let mut spent = 0;
    chars
        .take_while(|c| {
            spent += cost(*c);
            spent <= budget
        })
        .collect()
}

/// Whether a result says of itself that it is an error.
pub fn is_error(result: &Text) -> bool {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Flag {
        #[serde(default)]
        is_error: bool,
    }
    // Most results don't hold the word, and large ones aren't worth reading for it.
    result.holds("\"isError\"") && serde_json::from_str::<Flag>(result.get()).is_ok_and(|flag| flag.is_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cap(limit: usize) -> Cap<'static> {
        Cap { limit, server: "files", tool: "mcp__files__read" }
    }

    fn fitted(result: &Value, limit: usize) -> Value {
        let raw = Text::new(result.to_string()).unwrap();
        serde_json::from_str(fit(raw, cap(limit)).result.get()).unwrap()
    }

    fn counted(result: &Value) -> usize {
        let field = |key: &str| result.get(key).map_or(0, length);
        field("content") + field("structuredContent")
    }

    #[test]
    fn below_the_limit_every_byte_stays() {
        let text = r#"{"content":[{"type":"text","text":"x","n":1.50}],  "zz":1e400}"#;
        for limit in [0, 50, 1000] {
            let fitted = fit(Text::new(text.to_owned()).unwrap(), cap(limit));
            assert_eq!(fitted.result.get(), text);
            assert_eq!(fitted.cut_from, None);
        }
    }

    #[test]
    fn a_long_text_loses_its_middle() {
        let text = format!("{}{}", "h".repeat(5_000), "t".repeat(5_000));
        let result = fitted(&json!({"content": [text_block(&text)], "isError": false}), 1_000);
        let cut = result["content"][0]["text"].as_str().unwrap();
        assert!(cut.starts_with("hhh") && cut.ends_with("ttt"));
        assert!(
            cut.contains("the result of mcp__files__read (server files) has 10027 characters and was cut to max_result_chars: 1000"),
            "{cut}"
        );
        let (heads, tails) = (cut.matches("hh").count(), cut.matches("tt").count());
        assert!((2.2..2.5).contains(&(heads as f64 / tails as f64)), "{heads}:{tails}");
        assert!(counted(&result) <= 1_000 && counted(&result) > 950, "{}", counted(&result));
        assert_eq!(result["isError"], false);
    }

    #[test]
    fn several_texts_are_cut_as_one() {
        let blocks: Vec<_> = (0..10).map(|n| text_block(&n.to_string().repeat(200))).collect();
        let result = fitted(&json!({"content": blocks}), 1_000);
        let texts: Vec<_> = result["content"].as_array().unwrap().iter().map(|b| b["text"].as_str().unwrap()).collect();
        assert!(texts[0].starts_with("000") && texts.last().unwrap().ends_with("999"), "{texts:?}");
        assert_eq!(texts.iter().filter(|text| text.contains("max_result_chars")).count(), 1);
        assert!(counted(&result) <= 1_000);
    }

    #[test]
    fn an_image_is_whole_or_a_line() {
        let image = json!({"type": "image", "mimeType": "image/png", "data": "A".repeat(4_000)});
        let result = fitted(&json!({"content": [image, text_block("short")]}), 1_000);
        assert_eq!(
            result["content"][0]["text"],
            "[image, image/png, 3000 bytes: left out, over max_result_chars (1000)]"
        );
        assert_eq!(result["content"][1]["text"], "short");
        let small = json!({"type": "image", "mimeType": "image/png", "data": "A".repeat(100)});
        let result = fitted(&json!({"content": [small, text_block(&"x".repeat(5_000))]}), 1_000);
        assert_eq!(result["content"][0], small, "what fits stays, the text gives way");
    }

    #[test]
    fn structured_content_that_does_not_fit_is_an_error_with_the_text() {
        let structured = json!({"rows": vec!["row"; 1_000]});
        let result = fitted(&json!({"content": [], "structuredContent": structured}), 1_000);
        assert_eq!(result["isError"], true);
        assert!(result.get("structuredContent").is_none());
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("{\"rows\":[\"row\"") && text.contains("the structured result of mcp__files__read"));
        let small = json!({"content": [text_block(&"x".repeat(3_000))], "structuredContent": {"a": 1}});
        let result = fitted(&small, 1_000);
        assert_eq!(result["structuredContent"], json!({"a": 1}));
        assert!(result.get("isError").is_none());
    }

    #[test]
    fn what_is_no_result_is_not_touched() {
        for text in ["[1,2,3,4,5,6,7,8,9]", "\"a long text\"", r#"{"content":"a long text that is no list"}"#] {
            let fitted = fit(Text::new(text.to_owned()).unwrap(), cap(5));
            assert_eq!(fitted.result.get(), text);
        }
    }

    fn block() -> impl Strategy<Value = Value> {
        let text = "[a-z\"\\\\\n\u{1}é😀]{0,400}";
        prop_oneof![
            text.prop_map(|text| text_block(&text)),
            text.prop_map(|text| json!({"type": "resource", "resource": {"uri": "x://1", "text": text}})),
            "[A-Za-z]{0,600}".prop_map(|data| json!({"type": "audio", "mimeType": "audio/wav", "data": data})),
            Just(json!({"type": "hologram", "x": {"y": [1, 2]}})),
        ]
    }

    proptest! {
        #[test]
        fn the_limit_holds(
            blocks in prop::collection::vec(block(), 0..8),
            structured in prop::option::of("[a-z]{0,800}"),
            limit in 1usize..1500,
        ) {
            let mut result = json!({"content": blocks});
            if let Some(text) = structured {
                result["structuredContent"] = json!({"t": text});
            }
            let before = counted(&result);
            let after = fitted(&result, limit);
            if before <= limit {
                prop_assert_eq!(after, result);
            } else {
                // The marker and its frame are there whatever the limit.
                let smallest = length(&json!([text_block(&marker(cap(limit), before, true))]));
                let allowed = if after.get("structuredContent").is_some() { limit + smallest } else { limit.max(smallest) };
                prop_assert!(counted(&after) <= allowed, "{} > {}: {}", counted(&after), allowed, after);
            }
        }
    }
}
