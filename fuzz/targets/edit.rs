//! A text for a value, NUL, then a config: an entry goes in and out again without another byte changed, or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcplan_compiler::edit::{List, Value, add, names, remove};

/// What of `old` isn't in `new` any more, when the two differ in one place.
fn lost<'t>(old: &'t str, new: &str) -> &'t str {
    let head = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    let tail = old.bytes().rev().zip(new.bytes().rev()).take_while(|(a, b)| a == b).count();
    let from = (0..=head).rev().find(|at| old.is_char_boundary(*at)).unwrap_or(0);
    let to = (old.len() - tail..=old.len()).find(|at| old.is_char_boundary(*at)).unwrap_or(old.len());
    old.get(from..to).unwrap_or_default()
}

/// That `new` is `old` with one entry more: where there was an empty list or a null, that is gone with the blanks around it.
fn is_with_an_entry(old: &str, new: &str) -> bool {
    let nulls = ["~", "null", "Null", "NULL"].into_iter().flat_map(|word| old.match_indices(word));
    let nulls = nulls.map(|(at, word)| at..at + word.len());
    let lists = old.match_indices('[').filter_map(|(at, _)| {
        let inside = &old[at + 1..];
        inside.trim_start().starts_with(']').then(|| at..at + 2 + inside.len() - inside.trim_start().len())
    });
    let emptied = nulls.chain(lists).map(|at| format!("{}{}", old[..at.start].trim_end(), &old[at.end..]));
    std::iter::once(old.to_owned()).chain(emptied).any(|old| lost(&old, new).trim().is_empty())
}

/// That `new` is `old` without one entry; a list without its last one is written `[]`.
fn is_without_an_entry(old: &str, new: &str) -> bool {
    let emptied = new.match_indices(" []").map(|(at, made)| format!("{}{}", &new[..at], &new[at + made.len()..]));
    std::iter::once(new.to_owned()).chain(emptied).any(|new| lost(&new, old).is_empty())
}

fuzz_target!(|text: &str| {
    let (odd, config) = text.split_once('\0').unwrap_or(("plain", text));
    // YAML knows no longer keys, escapes and all.
    let key: String = odd.chars().take(100).collect();
    let entry = Value::Map(vec![
        ("name".to_owned(), Value::text("one-more")),
        ("command".to_owned(), Value::text(odd)),
        ("args".to_owned(), Value::texts(["-y", odd])),
        ("env".to_owned(), Value::Map(vec![(key, Value::text(odd))])),
    ]);
    let alone = add("", List::Servers, &entry).unwrap_or_else(|why| panic!("{why}: {odd:?}"));
    assert_eq!(remove(&alone, "one-more").expect("it was added").entry, entry);
    let before = names(config).unwrap_or_default();
    for (list, entry, name) in
        [(List::Servers, entry, "one-more"), (List::Builtins, Value::text("another"), "another")]
    {
        let Ok(new) = add(config, list, &entry) else { continue };
        assert!(is_with_an_entry(config, &new), "{config}\n---\n{new}");
        let mut after = before.clone();
        after.push(name.to_owned());
        let mut now = names(&new).expect("it was written by us");
        now.sort();
        after.sort();
        assert_eq!(now, after, "{config}\n---\n{new}");
        if before.iter().any(|other| other == name) {
            continue;
        }
        let back = match remove(&new, name) {
            Ok(back) => back,
            // Lines that end in a lone CR, as on very old Macs, may be refused.
            Err(_) if config.replace("\r\n", "").contains('\r') => continue,
            Err(why) => panic!("{why}\n{config}\n---\n{new}"),
        };
        assert_eq!(back.entry, entry);
        assert!(is_without_an_entry(&new, &back.text), "{new}\n---\n{}", back.text);
        assert_eq!(names(&back.text).expect("it was written by us"), before, "{config}\n---\n{}", back.text);
    }
    for name in &before {
        let Ok(removed) = remove(config, name) else { continue };
        assert!(is_without_an_entry(config, &removed.text), "{config}\n---\n{}", removed.text);
    }
});
