//! Text for terminals: columns, wrapped lines, times.

/// Characters that a line of a table may have.
pub(super) const WIDTH: usize = 80;

/// Rows under a head, each column as wide as its widest cell. Columns of numbers, which are named in `right`, are
/// aligned on the right.
pub(super) fn columns(head: &[&str], rows: &[Vec<String>], right: &[usize]) -> Vec<String> {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.chain(head.get(at).map(|title| title.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..head.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
            if right.contains(&at) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let rows = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    std::iter::once(line(head.to_vec())).chain(rows).collect()
}

/// A text broken at its spaces so that no line is wider than [`WIDTH`], unless a word is. Every line begins with
/// `indent`, and line breaks of the text's own are spaces.
pub(super) fn wrapped(text: &str, indent: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{indent}{word}")),
        }
    }
    lines.join("\n")
}

/// Seconds as a person reads them: `40 ms`, `12 s`, `3 min`, `5 h`, `2 days`.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{} ms", (s * 1000.0).round()),
        s if s < 120.0 => format!("{} s", s.floor()),
        s if s < 2.0 * 3600.0 => format!("{} min", (s / 60.0).floor()),
        s if s < 48.0 * 3600.0 => format!("{} h", (s / 3600.0).floor()),
        s => format!("{} days", (s / (24.0 * 3600.0)).floor()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_under_their_heads() {
        let rows = [vec!["a".to_owned(), "7".to_owned()], vec!["längere".to_owned(), "1200".to_owned()]];
        assert_eq!(columns(&["NAME", "N"], &rows, &[1]), ["NAME        N", "a           7", "längere  1200"]);
    }

    #[test]
    fn text_keeps_to_its_width_as_far_as_its_words_do() {
        let text = "word ".repeat(40) + &"x".repeat(100) + "\nend";
        let wrapped = wrapped(&text, "    ");
        assert!(
            wrapped.lines().all(|line| line.starts_with("    ") && (line.len() <= WIDTH || !line.contains("word")))
        );
        assert!(wrapped.ends_with("\n    end"));
        assert_eq!(super::wrapped("", "  "), "");
    }

    #[test]
    fn durations_have_one_unit() {
        let all = [0.0, 0.9994, 1.0, 119.9, 120.0, 7200.0, 172_800.0].map(duration);
        assert_eq!(all, ["0 ms", "999 ms", "1 s", "119 s", "2 min", "2 h", "2 days"]);
    }
}
