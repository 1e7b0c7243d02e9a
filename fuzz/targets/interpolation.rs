//! A scalar with references: findings lie in it, text alone stays text, and what is printed reads as the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcplan_compiler::interpolate::Template;

fuzz_target!(|text: &str| {
    let (template, findings) = Template::parse(text);
    for finding in &findings {
        assert!(text.get(finding.at.clone()).is_some_and(|at| at.starts_with('$')), "{finding:?}");
    }
    if !text.contains('$') {
        assert_eq!(template.as_literal().as_deref(), Some(text));
        assert!(findings.is_empty());
    }
    assert_eq!(template.as_literal().is_none(), template.references().next().is_some());
    // Once only: a value that looks like a reference is a value.
    let looked = template.resolve(|_| Ok::<_, ()>("${NOT_AGAIN}".to_owned())).expect("every look-up gives a value");
    assert!(looked.matches("${NOT_AGAIN}").count() >= template.references().count());
    assert_eq!(Template::literal(text).as_literal().as_deref(), Some(text));
    let printed = template.to_string();
    if !findings.iter().any(|finding| finding.kind.is_error()) {
        assert_eq!(Template::parse(&printed).0, template, "{printed}");
    }
});
