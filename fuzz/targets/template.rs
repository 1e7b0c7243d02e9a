//! A prompt template: checked without a panic and in bounded time; one without findings renders within every budget.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcplan_compiler::prompt_template::{Template, check_template};
use mcplan_executor::core::prompt::{Block, Limit, ServerLine, Shown};

fuzz_target!(|text: &str| {
    let problems = check_template(text);
    for problem in &problems {
        assert!(problem.line >= 1 && !problem.message.is_empty(), "{problem:?}");
        assert!(problem.range.clone().is_none_or(|range| text.get(range).is_some()), "{problem:?}");
    }
    if !problems.is_empty() {
        return;
    }
    let template = Template::parse(text).expect("it was checked");
    let tools: Vec<String> = (0..12).map(|at| format!("mcp__s__tool_{at}")).collect();
    let tools: Vec<Shown<'_>> = tools
        .iter()
        .map(|name| Shown { name, server: "s", title: None, description: "Tells the {{ weather }}\n<x> é." })
        .collect();
    for limit in [0, 40, 300, 5_000] {
        let block = Block {
            template: &template,
            limit: Limit::Chars(limit),
            max_description_chars: 250,
            min_description_chars: 20,
            search_tool: "search_mcp_tools",
            call_tool: "call_mcp_tool",
        };
        let rendered = block.render(&tools, &[ServerLine { name: "s", description: None }]);
        assert!(rendered.text.chars().count() <= limit, "{limit}: {}", rendered.text);
        assert_eq!(rendered.chars, rendered.text.chars().count());
    }
});
