//! Diagnostics the way rustc shows them: the place, the line, a mark under it, and what to do.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use super::excerpt::excerpt;
use crate::diagnostic::{Diagnostic, Label, Severity};
use crate::source::{SourceId, SourceMap};

/// How to show diagnostics to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Human {
    /// With colours, as escape sequences.
    pub styled: bool,
    /// At most this many are shown; errors before warnings before notes.
    pub limit: usize,
}

impl Default for Human {
    /// No colours, twenty problems.
    fn default() -> Self {
        Self { styled: false, limit: 20 }
    }
}

/// The text for `diagnostics`, in the order given, each followed by an empty line, and a count of what was left out.
/// Empty when there are none. How many errors there were is for the caller to say.
pub fn human(diagnostics: &[Diagnostic], sources: &SourceMap, how: Human) -> String {
    let renderer = if how.styled { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.decor_style(DecorStyle::Ascii);
    let mut out = String::new();
    for index in chosen(diagnostics, how.limit) {
        // Blank cells at the end of a line help nobody and break comparisons.
        let shown = one(&diagnostics[index], sources, &renderer);
        out.extend(shown.lines().flat_map(|line| [line.trim_end(), "\n"]));
        out.push('\n');
    }
    let left = diagnostics.len().saturating_sub(how.limit);
    if left > 0 {
        out += &format!(
            "… and {left} more {}; `mcplan validate --format json` shows all\n\n",
            if left == 1 { "problem" } else { "problems" }
        );
    }
    out
}

/// Which to show, in order: the worst ones when not all fit.
fn chosen(diagnostics: &[Diagnostic], limit: usize) -> Vec<usize> {
    let mut indexes: Vec<_> = (0..diagnostics.len()).collect();
    indexes.sort_by_key(|index| diagnostics[*index].severity);
    indexes.truncate(limit);
    indexes.sort_unstable();
    indexes
}

fn one(diagnostic: &Diagnostic, sources: &SourceMap, renderer: &Renderer) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let mut group = Group::with_title(level.primary_title(&*diagnostic.message).id(diagnostic.code.as_str()));
    let mut columns = Vec::new();
    for id in files(diagnostic) {
        group = add_file(group, diagnostic, id, sources, &mut columns);
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(&**help));
    }
    let mut shown = renderer.render(&[group]);
    // In a cut line the renderer counts columns of what is left of it.
    for Column { place, counted, column } in columns.iter().filter(|column| column.counted != column.column) {
        shown = shown.replacen(&format!("{place}:{counted}"), &format!("{place}:{column}"), 1);
    }
    shown
}

/// The files of a diagnostic, that of the problem itself first.
fn files(diagnostic: &Diagnostic) -> Vec<SourceId> {
    let mut files = vec![diagnostic.primary.at.source];
    for label in &diagnostic.related {
        if !files.contains(&label.at.source) {
            files.push(label.at.source);
        }
    }
    files
}

/// The column in the head line of a snippet, `config.yml:3:5`.
struct Column {
    /// Path and line.
    place: String,
    counted: usize,
    column: usize,
}

fn add_file<'a>(
    group: Group<'a>,
    diagnostic: &'a Diagnostic,
    id: SourceId,
    sources: &'a SourceMap,
    columns: &mut Vec<Column>,
) -> Group<'a> {
    let source = sources.get(id);
    let labels: Vec<(AnnotationKind, &Label)> = std::iter::once((AnnotationKind::Primary, &diagnostic.primary))
        .chain(diagnostic.related.iter().map(|label| (AnnotationKind::Context, label)))
        .filter(|(_, label)| label.at.source == id)
        .collect();
    let Some((_, first)) = labels.first() else { return group };
    let place = source.position(first.at.start);
    if source.text.is_empty() {
        // Nothing to show: the file is empty, or too large to be kept.
        return group.element(Origin::path(&*source.path).line(place.line).char_column(place.column));
    }
    let marks: Vec<_> = labels.iter().map(|(_, label)| label.at.range()).collect();
    let excerpt = excerpt(source, &marks);
    columns.push(Column {
        place: format!("{}:{}", source.path, place.line),
        counted: excerpt.column(0),
        column: place.column,
    });
    let annotations = labels.iter().zip(excerpt.marks).map(|((kind, label), mark)| {
        let annotation: Annotation<'a> = kind.span(mark);
        if label.text.is_empty() { annotation } else { annotation.label(&*label.text) }
    });
    let snippet = Snippet::source(excerpt.text).path(&*source.path).line_start(excerpt.first_line);
    group.element(snippet.annotations(annotations))
}
