//! Classes of environments with the same change, and the differences of the other classes from the largest one.

use super::canonical;
use super::diff::{ObjectChange, ObjectChangeKind};
use super::input::ReviewedEnvironment;
use super::key::ObjectKey;
use super::neutral::EnvironmentWords;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Environments with the same change, apart from names of the environment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangeClass {
    /// The environments, sorted. The first one is shown as the example.
    pub environments: Vec<String>,
    /// The number of changed objects and fields that the largest class has too.
    pub shared: usize,
    /// The differences from the largest class. Empty for that class itself.
    pub differs: Vec<ClassDifference>,
}

/// A field or whole object that differs from the largest class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassDifference {
    /// The object, such as `apps/Deployment web`.
    pub object: String,
    /// The field. Empty for a whole object.
    pub path: String,
    /// The change in this class; `None` without a change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub here: Option<Transition>,
    /// The change in the largest class; `None` without a change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<Transition>,
}

/// The value of a field or object before and after the change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Transition {
    /// The value before; `None` if it is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The value after; `None` if it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// A changed field or whole object, with the neutral name and content for comparisons.
struct Fact {
    /// The neutral object and field.
    place: String,
    content: String,
    key: ObjectKey,
    path: String,
    transition: Transition,
}

/// Returns the classes of the changed environments: the largest first, then by the name of the first environment.
/// Every environment is in exactly one class.
pub(super) fn classes(affected: &[(&ReviewedEnvironment, &[ObjectChange])]) -> Vec<ChangeClass> {
    let mut groups: BTreeMap<String, (Vec<String>, Vec<Fact>)> = BTreeMap::new();
    let mut sorted: Vec<_> = affected.iter().collect();
    sorted.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
    for (environment, changes) in sorted {
        let facts = facts(&EnvironmentWords::of(environment), changes);
        let signature = facts
            .iter()
            .map(|fact| format!("{}\n{}\n", fact.place, fact.content))
            .collect();
        let (names, _) = groups.entry(signature).or_insert_with(|| (Vec::new(), facts));
        names.push(environment.name.clone());
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by(|(one, _), (other, _)| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    let mut groups = groups.into_iter();
    let Some((environments, largest)) = groups.next() else {
        return Vec::new();
    };
    let mut first = ChangeClass {
        environments,
        shared: largest.len(),
        differs: Vec::new(),
    };
    let mut others: Vec<ChangeClass> = groups
        .map(|(environments, facts)| compared(environments, &facts, &largest))
        .collect();
    // If a word of an environment also has another meaning, its change may differ only in the neutral form.
    for class in others.extract_if(.., |class| class.differs.is_empty()) {
        first.environments.extend(class.environments);
    }
    first.environments.sort();
    others.insert(0, first);
    others
}

fn facts(neutral: &EnvironmentWords, changes: &[ObjectChange]) -> Vec<Fact> {
    let mut facts = Vec::new();
    for change in changes {
        let key = neutral.key(&change.object);
        let mut fact = |path: &str, transition: Transition| {
            // `null` differs from a missing value.
            let side = |value: &Option<Value>| value.as_ref().map(|value| [neutral.value(value)]);
            let content = json!([change.happens, side(&transition.before), side(&transition.after)]);
            facts.push(Fact {
                place: json!([key, neutral.text(path)]).to_string(),
                content: canonical::text(&content),
                key: change.object.clone(),
                path: path.to_owned(),
                transition,
            });
        };
        match change.happens {
            ObjectChangeKind::Added => fact("", transition(None, change.full_object.clone())),
            ObjectChangeKind::Removed => fact("", transition(change.full_object.clone(), None)),
            ObjectChangeKind::Changed => {
                for field in change
                    .fields
                    .iter()
                    .filter(|field| !EnvironmentWords::is_label(&field.path))
                {
                    fact(&field.path, transition(field.before.clone(), field.after.clone()));
                }
            }
        }
    }
    // Sorted by neutral place, because the names of the environment must not affect the order.
    facts.sort_by(|one, other| (&one.place, &one.content).cmp(&(&other.place, &other.content)));
    facts
}

fn transition(before: Option<Value>, after: Option<Value>) -> Transition {
    Transition { before, after }
}

fn compared(environments: Vec<String>, here: &[Fact], largest: &[Fact]) -> ChangeClass {
    let mut missing = FactIndex::of(largest);
    let mut shared = 0;
    let mut differs = Vec::new();
    for fact in here {
        match missing.take(fact) {
            Some(there) if there.is_same(fact) => shared += 1,
            there => differs.push(difference(fact, Some(fact), there)),
        }
    }
    differs.extend(missing.remaining().map(|fact| difference(fact, None, Some(fact))));
    ChangeClass {
        environments,
        shared,
        differs,
    }
}

impl Fact {
    fn is_same(&self, other: &Fact) -> bool {
        self.content == other.content || self.transition == other.transition
    }
}

/// Facts by neutral place, or else by original name.
struct FactIndex<'a> {
    facts: Vec<Option<&'a Fact>>,
    neutral: BTreeMap<&'a str, usize>,
    plain: BTreeMap<(&'a ObjectKey, &'a str), usize>,
}

impl<'a> FactIndex<'a> {
    fn of(facts: &'a [Fact]) -> Self {
        let positions = || facts.iter().enumerate();
        Self {
            facts: facts.iter().map(Some).collect(),
            neutral: positions()
                .map(|(position, fact)| (fact.place.as_str(), position))
                .collect(),
            plain: positions()
                .map(|(position, fact)| ((&fact.key, fact.path.as_str()), position))
                .collect(),
        }
    }

    fn take(&mut self, fact: &Fact) -> Option<&'a Fact> {
        let plain = || self.plain.get(&(&fact.key, fact.path.as_str()));
        let position = self.neutral.get(fact.place.as_str()).or_else(plain)?;
        self.facts.get_mut(*position).and_then(Option::take)
    }

    fn remaining(self) -> impl Iterator<Item = &'a Fact> {
        self.facts.into_iter().flatten()
    }
}

fn difference(named: &Fact, here: Option<&Fact>, elsewhere: Option<&Fact>) -> ClassDifference {
    ClassDifference {
        object: named.key.short(),
        path: named.path.clone(),
        here: here.map(|fact| fact.transition.clone()),
        elsewhere: elsewhere.map(|fact| fact.transition.clone()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{ChangeClass, classes};
    use crate::rendering::review::diff::{ObjectChange, ObjectChangeKind};
    use crate::rendering::review::fields::FieldChange;
    use crate::rendering::review::input::{EnvironmentRendering, ReviewedEnvironment};
    use crate::rendering::review::key::ObjectKey;
    use serde_json::{Value, json};

    fn environment(name: &str, namespace: &str) -> ReviewedEnvironment {
        let closure = String::new();
        ReviewedEnvironment {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            rendering: EnvironmentRendering::ClosureUnchanged { closure },
        }
    }

    /// Returns a change of one field of a ConfigMap.
    fn change(namespace: &str, before: Value, after: Value) -> ObjectChange {
        let object = json!({ "kind": "ConfigMap", "metadata": { "name": "web", "namespace": namespace } });
        let field = FieldChange {
            path: "data.a".to_owned(),
            before: Some(before),
            after: Some(after),
            reordered: false,
        };
        ObjectChange {
            object: ObjectKey::from_object(&object),
            happens: ObjectChangeKind::Changed,
            fields: vec![field],
            patch: String::new(),
            lines_added: 1,
            lines_removed: 1,
            full_object: None,
        }
    }

    fn grouped(all: &[(&str, &str, ObjectChange)]) -> Vec<ChangeClass> {
        let environments: Vec<_> = all
            .iter()
            .map(|(name, namespace, _)| environment(name, namespace))
            .collect();
        let changes = all.iter().map(|(_, _, change)| std::slice::from_ref(change));
        classes(&environments.iter().zip(changes).collect::<Vec<_>>())
    }

    #[test]
    fn what_names_the_environment_makes_no_difference() {
        let one = change("dev", json!("db.dev"), json!("sql.dev"));
        let other = change("shop", json!("db.prod"), json!("sql.prod"));
        let found = grouped(&[("e/dev", "dev", one), ("e/prod", "shop", other)]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].environments, ["e/dev", "e/prod"]);
    }

    #[test]
    fn a_word_that_happens_to_be_a_namespace_makes_no_difference_either() {
        let one = change("monitoring", json!("monitoring"), json!("x"));
        let other = change("shop", json!("monitoring"), json!("x"));
        let found = grouped(&[("e/a1", "monitoring", one), ("e/b1", "shop", other)]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn the_difference_from_the_majority_is_listed_field_by_field() {
        let to = |namespace: &str, after: u32| change(namespace, json!(1), json!(after));
        let found = grouped(&[
            ("e/aa", "aa", to("aa", 3)),
            ("e/bb", "bb", to("bb", 2)),
            ("e/cc", "cc", to("cc", 2)),
        ]);
        let shown = serde_json::to_value(&found).unwrap();
        let expected = json!([
            { "environments": ["e/bb", "e/cc"], "shared": 1, "differs": [] },
            { "environments": ["e/aa"], "shared": 0, "differs": [{
                "object": "ConfigMap web",
                "path": "data.a",
                "here": { "before": 1, "after": 3 },
                "elsewhere": { "before": 1, "after": 2 },
            }] },
        ]);
        assert_eq!(shown, expected);
    }
}
