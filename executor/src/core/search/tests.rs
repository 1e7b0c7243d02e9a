//! What a query finds, and what it never does.

use proptest::prelude::*;

use super::*;

fn tool(server: &str, bare: &str, description: &str) -> Document {
    Document {
        name: format!("mcp__{server}__{bare}"),
        bare: bare.to_owned(),
        server: server.to_owned(),
        description: description.to_owned(),
        ..Document::default()
    }
}

fn desk() -> Vec<Document> {
    vec![
        tool("github", "create_issue", "Create a new issue in a repository"),
        tool("github", "create_pull_request", "Open a pull request"),
        tool("github", "listPullRequests", "List pull requests of a repository"),
        tool("github", "merge_pull_request", "Merge a pull request"),
        tool("github", "search_code", "Search for code across repositories"),
        tool("fs", "list_directory", "List what a directory holds"),
        tool("fs", "read_file", "Read the contents of a file"),
        tool("fs", "search", "Recursively search for files that match a pattern"),
        tool("sn", "resolve_incident", "Close an incident with a resolution code and notes"),
        tool("sn", "theme_manage", "Manage the theme of the portal for the users of it"),
        tool("sn", "create_incident", "Open an incident"),
        tool("sn", "add_note", "Add a work note to a record"),
        tool("sn", "set_resolution", "Fill in resolution details of a ticket"),
        tool("weather", "get_forecast", "Temperature and rain for a place and a day"),
    ]
}

fn found(documents: &[Document], query: &str, limit: usize) -> Vec<String> {
    let index = Index::new(documents.to_vec());
    index.search(query, limit, |_| true).iter().map(|hit| documents[hit.index].bare.clone()).collect()
}

#[test]
fn six_pasted_names_are_found_beyond_the_limit_in_their_order() {
    let query = "load read_file, mcp__github__create_issue, `search`, listPullRequests, sn/add_note and set-resolution";
    let expected = ["read_file", "create_issue", "search", "listPullRequests", "add_note", "set_resolution"];
    assert_eq!(found(&desk(), query, 5), expected);
    assert_eq!(found(&desk(), query, 7)[..6], expected);
}

#[test]
fn a_name_comes_before_whatever_ranks_higher() {
    let mut tools = desk();
    tools.push(tool("x", "zzz", "list_directory list_directory list directory list directory"));
    assert_eq!(found(&tools, "list_directory", 3)[0], "list_directory");
    assert_eq!(found(&tools, "List Directory", 3)[0], "list_directory");
}

#[test]
fn a_name_that_several_servers_have_finds_all_of_them() {
    let tools: Vec<Document> = (0..9).map(|at| tool(&format!("s{at}"), "create_issue", "")).collect();
    let index = Index::new(tools.clone());
    let hits = index.search("create_issue", 5, |_| true);
    assert_eq!(hits.iter().map(|hit| hit.index).collect::<Vec<_>>(), (0..9).collect::<Vec<_>>());
    assert!(hits.iter().all(|hit| hit.exact));
}

#[test]
fn small_words_match_nothing_inside_others() {
    let got = found(&desk(), "close the incident and fill in the resolution notes", 5);
    assert_eq!(got[0], "resolve_incident");
    assert!(!got.contains(&"theme_manage".to_owned()), "{got:?}");
}

#[test]
fn names_are_split_and_words_have_stems_synonyms_and_typing_errors() {
    let all = found(&desk(), "pull requests", 10);
    for name in ["create_pull_request", "listPullRequests", "merge_pull_request"] {
        assert!(all.contains(&name.to_owned()), "{name} in {all:?}");
    }
    assert_eq!(found(&desk(), "weather tomorrow", 1), ["get_forecast"]);
    assert_eq!(found(&desk(), "folder", 1), ["list_directory"], "a synonym");
    assert_eq!(found(&desk(), "direktory", 1), ["list_directory"], "a typing error");
    assert_eq!(found(&desk(), "incid", 5).len(), 2, "the start of a word in a name");
}

#[test]
fn nothing_relevant_is_an_empty_answer() {
    for query in ["", "   ", "the of and", "bake a chocolate cake", "?!", "zzzzz qqqqq"] {
        assert_eq!(found(&desk(), query, 10), Vec::<String>::new(), "{query}");
    }
    assert_eq!(found(&[], "anything", 10), Vec::<String>::new());
}

#[test]
fn what_may_not_be_seen_is_not_found_even_by_name() {
    let index = Index::new(desk());
    assert_eq!(index.search("create_issue", 10, |_| false), []);
    let kept = index.search("create_issue pull request", 10, |at| at != 0);
    assert!(!kept.is_empty() && kept.iter().all(|hit| hit.index != 0));
}

#[test]
fn limits_are_clamped_and_several_queries_are_answered_in_order() {
    let tools: Vec<Document> = (0..80).map(|at| tool("s", &format!("file{at:02}x"), "works on a file")).collect();
    assert_eq!(found(&tools, "work file", 0).len(), 1);
    assert_eq!(found(&tools, "work file", 1000).len(), 50);
    assert_eq!(found(&tools, "work file", 2), ["file00x", "file01x"], "equal scores go by name");
    let index = Index::new(desk());
    let answers = index.search_all(&["read_file", "nothing here", "issue"], 1, |_| true);
    assert_eq!(
        answers.iter().map(|hits| hits.iter().map(|hit| hit.index).collect()).collect::<Vec<Vec<_>>>(),
        [vec![6], vec![], vec![0]]
    );
}

#[test]
fn parameters_come_from_the_schema_nested_ones_too() {
    let schema = serde_json::json!({"type": "object", "properties": {
        "owner": {"type": "string", "description": "Who owns it"},
        "files": {"type": "array", "items": {"type": "object", "properties": {"path": {"description": "Where"}}}},
        "odd": 7
    }});
    let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    assert_eq!(
        parameters(&schema),
        [pair("owner", "Who owns it"), pair("files", ""), pair("path", "Where"), pair("odd", "")]
    );
    assert_eq!(parameters(&serde_json::json!(null)), []);
}

#[test]
fn a_hostile_query_or_tool_costs_no_more_than_others() {
    let long = "x".repeat(200_000);
    let spread = (0..40_000).map(|at| format!("w{at} ")).collect::<String>();
    let tools = vec![tool("s", &long, &long), tool("s", "a_b", &spread), tool(&long, "", "")];
    let index = Index::new(tools);
    for query in [&long, &spread, &"a_b ".repeat(20_000), &"`\"'".repeat(20_000), &"a/".repeat(20_000)] {
        index.search(query, 50, |_| true);
    }
}

fn documents() -> impl Strategy<Value = Vec<Document>> {
    let text = prop_oneof!["[a-c]{1,2}(_[a-c]{1,2}){0,2}", "\\PC{0,8}", any::<String>()];
    let document =
        (text.clone(), "[ab]", text.clone(), text.clone(), proptest::collection::vec((text.clone(), text), 0..2));
    proptest::collection::vec(document, 0..12).prop_map(|parts| {
        let made = parts.into_iter().map(|(bare, server, title, description, parameters)| {
            let document = Document { title, parameters, ..tool(&server, &bare, &description) };
            (document.name.clone(), document)
        });
        made.collect::<BTreeMap<_, _>>().into_values().collect()
    })
}

fn named(documents: &[Document], hits: &[Hit]) -> Vec<(String, bool, u32)> {
    hits.iter().map(|hit| (documents[hit.index].name.clone(), hit.exact, hit.score.to_bits())).collect()
}

proptest! {
    #[test]
    fn the_ranking_doesnt_depend_on_the_order_of_loading(
        (documents, shuffled) in documents().prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
        query in prop_oneof!["[a-c]{1,2}([ _][a-c]{1,2}){0,3}", any::<String>()],
        limit in 0usize..60,
    ) {
        let hits = Index::new(documents.clone()).search(&query, limit, |_| true);
        let again = Index::new(shuffled.clone()).search(&query, limit, |_| true);
        prop_assert_eq!(named(&documents, &hits), named(&shuffled, &again));
        let first_other = hits.iter().position(|hit| !hit.exact).unwrap_or(hits.len());
        prop_assert!(hits[first_other..].iter().all(|hit| !hit.exact && hit.score > 0.0), "exact ones stand first");
        prop_assert!(hits[first_other..].windows(2).all(|pair| pair[0].score >= pair[1].score));
        prop_assert!(hits.len() <= first_other.max(limit.clamp(1, 50)));
    }

    #[test]
    fn every_tool_is_found_first_by_its_own_names(documents in documents(), limit in 1usize..4) {
        let index = Index::new(documents.clone());
        for (at, document) in documents.iter().enumerate() {
            for query in [document.name.clone(), format!("please use {} now", document.name)] {
                let plain = document.name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
                if plain {
                    let hits = index.search(&query, limit, |_| true);
                    prop_assert!(hits.iter().take_while(|hit| hit.exact).any(|hit| hit.index == at), "{query}");
                }
            }
        }
    }
}
