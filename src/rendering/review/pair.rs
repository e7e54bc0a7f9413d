//! The objects of both sides, matched by key.

use super::canonical;
use super::key::ObjectKey;
use serde_json::Value;
use std::collections::BTreeMap;

/// An object on both sides. At least one side exists.
#[derive(Clone, Debug)]
pub(super) struct Pair<'a> {
    pub(super) key: ObjectKey,
    pub(super) before: Option<&'a Value>,
    pub(super) after: Option<&'a Value>,
    /// Computed once, because every rule needs it.
    pub(super) is_changed: bool,
}

impl Pair<'_> {
    /// True if the object has this group and kind.
    pub(super) fn is(&self, group: &str, kind: &str) -> bool {
        self.key.group == group && self.key.kind == kind
    }
}

/// Objects with the same key. Equal ones are paired first, then the others in a fixed order.
#[derive(Default)]
struct Group<'a> {
    before: Vec<&'a Value>,
    after: Vec<&'a Value>,
}

/// Returns pairs sorted by key, independent of the order of the objects. The objects in `same` exist on both sides
/// in addition to the others.
pub(super) fn pairs<'a>(before: &'a [Value], after: &'a [Value], same: &'a [Value]) -> Vec<Pair<'a>> {
    let mut groups: BTreeMap<ObjectKey, Group<'a>> = BTreeMap::new();
    let mut add = |object: &'a Value, is_before: bool, is_after: bool| {
        let group = groups.entry(ObjectKey::from_object(object)).or_default();
        group.before.extend(is_before.then_some(object));
        group.after.extend(is_after.then_some(object));
    };
    before.iter().for_each(|object| add(object, true, false));
    after.iter().for_each(|object| add(object, false, true));
    same.iter().for_each(|object| add(object, true, true));
    groups
        .into_iter()
        .flat_map(|(key, group)| group.pairs(&key))
        .collect()
}

impl<'a> Group<'a> {
    fn pairs(self, key: &ObjectKey) -> Vec<Pair<'a>> {
        let matched = match (self.before.as_slice(), self.after.as_slice()) {
            ([before], [after]) => vec![(Some(*before), Some(*after))],
            _ => self.matched(),
        };
        let numbered = (1..).zip(matched);
        numbered
            .map(|(occurrence, (before, after))| Pair {
                key: ObjectKey {
                    occurrence,
                    ..key.clone()
                },
                before,
                after,
                is_changed: !is_one(before, after),
            })
            .collect()
    }

    fn matched(mut self) -> Vec<(Option<&'a Value>, Option<&'a Value>)> {
        self.before.sort_by_cached_key(|object| canonical::text(object));
        self.after.sort_by_cached_key(|object| canonical::text(object));
        let mut matched = Vec::new();
        self.before.retain(|before| {
            let Some(position) = self
                .after
                .iter()
                .position(|after| is_one(Some(*before), Some(*after)))
            else {
                return true;
            };
            matched.push((Some(*before), Some(self.after.remove(position))));
            false
        });
        for position in 0..self.before.len().max(self.after.len()) {
            matched.push((
                self.before.get(position).copied(),
                self.after.get(position).copied(),
            ));
        }
        matched
    }
}

/// True if both sides are equal or both are absent.
fn is_one(before: Option<&Value>, after: Option<&Value>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => std::ptr::eq(before, after) || before == after,
        (before, after) => before.is_none() && after.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::pairs;
    use serde_json::{Value, json};

    fn shown(before: &[Value], after: &[Value], same: &[Value]) -> Vec<String> {
        let number = |side: Option<&Value>| side.map_or(String::new(), |object| object["n"].to_string());
        let pairs = pairs(before, after, same).into_iter();
        pairs
            .map(|pair| format!("{}: {} -> {}", pair.key, number(pair.before), number(pair.after)))
            .collect()
    }

    fn object(name: &str, n: u32) -> Value {
        json!({ "kind": "Job", "metadata": { "generateName": name }, "n": n })
    }

    #[test]
    fn objects_with_one_key_are_matched_by_what_they_are() {
        let before = [object("a-", 1), object("b-", 1)];
        let after = [object("a-", 2), object("a-", 4)];
        let same = [object("a-", 3)];
        let expected = [
            "Job a-*: 3 -> 3",
            "Job a-* (no. 2): 1 -> 2",
            "Job a-* (no. 3):  -> 4",
            "Job b-*: 1 -> ",
        ];
        assert_eq!(shown(&before, &after, &same), expected);
        // The result is the same if no object is declared equal.
        let whole = |own: &[Value]| [own, &same].concat();
        assert_eq!(shown(&whole(&before), &whole(&after), &[]), expected);
    }
}
