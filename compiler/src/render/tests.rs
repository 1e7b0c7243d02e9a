//! How reports look: cut lines, odd characters, several files, many problems.

use super::*;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::source::{Source, SourceId, SourceMap, Span};

macro_rules! snapshot {
    ($shown:expr) => {
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!($shown) })
    };
}

fn file(text: &str) -> (SourceMap, SourceId) {
    let mut sources = SourceMap::default();
    let id = sources.add(Source::new("config.yml", text));
    (sources, id)
}

/// A problem at the first `mark` in the text.
fn problem(sources: &SourceMap, id: SourceId, mark: &str) -> Diagnostic {
    let start = sources.get(id).text.find(mark).expect("the mark is in the text");
    Diagnostic::new(Code::UnknownKey, Span::new(id, start..start + mark.len()), "a message")
        .label("here")
        .help("do this")
}

fn show(diagnostics: &[Diagnostic], sources: &SourceMap) -> String {
    human(diagnostics, sources, Human::default())
}

fn look(text: &str, mark: &str) -> String {
    let (sources, id) = file(text);
    show(&[problem(&sources, id, mark)], &sources)
}

#[test]
fn tabs_wide_characters_and_line_ends() {
    snapshot!(look("a: 1\r\nb:\tx\r\nc: 2\r\n", "x"));
    // What is marked may stand behind the carriage return that ends a line, or be one.
    for (text, at) in [("a: 1\r\nb: 2\r\n", 5..6), ("a: 1\r\nb: 2\r\n", 4..5), ("a: 1\n\r\r", 7..7)] {
        let (sources, id) = file(text);
        let end = Diagnostic::new(Code::Syntax, Span::new(id, at.clone()), "a message").label("here");
        let place = if at.start == 7 { ":2:3" } else { ":1:" };
        let shown = show(&[end], &sources);
        assert!(shown.contains(place) && shown.contains("^ here"), "{text:?} {at:?}: {shown}");
    }
    snapshot!(look("名前: 値 # é\n", "値"));
    snapshot!(look("a: 1\r\nb\r\n", "b\r\n"));
}

#[test]
fn a_mark_at_the_end_of_the_file() {
    let (sources, id) = file("a: [");
    let at_end = Diagnostic::new(Code::Syntax, Span::new(id, 4..4), "the file ends here");
    snapshot!(show(&[at_end], &sources));
    let (sources, id) = file("a:\n");
    let past_end = Diagnostic::new(Code::Syntax, Span::new(id, 3..99), "the file ends here");
    snapshot!(show(&[past_end], &sources));
}

#[test]
fn a_long_line_is_cut_around_its_marks() {
    let text = format!(
        "first: 1\n{{{}\"comand\": 1, {}\"again\": 2, {}}}\nlast: 1\n",
        "\"aé\": 1, ".repeat(9000),
        "\"b\": 1, ".repeat(40),
        "\"c\": 1, ".repeat(9000)
    );
    let (sources, id) = file(&text);
    let again = problem(&sources, id, "again").primary.at;
    let shown = show(&[problem(&sources, id, "comand").related(again, "and here")], &sources);
    assert!(shown.len() < 2000, "{} bytes", shown.len());
    snapshot!(shown);
    let long_mark = "x".repeat(100_000);
    let shown = look(&format!("a: {long_mark}\n"), &long_mark);
    assert!(shown.len() < 2000, "{} bytes", shown.len());
}

#[test]
fn a_mark_over_several_lines_shows_the_first() {
    snapshot!(look("a:\n  b: 1\n  c: 2\n", "b: 1\n  c: 2"));
}

#[test]
fn places_in_one_file_share_a_snippet_and_files_have_their_own() {
    let (mut sources, id) = file("mcp_servers:\n  - name: github\n\n\n\n\n  - name: github\n");
    let other = sources.add(Source::new("teams/a.yml", "- name: github\n"));
    let diagnostic = Diagnostic::new(Code::DuplicateServer, Span::new(id, 44..50), "two servers are named `github`")
        .label("again")
        .related(Span::new(id, 23..29), "first")
        .related(Span::new(other, 8..14), "and in this fragment")
        .help("rename one of them");
    snapshot!(show(&[diagnostic], &sources));
}

#[test]
fn the_worst_problems_are_shown_and_the_rest_counted() {
    let (sources, id) = file("a\n");
    let one = |severity, number: usize| Diagnostic {
        severity,
        ..Diagnostic::new(Code::Syntax, Span::new(id, 0..1), format!("problem {number}"))
    };
    let mut many: Vec<_> = (0..30).map(|number| one(Severity::Warning, number)).collect();
    many.push(one(Severity::Error, 30));
    let shown = show(&many, &sources);
    assert_eq!(shown.matches("warning[syntax]").count(), 19);
    assert!(shown.contains("error[syntax]: problem 30"), "an error is never among what is left out");
    assert!(shown.ends_with("… and 11 more problems; `mcplan validate --format json` shows all\n\n"), "{shown}");
    assert!(show(&many[..20], &sources).ends_with("^\n\n"));
    assert!(
        show(&many[..21], &sources).ends_with("… and 1 more problem; `mcplan validate --format json` shows all\n\n")
    );
    assert_eq!(show(&[], &sources), "");
}

#[test]
fn colours_are_only_added() {
    let (sources, id) = file("a: comand\n");
    let diagnostics = [problem(&sources, id, "comand")];
    let styled = human(&diagnostics, &sources, Human { styled: true, ..Human::default() });
    assert!(styled.contains("\u{1b}["));
    let mut plain = String::new();
    for (index, piece) in styled.split("\u{1b}[").enumerate() {
        plain += if index == 0 { piece } else { piece.split_once('m').map_or("", |(_, rest)| rest) };
    }
    let trimmed: String = plain.lines().flat_map(|line| [line.trim_end(), "\n"]).collect();
    assert_eq!(trimmed, show(&diagnostics, &sources));
}

#[test]
fn json_holds_every_place() {
    let (mut sources, id) = file("é: comand\nb: 1\n");
    let other = sources.add(Source::new("b.yml", "x: 1\n"));
    let first = problem(&sources, id, "comand").related(Span::new(other, 3..4), "here too");
    let second = Diagnostic::new(Code::BareDollar, Span::new(id, 11..11), "another");
    snapshot!(format!("{:#}", json(&[first, second], &sources)));
}
