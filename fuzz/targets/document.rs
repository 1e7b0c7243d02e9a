//! Bytes → document: never a panic; what has no document has an error; every place lies in the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcplan_compiler::document;
use mcplan_compiler::render::{self, Human};
use mcplan_compiler::source::SourceMap;

fuzz_target!(|bytes: &[u8]| {
    let mut texts = SourceMap::default();
    let (id, document, diagnostics) = document::load(&mut texts, "config.yml", bytes);
    assert!(document.is_some() || diagnostics.iter().any(|diagnostic| diagnostic.is_error()), "nothing, for no reason");
    let text = &texts.get(id).text;
    for diagnostic in &diagnostics {
        for at in std::iter::once(&diagnostic.primary).chain(&diagnostic.related).map(|label| label.at) {
            assert!(at.start <= at.end && (at.end <= text.len() || text.is_empty()), "{diagnostic:?}");
            assert!(text.is_empty() || text.get(at.range()).is_some(), "within a character: {diagnostic:?}");
        }
    }
    render::human(&diagnostics, &texts, Human::default());
    render::json(&diagnostics, &texts);
});
