//! How long a prompt block takes. `cargo bench -p mcplan-executor --bench render`

use divan::{Bencher, black_box};
use mcplan_compiler::prompt_template::{BUILTIN, Template};
use mcplan_executor::core::prompt::{Block, Limit, ServerLine, Shown};

fn main() {
    divan::main();
}

/// `count` tools of fifty servers, with descriptions of 80 to 300 characters: name, server, description.
fn tools(count: usize) -> Vec<(String, String, String)> {
    let sentence = "Returns every record of the account that the caller may see, page by page. ";
    let tool = |at: usize| {
        let server = format!("server{}", at % 50);
        (format!("mcp__{server}__tool_number_{at}"), server, format!("{at}: {}", sentence.repeat(1 + at % 4)))
    };
    (0..count).map(tool).collect()
}

fn render(bencher: Bencher<'_, '_>, count: usize, limit: Limit<'_>) {
    let tools = tools(count);
    let shown: Vec<Shown<'_>> =
        tools.iter().map(|(name, server, description)| Shown { name, server, title: None, description }).collect();
    let names: Vec<String> = (0..50).map(|at| format!("server{at}")).collect();
    let servers: Vec<ServerLine<'_>> =
        names.iter().map(|name| ServerLine { name, description: Some("Records of all kinds") }).collect();
    let template = Template::parse(BUILTIN).expect("the built-in template is checked by a test");
    let block = Block {
        template: &template,
        limit,
        max_description_chars: 250,
        min_description_chars: 20,
        search_tool: "search_mcp_tools",
        call_tool: "call_mcp_tool",
    };
    bencher.bench_local(|| block.render(black_box(&shown), &servers));
}

#[divan::bench(args = [20, 100, 1_000, 10_000])]
fn budget_2000(bencher: Bencher<'_, '_>, count: usize) {
    render(bencher, count, Limit::Chars(2_000));
}

#[divan::bench(args = [100, 1_000, 10_000])]
fn cut_descriptions(bencher: Bencher<'_, '_>, count: usize) {
    render(bencher, count, Limit::Chars(count * 120 + 1_000));
}

#[divan::bench(args = [10_000])]
fn most_names(bencher: Bencher<'_, '_>, count: usize) {
    render(bencher, count, Limit::Chars(count * 25));
}

#[cfg(feature = "tokens")]
#[divan::bench(args = [100, 10_000])]
fn budget_500_tokens(bencher: Bencher<'_, '_>, count: usize) {
    let counter = mcplan_executor::core::tokens::counter().expect("the feature is on");
    render(bencher, count, Limit::Tokens(500, counter));
}
