//! Search: any text of servers and any query; hits are tools of the index, each once, at most so many, the same each time.
//! The last line is the query, every other line a tool: `name|server|description|parameter`.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use mcplan_executor::core::search::{Document, Index};

fuzz_target!(|input: &str| {
    let (tools, query) = input.rsplit_once('\n').unwrap_or(("", input));
    let documents: Vec<Document> = tools.lines().take(64).map(document).collect();
    let (count, copy) = (documents.len(), tools.lines().take(64).map(document));
    let (index, again) = (Index::new(documents), Index::new(copy));
    assert_eq!(index.len(), count);
    let hits = index.search(query, 5, |_| true);
    let seen: BTreeSet<usize> = hits.iter().map(|hit| hit.index).collect();
    assert_eq!(seen.len(), hits.len(), "a tool twice");
    assert!(seen.iter().all(|at| *at < count) && hits.iter().all(|hit| hit.score.is_finite()), "{hits:?}");
    assert!(hits.iter().filter(|hit| !hit.exact).count() <= 5);
    assert_eq!(hits, again.search(query, 5, |_| true));
    assert!(index.search(query, 5, |at| at % 2 == 0).iter().all(|hit| hit.index % 2 == 0));
});

fn document(line: &str) -> Document {
    let mut fields = line.splitn(4, '|').map(str::to_owned);
    let mut next = || fields.next().unwrap_or_default();
    let (bare, server, description, parameter) = (next(), next(), next(), next());
    Document {
        name: format!("mcp__{server}__{bare}"),
        server,
        bare,
        title: String::new(),
        parameters: vec![(parameter, description.clone())],
        description,
    }
}
