//! The part of a source that a snippet shows: whole lines around the marks, long lines cut to a window.
//!
//! Keeps a report small and quick whatever the file is: one line of a minified JSON file may be a megabyte.

use std::ops::Range;

use crate::source::Source;

/// Longest line that is shown whole, in bytes; a longer one is cut around its marks.
const LONG: usize = 240;
/// What is kept on each side of a mark in a long line, in bytes.
const MARGIN: usize = 60;
/// Longest part of a mark that is shown in a long line, in bytes.
const MARK: usize = 100;
/// Largest run of lines between two marks that is shown, since short gaps read better without a fold.
const GAP: usize = 2;

/// Some lines of a source.
#[derive(Debug)]
pub(super) struct Excerpt {
    /// The lines, each ended by `\n`, `…` where something was cut.
    pub(super) text: String,
    /// The number of the first line, from 1.
    pub(super) first_line: usize,
    /// Each mark as bytes of `text`, in the order given.
    pub(super) marks: Vec<Range<usize>>,
}

impl Excerpt {
    /// The column that a renderer counts for the start of mark `index`, from 1.
    pub(super) fn column(&self, index: usize) -> usize {
        let start = self.marks[index].start;
        let line = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        self.text[line..start].chars().count() + 1
    }
}

/// Cuts runs of lines out of `source` so that every mark is in one. Marks that share a file come out as one excerpt
/// with the lines between them emptied where the gap is long; the renderer folds these.
pub(super) fn excerpt(source: &Source, marks: &[Range<usize>]) -> Excerpt {
    let marks: Vec<_> = marks.iter().map(|mark| settle(&source.text, mark)).collect();
    let wanted = wanted_lines(source, &marks);
    let first = wanted.first().copied().unwrap_or(1);
    let last = wanted.last().copied().unwrap_or(1);
    let mut out = Excerpt { text: String::new(), first_line: first, marks: marks.clone() };
    let mut next = wanted.iter().copied().peekable();
    let first_byte = marks.iter().map(|mark| mark.start).min().unwrap_or(0);
    let mut start = source.text[..first_byte].rfind('\n').map_or(0, |newline| newline + 1);
    for number in first..=last {
        let line = source.text[start..].split('\n').next().unwrap_or_default();
        if next.next_if_eq(&number).is_some() {
            let shown = line.strip_suffix('\r').unwrap_or(line);
            out.push_line(&source.text, start..start + shown.len(), &marks);
        } else {
            out.text.push('\n');
        }
        start = (start + line.len() + 1).min(source.text.len());
    }
    out
}

/// A mark inside of one line and on character boundaries: only the first line of a longer one is marked.
fn settle(text: &str, mark: &Range<usize>) -> Range<usize> {
    let boundary = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let mut start = boundary(mark.start);
    // A carriage return at the end of a line isn't shown, and what lies behind it stands where it stood.
    let ends_line = text[start..].is_empty() || text[start..].starts_with('\n');
    if ends_line && text[..start].ends_with('\r') {
        start -= 1;
    }
    let mut end = boundary(mark.end).max(start);
    if let Some(newline) = text[start..end].find('\n') {
        end = start + newline;
    }
    if text[start..end].ends_with('\r') {
        end -= 1;
    }
    start..end
}

/// The lines of the marks and what lies in short gaps between them, in order.
fn wanted_lines(source: &Source, marks: &[Range<usize>]) -> Vec<usize> {
    let mut lines: Vec<_> = marks.iter().map(|mark| source.position(mark.start).line).collect();
    lines.sort_unstable();
    lines.dedup();
    let mut wanted: Vec<usize> = Vec::new();
    for line in lines {
        if let Some(last) = wanted.last().copied()
            && line - last <= GAP + 1
        {
            wanted.extend(last + 1..line);
        }
        wanted.push(line);
    }
    wanted
}

impl Excerpt {
    /// Adds a line, cut to windows around its marks when it is long, and moves these marks along.
    fn push_line(&mut self, text: &str, line: Range<usize>, marks: &[Range<usize>]) {
        let here: Vec<_> = (0..marks.len())
            .filter(|index| line.start <= marks[*index].start && marks[*index].start <= line.end)
            .collect();
        let windows = if line.len() <= LONG { vec![line.clone()] } else { windows(text, &line, marks, &here) };
        let mut at = line.start;
        for window in windows {
            if at < window.start {
                self.text.push('…');
            }
            for index in &here {
                let mark = &marks[*index];
                if window.start <= mark.start && mark.start <= window.end {
                    let start = self.text.len() + (mark.start - window.start);
                    self.marks[*index] = start..start + (mark.end.min(window.end) - mark.start);
                }
            }
            self.text.push_str(&text[window.clone()]);
            at = window.end;
        }
        if at < line.end {
            self.text.push('…');
        }
        self.text.push('\n');
    }
}

/// The parts of a long line that are shown, in order and apart from each other.
fn windows(text: &str, line: &Range<usize>, marks: &[Range<usize>], here: &[usize]) -> Vec<Range<usize>> {
    let down = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let mut windows: Vec<Range<usize>> = here
        .iter()
        .map(|index| {
            let mark = &marks[*index];
            let end = mark.end.min(mark.start + MARK);
            down(mark.start.saturating_sub(MARGIN).max(line.start))..down((end + MARGIN).min(line.end))
        })
        .collect();
    if windows.is_empty() {
        windows.push(line.start..down((line.start + MARK).min(line.end)));
    }
    windows.sort_by_key(|window| window.start);
    let mut apart: Vec<Range<usize>> = Vec::new();
    for window in windows {
        match apart.last_mut() {
            Some(last) if window.start <= last.end => last.end = last.end.max(window.end),
            _ => apart.push(window),
        }
    }
    apart
}
