//! Tools about the server itself: to see that it answers, to watch a slow call, to change the list of tools.

use super::Group;
use super::store::Store;
use super::tool::{Answer, Arguments, Effect, Kind, Parameter, Run, Tool};

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        group: Group::Server,
        name: "echo",
        title: None,
        description: "Says what it is told.",
        effect: Effect::Reads,
        parameters: &[Parameter::required("text", Kind::Text, "What to say.")],
        output: None,
        run: Run::Now(echo),
    },
    Tool {
        group: Group::Server,
        name: "count_to",
        title: Some("Count slowly"),
        description: "Counts from 1 to n with a pause before each number, reporting progress. Other calls are answered \
                      meanwhile, and it stops when it is cancelled.",
        effect: Effect::Reads,
        parameters: &[
            Parameter::required("n", Kind::Integer { min: 1, max: 1000 }, "How far."),
            Parameter::optional(
                "delay_ms",
                Kind::Integer { min: 0, max: 60_000 },
                "The pause, in milliseconds; 100 if not given.",
            ),
        ],
        output: None,
        run: Run::Counting,
    },
    Tool {
        group: Group::Server,
        name: "set_tool_visible",
        title: None,
        description: "Hides one of this server's tools or shows it again. Clients are told that the list of tools changed; \
                      a hidden tool can't be called.",
        effect: Effect::Sets,
        parameters: &[
            Parameter::required("name", Kind::Text, "The tool; any but this one."),
            Parameter::required("visible", Kind::Flag, "false hides it, true shows it."),
        ],
        output: None,
        run: Run::Visibility,
    },
];

fn echo(_: &mut Store, arguments: &Arguments) -> Result<Answer, String> {
    Ok(Answer::text(arguments.text("text")?))
}
