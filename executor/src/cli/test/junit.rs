//! Results as JUnit XML, in what the readers of CI systems agree on: a suite for each file, a case for each test with its
//! file and line, one `failure` in each case that fails. No clock is read, so every time is 0.

use std::fmt::Write as _;

use super::Run;
use super::result::TestResult;

/// The whole document.
pub(super) fn document(run: &Run) -> String {
    // A stale lock fails the run, so it has to be a case that fails: who reads this doesn't see the exit code.
    let stale = (!run.fits && !run.results.is_empty()).then(|| run.stale());
    let extra = usize::from(stale.is_some());
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let (all, failed) = (run.results.len() + extra, run.failed() + extra);
    let _ = writeln!(out, "<testsuites name=\"mcplan test\" {}>", counts(all, failed));
    if let Some(stale) = stale {
        let _ = writeln!(out, "  <testsuite name=\"{}\" {}>", escaped(&run.lock), counts(1, 1));
        let place = format!("file=\"{}\"", escaped(&run.lock));
        case(&mut out, "mcplan.lock", &format!("{} fits {}", run.lock, run.config), &place, Some(&[stale]));
        out.push_str("  </testsuite>\n");
    }
    for file in run.results.chunk_by(|a, b| a.place.file == b.place.file) {
        let failed = file.iter().filter(|result| !result.holds).count();
        let _ = writeln!(out, "  <testsuite name=\"{}\" {}>", escaped(&file[0].place.file), counts(file.len(), failed));
        for result in file {
            let TestResult { place, agent, what, holds, why } = result;
            let at = format!("file=\"{}\" line=\"{}\"", escaped(&place.file), place.line);
            case(&mut out, &format!("mcplan.{agent}"), what, &at, (!holds).then_some(why));
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

fn counts(tests: usize, failures: usize) -> String {
    format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"0\" time=\"0\"")
}

/// One case, with why it fails when it does.
fn case(out: &mut String, class: &str, name: &str, place: &str, failure: Option<&[String]>) {
    let (class, name) = (escaped(class), escaped(name));
    let _ = write!(out, "    <testcase classname=\"{class}\" name=\"{name}\" {place} time=\"0\"");
    let Some(why) = failure else { return out.push_str("/>\n") };
    let (first, all) = (why.first().map(|line| escaped(line)).unwrap_or_default(), escaped_text(&why.join("\n")));
    let _ = writeln!(out, ">\n      <failure message=\"{first}\" type=\"failed\">{all}</failure>\n    </testcase>");
}

/// A text as the value of an attribute, where a line break would be read as a blank.
fn escaped(text: &str) -> String {
    escaped_text(text).replace('\n', "&#10;").replace('\t', "&#9;")
}

/// A text between tags. What XML 1.0 forbids even when it is escaped is replaced.
fn escaped_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            // Read as a line feed if it stood there as it is.
            '\r' => out.push_str("&#13;"),
            '\t' | '\n' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'.. => out.push(c),
            _ => out.push('\u{fffd}'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_cannot_hold_is_replaced() {
        assert_eq!(
            escaped_text("a<b>&\"'\u{1b}[31m\0\u{fffe}é😀"),
            "a&lt;b&gt;&amp;&quot;&apos;\u{fffd}[31m\u{fffd}\u{fffd}é😀"
        );
        assert_eq!(escaped("two\r\nlines\t"), "two&#13;&#10;lines&#9;");
    }
}
