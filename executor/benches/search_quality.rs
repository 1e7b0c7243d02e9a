//! How well search finds what is meant: recall on labelled sets.
//!
//! `MCPLAN_SEARCH_SETS=DIR cargo bench -p mcplan-executor --bench search_quality`, where each folder of `DIR` holds
//! `toolset.jsonl` ({server, tool, description, params}) and `queries.jsonl` ({query, relevant: ["server/tool"]}). Prints
//! for how many queries a relevant tool is among the first 1, 5 and 10, and which part of the relevant ones is. The
//! second line of a set is the same with typing errors in a third of the longer words. Without the directory it only
//! says so.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mcplan_executor::core::search::{Document, Index};
use serde_json::Value;

const AT: [usize; 3] = [1, 5, 10];

fn main() -> anyhow::Result<()> {
    let argument = std::env::args_os().skip(1).find(|argument| !argument.to_string_lossy().starts_with('-'));
    let Some(directory) = argument.or_else(|| std::env::var_os("MCPLAN_SEARCH_SETS")).map(PathBuf::from) else {
        println!("no labelled sets: name their directory in MCPLAN_SEARCH_SETS");
        return Ok(());
    };
    let mut sets: Vec<PathBuf> = match std::fs::read_dir(&directory) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) => {
            println!("no labelled sets in {}: {error}", directory.display());
            return Ok(());
        }
    };
    sets.retain(|set| set.join("toolset.jsonl").is_file() && set.join("queries.jsonl").is_file());
    sets.sort();
    println!("{:<28} {:>6}   found at 1, 5, 10    share at 1, 5, 10      index    query", "set", "tools");
    for set in sets {
        measure(&set)?;
    }
    Ok(())
}

fn measure(set: &Path) -> anyhow::Result<()> {
    let tools = lines(&set.join("toolset.jsonl"))?;
    let queries = lines(&set.join("queries.jsonl"))?;
    let ids: Vec<String> =
        tools.iter().map(|tool| format!("{}/{}", text(tool, "server"), text(tool, "tool"))).collect();
    let documents: Vec<Document> = tools.iter().map(document).collect();
    let start = Instant::now();
    let index = Index::new(documents);
    let indexed = start.elapsed();
    let name = set.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for (label, mistyped) in [(name, false), ("  mistyped".to_owned(), true)] {
        let (found, share, each) = recall(&index, &ids, &queries, mistyped);
        let row = |figures: [f64; 3]| figures.map(|figure| format!("{figure:.3}")).join(" ");
        let (found, share) = (row(found), row(share));
        println!("{label:<28} {:>6}   {found}    {share}   {indexed:>8.0?} {each:>8.0?}", ids.len());
    }
    Ok(())
}

fn recall(index: &Index, ids: &[String], queries: &[Value], mistyped: bool) -> ([f64; 3], [f64; 3], Duration) {
    let (mut found, mut share) = ([0.0; 3], [0.0; 3]);
    let mut spent = Duration::ZERO;
    for (number, query) in queries.iter().enumerate() {
        let relevant: Vec<&str> =
            query["relevant"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let query = if mistyped { mistype(text(query, "query"), number) } else { text(query, "query").to_owned() };
        let start = Instant::now();
        let hits = index.search(&query, AT[2], |_| true);
        spent += start.elapsed();
        for (place, first) in AT.into_iter().enumerate() {
            let right = hits.iter().take(first).filter(|hit| relevant.contains(&&*ids[hit.index])).count();
            found[place] += f64::from(u8::from(right > 0));
            share[place] += right as f64 / relevant.len().max(1) as f64;
        }
    }
    let count = queries.len().max(1);
    let average = |sums: [f64; 3]| sums.map(|sum| sum / count as f64);
    (average(found), average(share), spent / count as u32)
}

/// One error in every third word of six small letters or more: a letter left out, doubled, or swapped with the next.
fn mistype(query: &str, number: usize) -> String {
    let word = |(place, word): (usize, &str)| {
        let mut letters: Vec<char> = word.chars().collect();
        let long = letters.len() >= 6 && letters.iter().all(char::is_ascii_lowercase);
        if long && (number + place).is_multiple_of(3) {
            let at = 1 + (number * 7 + place) % (letters.len() - 2);
            match number % 3 {
                0 => drop(letters.remove(at)),
                1 => letters.swap(at, at + 1),
                _ => letters.insert(at, letters[at]),
            }
        }
        letters.into_iter().collect::<String>()
    };
    query.split(' ').enumerate().map(word).collect::<Vec<_>>().join(" ")
}

fn document(tool: &Value) -> Document {
    let parameters = tool["params"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Document {
        name: format!("mcp__{}__{}", text(tool, "server"), text(tool, "tool")),
        bare: text(tool, "tool").to_owned(),
        server: text(tool, "server").to_owned(),
        title: text(tool, "title").to_owned(),
        description: text(tool, "description").to_owned(),
        parameters: parameters.map(|name| (name.to_owned(), String::new())).collect(),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn lines(path: &Path) -> anyhow::Result<Vec<Value>> {
    Ok(std::fs::read_to_string(path)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}
