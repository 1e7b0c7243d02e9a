//! How long indexing and answering take. `cargo bench -p mcplan-executor --bench search`

use divan::{Bencher, black_box};
use mcplan_executor::core::search::{Document, Index};

fn main() {
    divan::main();
}

/// Tools that differ as real ones do: a verb, a thing, a sentence about both, some parameters.
fn tools(count: usize) -> Vec<Document> {
    let verbs = ["get", "list", "create", "update", "delete", "search", "merge", "export"];
    let things = ["issue", "pull_request", "repository", "file", "invoice", "customer", "dashboard", "alert", "pod"];
    let tool = |at: usize| {
        let (verb, thing) = (verbs[at % verbs.len()], things[at / verbs.len() % things.len()]);
        let bare = format!("{verb}_{thing}_{}", at / (verbs.len() * things.len()));
        Document {
            name: format!("mcp__server{}__{bare}", at % 50),
            server: format!("server{}", at % 50),
            description: format!(
                "{verb}s one {thing} of the account number {at}, with all fields that the caller may see. Use this when \
                 the user asks about a {thing}; returns an error when it does not exist (code e{at})."
            ),
            parameters: vec![
                (format!("{thing}_id"), format!("The identifier of the {thing}")),
                ("page".to_owned(), "Which page of the results, from 1".to_owned()),
            ],
            bare,
            title: String::new(),
        }
    };
    (0..count).map(tool).collect()
}

#[divan::bench(args = [100, 1_000, 10_000])]
fn index(bencher: Bencher<'_, '_>, count: usize) {
    bencher.with_inputs(|| tools(count)).bench_values(Index::new);
}

#[divan::bench(args = [100, 1_000, 10_000])]
fn sentence(bencher: Bencher<'_, '_>, count: usize) {
    let index = Index::new(tools(count));
    let query = "I need to close the open pull requests of this repository and tell the customer by mail";
    bencher.bench(|| index.search(black_box(query), 10, |_| true));
}

#[divan::bench(args = [100, 1_000, 10_000])]
fn name(bencher: Bencher<'_, '_>, count: usize) {
    let index = Index::new(tools(count));
    bencher.bench(|| index.search(black_box("mcp__server3__update_issue_0"), 10, |_| true));
}

#[divan::bench(args = [10_000])]
fn longest_query(bencher: Bencher<'_, '_>, count: usize) {
    let index = Index::new(tools(count));
    let query = "serch dleete updtae repositry invoce custmer dashbord get list create page result code ".repeat(40);
    bencher.bench(|| index.search(black_box(&query), 50, |_| true));
}
