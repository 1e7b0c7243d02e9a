//! Tools that work on a text that they are given.

use std::fmt::Write as _;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use similar::TextDiff;

use super::Group;
use super::base64;
use super::store::Store;
use super::tool::{Answer, Arguments, Effect, Kind, Parameter, Run, Tool};

const TEXT: Parameter = Parameter::required("text", Kind::Text, "The text to work on.");
const ENCODINGS: Kind = Kind::Choice(&["base64", "hex", "url"]);

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        group: Group::Text,
        name: "count_words",
        title: Some("Count words"),
        description: "Lines, words and characters of a text, and about how many minutes it takes to read (200 words a \
                      minute).",
        effect: Effect::Reads,
        parameters: &[TEXT],
        output: Some(count_schema),
        run: Run::Now(count),
    },
    Tool {
        group: Group::Text,
        name: "change_case",
        title: None,
        description: "Writes a text in another case: camelCase, snake_case, kebab-case (also good as the end of a web \
                      address), Title Case, upper or lower.",
        effect: Effect::Reads,
        parameters: &[
            TEXT,
            Parameter::required(
                "style",
                Kind::Choice(&["camel", "snake", "kebab", "title", "upper", "lower"]),
                "The wanted case.",
            ),
        ],
        output: None,
        run: Run::Now(change_case),
    },
    Tool {
        group: Group::Text,
        name: "find_and_replace",
        title: None,
        description: "Replaces every occurrence of one text by another. Plain text, no patterns.",
        effect: Effect::Reads,
        parameters: &[
            TEXT,
            Parameter::required("find", Kind::Text, "What to replace."),
            Parameter::required("replace", Kind::Text, "What to put there."),
        ],
        output: None,
        run: Run::Now(replace),
    },
    Tool {
        group: Group::Text,
        name: "sort_lines",
        title: None,
        description: "Sorts the lines of a text.",
        effect: Effect::Reads,
        parameters: &[
            TEXT,
            Parameter::optional("descending", Kind::Flag, "Last first."),
            Parameter::optional("unique", Kind::Flag, "Keep one of several equal lines."),
            Parameter::optional("ignore_case", Kind::Flag, "Treat capitals and small letters alike."),
        ],
        output: None,
        run: Run::Now(sort),
    },
    Tool {
        group: Group::Text,
        name: "compare_texts",
        title: Some("Compare two texts"),
        description: "Shows what differs between two texts, line by line, as a unified diff.",
        effect: Effect::Reads,
        parameters: &[
            Parameter::required("before", Kind::Text, "The old text."),
            Parameter::required("after", Kind::Text, "The new text."),
        ],
        output: None,
        run: Run::Now(compare),
    },
    Tool {
        group: Group::Text,
        name: "encode_text",
        title: None,
        description: "Encodes a text (as UTF-8) in base64, hexadecimal or percent-encoding.",
        effect: Effect::Reads,
        parameters: &[TEXT, Parameter::required("encoding", ENCODINGS, "How.")],
        output: None,
        run: Run::Now(encode),
    },
    Tool {
        group: Group::Text,
        name: "decode_text",
        title: None,
        description: "The way back from encode_text.",
        effect: Effect::Reads,
        parameters: &[TEXT, Parameter::required("encoding", ENCODINGS, "How it is encoded.")],
        output: None,
        run: Run::Now(decode),
    },
    Tool {
        group: Group::Text,
        name: "hash_text",
        title: None,
        description: "SHA-256 of a text (as UTF-8), in hexadecimal.",
        effect: Effect::Reads,
        parameters: &[TEXT],
        output: None,
        run: Run::Now(hash),
    },
];

fn count_schema() -> Value {
    let number = json!({ "type": "integer" });
    json!({
        "type": "object",
        "properties": { "lines": number, "words": number, "characters": number, "minutes": number },
        "required": ["lines", "words", "characters", "minutes"],
    })
}

fn count(_: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let text = arguments.text("text")?;
    let words = text.split_whitespace().count();
    Ok(Answer::data(json!({
        "lines": text.lines().count(),
        "words": words,
        "characters": text.chars().count(),
        "minutes": words.div_ceil(200),
    })))
}

fn change_case(_: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let text = arguments.text("text")?;
    let lower: Vec<_> = words(text).iter().map(|word| word.to_lowercase()).collect();
    Ok(Answer::text(match arguments.text("style")? {
        "upper" => text.to_uppercase(),
        "lower" => text.to_lowercase(),
        "snake" => lower.join("_"),
        "kebab" => lower.join("-"),
        "title" => lower.iter().map(|word| capitalised(word)).collect::<Vec<_>>().join(" "),
        _ => {
            let mut words = lower.iter();
            let first = words.next().cloned().unwrap_or_default();
            first + &words.map(|word| capitalised(word)).collect::<String>()
        }
    }))
}

/// The words of a text or of a name in any case.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut previous = ' ';
    for letter in text.chars() {
        let starts = letter.is_uppercase() && previous.is_lowercase();
        if starts || !letter.is_alphanumeric() {
            words.push(String::new());
        }
        if letter.is_alphanumeric()
            && let Some(last) = words.last_mut()
        {
            last.push(letter);
        }
        previous = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

fn replace(_: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let (text, find) = (arguments.text("text")?, arguments.text("find")?);
    if find.is_empty() {
        return Err("`find` must not be empty".to_owned());
    }
    Ok(Answer::text(text.replace(find, arguments.text("replace")?)))
}

fn sort(_: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let ignore_case = arguments.flag("ignore_case");
    let key = |line: &str| if ignore_case { line.to_lowercase() } else { line.to_owned() };
    let mut lines: Vec<_> = arguments.text("text")?.lines().collect();
    lines.sort_by_key(|line| key(line));
    if arguments.flag("unique") {
        lines.dedup_by_key(|line| key(line));
    }
    if arguments.flag("descending") {
        lines.reverse();
    }
    Ok(Answer::text(lines.join("\n")))
}

/// Longest text that is compared, in lines: two that share nothing take time with the square of it.
const MAX_LINES: usize = 5_000;

fn compare(_: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let (before, after) = (arguments.text("before")?, arguments.text("after")?);
    if before == after {
        return Ok(Answer::text("The texts are equal."));
    }
    if before.lines().count().max(after.lines().count()) > MAX_LINES {
        return Err(format!("a text has more than {MAX_LINES} lines"));
    }
    let diff = TextDiff::from_lines(before, after);
    Ok(Answer::text(diff.unified_diff().context_radius(3).header("before", "after").to_string()))
}

fn encode(_: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let bytes = arguments.text("text")?.as_bytes();
    Ok(Answer::text(match arguments.text("encoding")? {
        "base64" => base64::encode(bytes),
        "hex" => hexadecimal(bytes),
        _ => percent(bytes),
    }))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn percent(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

fn decode(_: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    let text = arguments.text("text")?;
    let bytes = match arguments.text("encoding")? {
        "base64" => base64::decode(text)?,
        "hex" => from_hexadecimal(text)?,
        _ => from_percent(text)?,
    };
    String::from_utf8(bytes).map(Answer::text).map_err(|_| "the decoded bytes are no UTF-8 text".to_owned())
}

fn from_hexadecimal(text: &str) -> Result<Vec<u8>, String> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err("hexadecimal needs an even number of digits".to_owned());
    }
    pairs.iter().map(hexadecimal_byte).collect()
}

fn hexadecimal_byte(pair: &[u8; 2]) -> Result<u8, String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    match (digit(pair[0]), digit(pair[1])) {
        (Some(high), Some(low)) => Ok(high << 4 | low),
        _ => Err(format!("{:?} are no two hexadecimal digits", String::from_utf8_lossy(pair))),
    }
}

fn from_percent(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first == b'%' {
            let (pair, tail) = tail.split_first_chunk::<2>().ok_or("a % needs two hexadecimal digits after it")?;
            bytes.push(hexadecimal_byte(pair)?);
            rest = tail;
        } else {
            bytes.push(*first);
        }
    }
    Ok(bytes)
}

fn hash(_: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    Ok(Answer::text(hexadecimal(&Sha256::digest(arguments.text("text")?))))
}
