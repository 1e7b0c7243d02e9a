//! Changes of schemas and of the arguments of prompts, there and back.

use mcplan_compiler::lock::Rule::*;
use serde_json::json;

use super::matrix::{Row, row, set};
use super::server::Edit::{Gone, Set};

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = parameters();
    rows.extend(outputs());
    rows
}

fn parameters() -> Vec<Row> {
    vec![
        row(
            set("/tools/0/inputSchema/properties/lines", json!({ "type": "integer" })),
            ("an optional parameter added", &[ParameterAdded]),
            ("a parameter removed", &[ParameterRemoved]),
        ),
        row(
            [
                Set("/tools/0/inputSchema/properties/lines", json!({ "type": "integer" })),
                Set("/tools/0/inputSchema/required", json!(["path", "mode", "lines"])),
            ],
            ("a required parameter added", &[ParameterRequired]),
            ("a required parameter removed", &[ParameterRemoved]),
        ),
        row(
            set("/tools/0/inputSchema/required", json!(["path"])),
            ("a parameter no longer required", &[ParameterOptional]),
            ("a parameter made required", &[ParameterRequired]),
        ),
        row(
            set("/tools/0/inputSchema/required", json!(["mode", "path"])),
            ("the required parameters in another order", &[Respelled]),
            ("the same, back", &[Respelled]),
        ),
        row(
            set("/tools/0/inputSchema/properties/options/properties/wide", json!({ "type": "boolean" })),
            ("a nested optional parameter added", &[ParameterAdded]),
            ("a nested parameter removed", &[ParameterRemoved]),
        ),
        row(
            set("/tools/0/inputSchema/properties/mode/enum", json!(["text", "bytes", "lines"])),
            ("an enum value added", &[EnumValueAdded]),
            ("an enum value removed", &[EnumValueRemoved]),
        ),
        row(
            set("/tools/0/inputSchema/properties/mode/enum", json!(["bytes", "text"])),
            ("enum values in another order", &[Respelled]),
            ("the same, back", &[Respelled]),
        ),
        row(
            [Gone("/tools/0/inputSchema/properties/mode/enum")],
            ("any value instead of an enum", &[ParameterWidened]),
            ("an enum where any value was taken", &[ParameterNarrowed]),
        ),
        row(
            set("/tools/0/inputSchema/properties/mode/default", "bytes"),
            ("another default", &[DefaultChanged]),
            ("the same, back", &[DefaultChanged]),
        ),
        row(
            set("/tools/0/inputSchema/properties/limit/type", "number"),
            ("a wider type, `integer` to `number`", &[ParameterWidened]),
            ("a narrower type, `number` to `integer`", &[ParameterNarrowed]),
        ),
        row(
            set("/tools/0/inputSchema/properties/limit/type", "string"),
            ("another type", &[ParameterNarrowed]),
            ("the same, back", &[ParameterNarrowed]),
        ),
        row(
            set("/tools/0/inputSchema/properties/limit/maximum", 1000),
            ("a wider bound", &[ParameterWidened]),
            ("a narrower bound", &[ParameterNarrowed]),
        ),
        row(
            [Gone("/tools/0/inputSchema/properties/path/minLength")],
            ("a bound gone", &[ParameterWidened]),
            ("a bound added", &[ParameterNarrowed]),
        ),
        row(
            set("/tools/0/inputSchema/properties/path/format", "uri"),
            ("a format asked for", &[ParameterNarrowed]),
            ("a format no longer asked for", &[ParameterWidened]),
        ),
        row(
            set("/tools/0/inputSchema/$defs/Match/properties/glob/pattern", "^[a-z]+$"),
            ("another pattern, under `$defs`", &[ParameterNarrowed]),
            ("the same, back", &[ParameterNarrowed]),
        ),
        row(
            set("/tools/0/inputSchema/additionalProperties", false),
            ("further parameters no longer taken", &[ParameterNarrowed]),
            ("further parameters taken", &[ParameterWidened]),
        ),
        row(
            set("/tools/0/inputSchema/additionalProperties", true),
            ("`additionalProperties: true`, which is the default", &[Respelled]),
            ("the same, back", &[Respelled]),
        ),
        row(
            set("/tools/0/inputSchema/properties/match/anyOf/2", json!({ "type": "null" })),
            ("a branch of `anyOf` added", &[ParameterWidened]),
            ("a branch of `anyOf` removed", &[ParameterNarrowed]),
        ),
        row(
            set("/tools/0/inputSchema/properties/match/anyOf/0/maxLength", 9),
            ("a branch of `anyOf` narrowed", &[ParameterNarrowed]),
            ("a branch of `anyOf` widened", &[ParameterWidened]),
        ),
        row(
            set(
                "/tools/0/inputSchema/properties/match/anyOf",
                json!([{ "$ref": "#/$defs/Match" }, { "type": "string" }]),
            ),
            ("the branches of `anyOf` in another order", &[Respelled]),
            ("the same, back", &[Respelled]),
        ),
        row(
            set(
                "/tools/0/inputSchema/properties/path",
                json!({
                    "anyOf": [{ "type": "string", "minLength": 1, "maxLength": 500 }, { "type": "null" }],
                    "description": "Which file",
                }),
            ),
            ("one type became a branch of `anyOf`", &[ParameterWidened]),
            ("one branch of `anyOf` is left", &[ParameterNarrowed]),
        ),
        row(
            set("/tools/0/inputSchema/$defs/Other", json!({ "type": "string" })),
            ("a definition added", &[DefinitionChanged]),
            ("a definition gone", &[DefinitionChanged]),
        ),
        row(
            set("/prompts/0/arguments/2", json!({ "name": "depth" })),
            ("an optional argument of a prompt added", &[ParameterAdded]),
            ("an argument of a prompt removed", &[ParameterRemoved]),
        ),
        row(
            set("/prompts/0/arguments/2", json!({ "name": "depth", "required": true })),
            ("a required argument of a prompt added", &[ParameterRequired]),
            ("a required argument of a prompt removed", &[ParameterRemoved]),
        ),
        row(
            set("/prompts/0/arguments/1/required", true),
            ("an argument of a prompt made required", &[ParameterRequired]),
            ("an argument of a prompt no longer required", &[ParameterOptional]),
        ),
        row(
            set("/prompts/0/arguments/1/required", false),
            ("`required: false` of an argument, which is the default", &[Respelled]),
            ("the same, back", &[Respelled]),
        ),
    ]
}

fn outputs() -> Vec<Row> {
    vec![
        row(
            set("/tools/1/outputSchema", json!({ "type": "object" })),
            ("an output schema added", &[OutputAdded]),
            ("an output schema gone", &[OutputRemoved]),
        ),
        row(
            set("/tools/0/outputSchema/properties/time", json!({ "type": "string" })),
            ("an output field added", &[OutputAdded]),
            ("an output field removed", &[OutputRemoved]),
        ),
        row(
            set("/tools/0/outputSchema/required", json!(["text", "size"])),
            ("an output field that is always there now", &[OutputAdded]),
            ("an output field that may be missing now", &[OutputLoosened]),
        ),
        row(
            set("/tools/0/outputSchema/properties/size/minimum", 10),
            ("a narrower bound of an output", &[OutputNarrowed]),
            ("a wider bound of an output", &[OutputLoosened]),
        ),
        row(
            set("/tools/0/outputSchema/properties/size/type", "string"),
            ("another type of an output", &[OutputNarrowed]),
            ("the same, back", &[OutputNarrowed]),
        ),
    ]
}
