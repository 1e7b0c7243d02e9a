//! Which items of two lists belong together, whatever their order.

use std::collections::{BTreeMap, VecDeque};

/// What is left of two lists when equal items are put aside. Each item comes with its place.
pub(super) struct Pairs<'a, T> {
    /// Items that are alike and not equal.
    pub(super) changed: Vec<(&'a T, (usize, &'a T))>,
    /// Only in the first list.
    pub(super) removed: Vec<(usize, &'a T)>,
    /// Only in the second.
    pub(super) added: Vec<(usize, &'a T)>,
}

/// Pairs items: first those with the same `whole`, then, in order, those with the same `name`.
pub(super) fn pair<'a, T, W: Ord, N: Ord>(
    was: &'a [T],
    is: &'a [T],
    whole: impl Fn(&'a T) -> W,
    name: impl Fn(&'a T) -> N,
) -> Pairs<'a, T> {
    let (was, is) = without_equal(was, is, whole);
    let mut by_name: BTreeMap<N, VecDeque<(usize, &T)>> = BTreeMap::new();
    for item in is {
        by_name.entry(name(item.1)).or_default().push_back(item);
    }
    let mut pairs = Pairs { changed: Vec::new(), removed: Vec::new(), added: Vec::new() };
    for item in was {
        match by_name.get_mut(&name(item.1)).and_then(VecDeque::pop_front) {
            Some(now) => pairs.changed.push((item.1, now)),
            None => pairs.removed.push(item),
        }
    }
    pairs.added.extend(by_name.into_values().flatten());
    pairs.added.sort_by_key(|(at, _)| *at);
    pairs
}

type Places<'a, T> = Vec<(usize, &'a T)>;

fn without_equal<'a, T, W: Ord>(
    was: &'a [T],
    is: &'a [T],
    whole: impl Fn(&'a T) -> W,
) -> (Places<'a, T>, Places<'a, T>) {
    let mut now: BTreeMap<W, VecDeque<(usize, &T)>> = BTreeMap::new();
    for (at, item) in is.iter().enumerate() {
        now.entry(whole(item)).or_default().push_back((at, item));
    }
    let left =
        was.iter().enumerate().filter(|(_, item)| now.get_mut(&whole(item)).and_then(VecDeque::pop_front).is_none());
    let left = left.collect();
    let mut open: Vec<_> = now.into_values().flatten().collect();
    open.sort_by_key(|(at, _)| *at);
    (left, open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_items_go_together_first_then_those_of_one_name() {
        let was = ["a1", "b1", "c1", "b2"];
        let is = ["b2", "d1", "a1", "b3"];
        let pairs = pair(&was, &is, |item| *item, |item| &item[..1]);
        assert_eq!(pairs.changed, [(&"b1", (3, &"b3"))]);
        assert_eq!(pairs.removed, [(2, &"c1")]);
        assert_eq!(pairs.added, [(1, &"d1")]);
    }
}
