use super::*;
use proptest::prelude::*;

fn naming(pattern: &str, limit: usize) -> Naming {
    Naming { pattern: pattern.to_owned(), limit }
}

fn server(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

fn names(naming: &Naming, tools: &[(&str, &str)]) -> Vec<String> {
    let owned: Vec<_> = tools.iter().map(|(s, t)| (server(s), *t)).collect();
    let table = NameTable::build(naming, &[], owned.iter().map(|(s, t)| (s, *t)));
    owned.iter().map(|(s, t)| table.exposed(s, t).map_or("-".to_owned(), ToString::to_string)).collect()
}

#[test]
fn plain_names_stay() {
    let n = naming("mcp__{server}__{tool}", 64);
    assert_eq!(names(&n, &[("fs", "read"), ("fs", "a.b")]), ["mcp__fs__read", "mcp__fs__a_b"]);
    assert_eq!(names(&naming("{tool}", 64), &[("fs", "{server}")]), ["_server_"]);
}

#[test]
fn names_that_become_equal_are_told_apart_and_the_unchanged_keeps_its_own() {
    let n = naming("{server}__{tool}", 64);
    let got = names(&n, &[("s", "a_b"), ("s", "a.b"), ("s", "a b")]);
    assert_eq!(got[0], "s__a_b");
    assert!(got[1].starts_with("s__a_b_") && got[2].starts_with("s__a_b_") && got[1] != got[2], "{got:?}");
    let got = names(&n, &[("s", "x.y"), ("s", "x y")]);
    assert!(got.iter().all(|name| name.len() == "s__x_y_123456".len()), "neither was first: {got:?}");
}

#[test]
fn long_names_are_cut_with_a_suffix() {
    let n = naming("mcp__{server}__{tool}", 64);
    let long = "t".repeat(90);
    let got = names(&n, &[("s", &long)]);
    assert_eq!(got[0].len(), 64);
    assert!(got[0].ends_with(&suffix(&server("s"), &long)));
}

#[test]
fn without_server_the_first_in_order_keeps_the_plain_name() {
    let n = naming("{tool}", 64);
    let got = names(&n, &[("a", "search"), ("b", "search")]);
    assert_eq!(got[0], "search");
    assert_eq!(got[1], format!("search{}", suffix(&server("b"), "search")));
}

#[test]
fn a_short_separator_leaves_the_plain_name_to_the_server_that_can_be_read_first() {
    let suffixed = |name: &str, s: &str, t: &str| format!("{name}{}", suffix(&server(s), t));
    for order in [[("a_b", "c"), ("a", "b_c")], [("a", "b_c"), ("a_b", "c")]] {
        let got = names(&naming("{server}_{tool}", 64), &order);
        let expected = order.map(|(s, t)| if s == "a" { "a_b_c".to_owned() } else { suffixed("a_b_c", s, t) });
        assert_eq!(got, expected);
    }
    let shares = |pattern: &str, name: &str| naming(pattern, 64).shares_names(&server(name));
    for (pattern, name, expected) in [
        ("{server}_{tool}", "github", false),
        ("{server}_{tool}", "my-server", false),
        ("{server}_{tool}", "my.server", true),
        ("{server}-{tool}", "my-server", true),
        ("{tool}_{server}", "my_server", true),
        ("{tool}_{server}", "my-server", false),
        ("{server}_x_{tool}", "a_x", true),
        ("{server}_x_{tool}", "a_b", false),
        ("{server}{tool}", "a", false),
        ("{server}{tool}", "ab", true),
        ("mcp__{server}__{tool}", "my_server", false),
        ("{server}-__{tool}", "my-server", false),
        ("{tool}", "my_server", false),
    ] {
        assert_eq!(shares(pattern, name), expected, "{pattern} {name}");
    }
    // What looks like a name with a suffix is given one, so that it is nobody else's.
    let got = names(&naming("{server}_{tool}", 64), &[("a", "by_decade"), ("a", "by_year")]);
    assert_eq!(got, [suffixed("a_by_decade", "a", "by_decade"), "a_by_year".to_owned()]);
    assert_eq!(names(&naming("{server}__{tool}", 64), &[("a", "by_decade")]), ["a__by_decade"]);
}

#[test]
fn a_name_that_no_tool_of_a_server_can_have_is_told() {
    let n = naming("mcp__{server}__{tool}", 24);
    for (exposed, name, expected) in [
        ("mcp__a_b__x", "a.b", true),
        ("mcp__a.b__x", "a.b", false),
        ("mcp__a__x", "a.b", false),
        ("mcp__git", "github", false),
        ("mcp__a-long-name-_0a1b2c", "a-long-name-of-a-server", true),
        ("mcp__a-long-game-_0a1b2c", "a-long-name-of-a-server", false),
    ] {
        assert_eq!(n.may_be_of(exposed, &server(name)), expected, "{exposed} of {name}");
    }
    assert!(naming("{tool}", 64).may_be_of("anything", &server("a")));
}

#[test]
fn a_changed_name_says_why_it_was_changed() {
    let n = naming("{tool}", 16);
    let (a, b, long) = (server("a"), server("b"), "t".repeat(20));
    let tools = [(&a, "x"), (&a, "d.e"), (&a, "y z"), (&a, "y_z"), (&a, &*long), (&b, "x"), (&b, "kept")];
    let table = NameTable::build(&n, &["kept".to_owned()], tools);
    let change = |server, tool| table.change(&n, server, tool).unwrap();
    assert_eq!(change(&a, "x"), NameChange::None);
    assert_eq!(change(&a, "d.e"), NameChange::Characters);
    assert_eq!(change(&a, "y z"), NameChange::Taken(Some((&a, "y_z"))));
    assert_eq!(change(&a, &long), NameChange::Length(20));
    assert_eq!(change(&b, "x"), NameChange::Taken(Some((&a, "x"))));
    assert_eq!(change(&b, "kept"), NameChange::None, "not bound, and what it would be called is as the pattern says");
    assert_eq!(table.change(&n, &b, "nope"), None);
}

#[test]
fn our_own_tools_are_not_bound_over() {
    assert_eq!(names(&naming("{tool}", 64), &[("a", "search_mcp_tools"), ("a", "x")]), ["-", "x"]);
}

#[test]
fn the_hosts_own_tools_are_not_bound_over() {
    let table =
        NameTable::build(&naming("{tool}", 64), &["read".to_owned()], [(&server("a"), "read"), (&server("a"), "x")]);
    assert_eq!(table.exposed(&server("a"), "read"), None);
    assert_eq!(table.unbound().next().unwrap().2, "read");
}

proptest! {
    #[test]
    fn every_name_is_unique_valid_within_the_limit_and_leads_back(
        tools in proptest::collection::btree_set(("a|b|a_b", "[ab_. -]{1,12}"), 1..24),
        limit in 16usize..40,
        pattern in proptest::sample::select(vec![
            "mcp__{server}__{tool}", "{server}__{tool}", "{server}_{tool}", "{tool}",
        ]),
    ) {
        let naming = naming(pattern, limit);
        let owned: Vec<_> = tools.iter().map(|(s, t)| (server(s), t.as_str())).collect();
        let table = NameTable::build(&naming, &[], owned.iter().map(|(s, t)| (s, *t)));
        let of = |name| owned.iter().filter(move |(s, _)| s.as_str() == name).rev();
        let shuffled = of("a").chain(of("a_b")).chain(of("b")).map(|(s, t)| (s, *t));
        let shuffled = NameTable::build(&naming, &[], shuffled);
        prop_assert_eq!(&table, &shuffled, "order of lists within a server doesn't matter");
        for (s, t) in &owned {
            if let Some(name) = table.exposed(s, t) {
                prop_assert!(name.as_str().len() <= limit);
                prop_assert_eq!(sanitize(name.as_str()), name.as_str());
                prop_assert_eq!(table.owner(name.as_str()), Some((s, *t)));
                prop_assert!(naming.may_be_of(name.as_str(), s), "{}", name);
            }
        }
        prop_assert_eq!(table.unbound().count(), 0);
    }

    #[test]
    fn adding_a_server_never_renames_the_tools_of_another(
        tools in proptest::collection::btree_set(("a|b|ab|a_b|a-b|b_a|a_b_a|x_a", "[ab_. -]{1,8}"), 1..32),
        shuffle in any::<prop::sample::Index>(),
        limit in 20usize..40,
        pattern in proptest::sample::select(vec![
            "mcp__{server}__{tool}", "{server}__{tool}", "{server}_{tool}", "{server}-{tool}", "{server}{tool}",
            "{tool}_{server}", "{tool}-{server}", "{tool}{server}", "{tool}__{server}", "x_{server}_b_{tool}", "{tool}_a_{server}_a",
        ]),
    ) {
        let naming = naming(pattern, limit);
        let owned: Vec<_> = tools.iter().map(|(s, t)| (server(s), t.as_str())).collect();
        let mut order: Vec<_> = owned.iter().map(|(s, _)| s.clone()).collect();
        order.dedup();
        let middle = shuffle.index(order.len());
        order.rotate_left(middle);
        let of = |wanted: &ServerName| owned.iter().filter(|(s, _)| s == wanted).map(|(s, t)| (s, *t)).collect::<Vec<_>>();
        let together = NameTable::build(&naming, &[], order.iter().flat_map(of));
        for server in &order {
            let alone = NameTable::build(&naming, &[], of(server));
            for (s, tool) in of(server) {
                prop_assert_eq!(alone.exposed(s, tool), together.exposed(s, tool), "{} {}", s, tool);
            }
        }
    }
}
