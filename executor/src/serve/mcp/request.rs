//! What clients ask for whose answers are text: one type, whichever way a request comes in.

use std::sync::Arc;

use rmcp::ErrorData;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::call::Asker;
use super::handler::Handler;
use super::listing::Kind;
use crate::core::era;
use crate::core::results::Text;

/// The requests whose results are text.
pub(super) const METHODS: [&str; 7] = [
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

/// Most items on one page, and most bytes: only beyond both is there a cursor, since many clients read one page.
const PAGE_ITEMS: usize = 1000;
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// A request, read.
pub(super) enum Request {
    Call(Box<Params>),
    Tools(ListParams),
    Prompts(ListParams),
    Get(Box<Params>),
    Resources(ListParams),
    Templates(ListParams),
    Read(Box<Params>),
}

#[derive(Deserialize)]
pub(super) struct ListParams {
    #[serde(default)]
    cursor: Option<String>,
}

/// The parameters of any request but a list.
pub(super) struct Params {
    /// A tool's or a prompt's name, or a resource's URI.
    pub(super) name: String,
    pub(super) arguments: Map<String, Value>,
    pub(super) meta: Map<String, Value>,
    /// Answers to what a server asked in place of a result, and what it wants to see again: its own business.
    pub(super) input: Map<String, Value>,
}

impl Params {
    /// Reads them; `by` is the parameter that says what is asked for.
    fn read<'de, D: Deserializer<'de>>(params: D, by: &'static str) -> Result<Box<Self>, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Written {
            name: Option<String>,
            uri: Option<String>,
            arguments: Option<Map<String, Value>>,
            #[serde(rename = "_meta")]
            meta: Option<Map<String, Value>>,
            input_responses: Option<Value>,
            request_state: Option<Value>,
        }
        let Written { name, uri, arguments, meta, input_responses, request_state } = Written::deserialize(params)?;
        let name = if by == "uri" { uri } else { name };
        let name = name.ok_or_else(|| serde::de::Error::missing_field(by))?;
        let input = [("inputResponses", input_responses), ("requestState", request_state)];
        let input = input.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
        let (arguments, meta) = (arguments.unwrap_or_default(), meta.unwrap_or_default());
        Ok(Box::new(Self { name, arguments, meta, input }))
    }
}

impl Request {
    /// Reads the parameters of a request; nothing for a method that isn't one of [`METHODS`].
    pub(super) fn read<'de, D: Deserializer<'de>>(method: &str, params: D) -> Result<Option<Self>, D::Error> {
        Ok(Some(match method {
            "tools/call" => Self::Call(Params::read(params, "name")?),
            "tools/list" => Self::Tools(Deserialize::deserialize(params)?),
            "prompts/list" => Self::Prompts(Deserialize::deserialize(params)?),
            "prompts/get" => Self::Get(Params::read(params, "name")?),
            "resources/list" => Self::Resources(Deserialize::deserialize(params)?),
            "resources/templates/list" => Self::Templates(Deserialize::deserialize(params)?),
            "resources/read" => Self::Read(Params::read(params, "uri")?),
            _ => return Ok(None),
        }))
    }

    /// Puts back the `_meta` that rmcp took out of the parameters.
    pub(super) fn set_meta(&mut self, meta: Map<String, Value>) {
        match self {
            Self::Call(params) | Self::Get(params) | Self::Read(params) => params.meta = meta,
            Self::Tools(_) | Self::Prompts(_) | Self::Resources(_) | Self::Templates(_) => {}
        }
    }
}

impl Handler {
    /// The result of a request, in the form of the client's era.
    pub(super) async fn answer(&self, request: Request, asker: &Asker) -> Result<Text, ErrorData> {
        let stateless = self.is_stateless(&asker.peer);
        let is_list = !matches!(request, Request::Call(_) | Request::Get(_));
        let result = match request {
            Request::Call(params) => self.call(*params, asker, stateless).await?,
            Request::Get(params) => self.get_prompt(*params, asker).await?,
            Request::Read(params) => self.read_resource(*params, asker).await?,
            Request::Tools(params) => {
                page("tools", &self.tools(stateless, params.cursor.is_none()).await, params.cursor.as_deref())?
            }
            Request::Prompts(params) => self.offered("prompts", Kind::Prompts, &params).await?,
            Request::Resources(params) => self.offered("resources", Kind::Resources, &params).await?,
            Request::Templates(params) => self.offered("resourceTemplates", Kind::Templates, &params).await?,
        };
        Ok(if stateless { era::for_stateless(result, is_list) } else { era::for_session(result) })
    }
}

impl Handler {
    async fn offered(&self, key: &str, kind: Kind, params: &ListParams) -> Result<Text, ErrorData> {
        page(key, &self.offers(kind, params.cursor.is_none()).await, params.cursor.as_deref())
    }
}

/// A page of a list.
fn page(key: &str, listed: &[Arc<str>], cursor: Option<&str>) -> Result<Text, ErrorData> {
    let from = match cursor.map(str::parse::<usize>) {
        None => 0,
        Some(Ok(from)) if from <= listed.len() => from,
        Some(_) => return Err(ErrorData::invalid_params("unknown cursor", None)),
    };
    let mut bytes = 0;
    let page = listed[from..].iter().take(PAGE_ITEMS).take_while(|item| {
        bytes += item.len();
        // One item always fits, however large, or the list would never end.
        bytes <= PAGE_BYTES || bytes == item.len()
    });
    let page: Vec<_> = page.map(AsRef::as_ref).collect();
    let next = from + page.len();
    let cursor = if next < listed.len() { format!(",\"nextCursor\":\"{next}\"") } else { String::new() };
    Ok(Text::cut_out(format!("{{\"{key}\":[{}]{cursor}}}", page.join(","))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(count: usize, size: usize) -> Vec<Arc<str>> {
        std::iter::repeat_with(|| format!("\"{}\"", "x".repeat(size)).into()).take(count).collect()
    }

    fn pages(listed: &[Arc<str>]) -> Vec<usize> {
        let (mut cursor, mut sizes) = (None::<String>, Vec::new());
        loop {
            let text = page("x", listed, cursor.as_deref()).unwrap();
            let page: Value = serde_json::from_str(text.get()).unwrap();
            sizes.push(page["x"].as_array().unwrap().len());
            match page["nextCursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return sizes,
            }
        }
    }

    #[test]
    fn a_list_is_one_page_up_to_a_thousand_items_or_four_mebibytes() {
        assert_eq!(pages(&[]), [0]);
        assert_eq!(pages(&items(1000, 1)), [1000]);
        assert_eq!(pages(&items(2001, 1)), [1000, 1000, 1]);
        assert_eq!(pages(&items(5, PAGE_BYTES / 2 - 10)), [2, 2, 1]);
        assert_eq!(pages(&items(2, PAGE_BYTES + 1)), [1, 1], "one always fits");
        for odd in ["-1", "x", "3"] {
            assert!(page("x", &items(2, 1), Some(odd)).is_err(), "{odd}");
        }
    }
}
