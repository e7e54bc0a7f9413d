//! The settings of environments, for the review of a change: those of all static environments of a tree, and the
//! differences between two. Settings that Tanka might read differently are an error here.

use super::TankaError;
use super::destination::{Destination, ExistingEnvironment};
use super::environment::Environment;
use super::listing::Listing;
use super::spec;
use crate::base::model::{RepoPath, SPEC_FILE};
use crate::state::workspace::{Tree, TreeError};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// The name of the directory of packages.
const VENDOR: &str = "vendor";

/// Parses a `spec.json`. The name of a static environment is its location.
pub fn parse_spec_file(content: &[u8], at: &str) -> Result<Environment, TankaError> {
    check_file(content, at)?;
    let mut environment = spec::parse_file(content, at)?.check_destination(at)?;
    environment.metadata.name.clear();
    environment.metadata.namespace.clear();
    Ok(environment)
}

/// Checks that a `spec.json` is unambiguous.
pub(super) fn check_file(content: &[u8], at: &str) -> Result<(), TankaError> {
    let ambiguous = |why: serde_json::Error| TankaError::Spec {
        path: at.to_owned(),
        why: why.to_string(),
    };
    let mut reader = serde_json::Deserializer::from_slice(content);
    Unambiguous(0).deserialize(&mut reader).map_err(ambiguous)?;
    reader.end().map_err(ambiguous)
}

/// Checks that the settings of an inline environment are unambiguous.
pub(super) fn check_inline(value: &Value, at: &str) -> Result<(), TankaError> {
    Unambiguous(0).deserialize(value).map_err(|why| TankaError::Spec {
        path: at.to_owned(),
        why: why.to_string(),
    })
}

/// Returns the directory of a `spec.json`, or `None` for any other file and for files below `vendor/`, which belong
/// to packages and not to the repository.
pub fn spec_directory(path: &RepoPath) -> Option<&str> {
    let directory = match path.as_str().rsplit_once('/') {
        Some((directory, SPEC_FILE)) => directory,
        None if path.as_str() == SPEC_FILE => "",
        Some(_) | None => return None,
    };
    let is_packaged = directory.split('/').any(|part| part == VENDOR);
    (!is_packaged).then_some(directory)
}

/// True if a directory with a `spec.json` also has a program. Without one, the file describes something else.
pub fn has_program(listing: &Listing, directory: &str) -> bool {
    let mut below = listing.below(directory).iter();
    below.any(|file| file.parent().unwrap_or("") == directory && file.file_name().ends_with(".jsonnet"))
}

/// Returns the destinations of all static environments of a tree except those in one directory. Reads files and may
/// block.
pub fn existing_environments(
    tree: &dyn Tree,
    but: Option<&str>,
) -> Result<Vec<ExistingEnvironment>, TreeError> {
    let listing = Listing::new(tree.files()?);
    let described = listing
        .below("")
        .iter()
        .filter_map(|file| Some((file, spec_directory(file)?)))
        .filter(|(_, directory)| Some(*directory) != but && has_program(&listing, directory));
    let residents = described.map(|(file, directory)| {
        let content = tree.read(file).ok();
        let settings = content.and_then(|file_read| parse_spec_file(&file_read.content, file.as_str()).ok());
        ExistingEnvironment {
            owner: Some(directory.to_owned()).filter(|directory| !directory.is_empty()),
            destination: settings.map(|settings| Destination::from_settings(&settings)),
        }
    });
    Ok(residents.collect())
}

/// A setting by its path, such as `spec.namespace`, with its old and new values.
pub type SettingDifference = (String, Option<Value>, Option<Value>);

/// Returns the settings that differ, by path, with their old and new values.
pub fn changed_settings(before: Option<&Environment>, after: Option<&Environment>) -> Vec<SettingDifference> {
    let (mut before, after) = (leaves(before), leaves(after));
    let mut found = BTreeMap::new();
    for (path, value) in after {
        let was = before.remove(&path);
        if was.as_ref() != Some(&value) {
            found.insert(path, (was, Some(value)));
        }
    }
    found.extend(before.into_iter().map(|(path, was)| (path, (Some(was), None))));
    found
        .into_iter()
        .map(|(path, (was, is))| (path, was, is))
        .collect()
}

fn leaves(environment: Option<&Environment>) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let Some(Ok(value)) = environment.map(serde_json::to_value) else {
        return found;
    };
    let mut open = vec![(String::new(), value)];
    while let Some((path, value)) = open.pop() {
        match value {
            Value::Object(fields) => open.extend(fields.into_iter().map(|(name, value)| {
                let path = match path.is_empty() {
                    true => name,
                    false => format!("{path}.{name}"),
                };
                (path, value)
            })),
            value => {
                found.insert(path, value);
            }
        }
    }
    found
}

/// Checks that every JSON parser reads the fields of a value in the same way. Go matches names without regard to
/// case, and merges an object that occurs twice. Keys of labels and annotations are compared exactly.
struct Unambiguous(u8);

/// Returns the name in the form that Go compares.
fn folded(name: &str) -> String {
    let letters = name.chars().map(|letter| match letter {
        'ſ' => 's',
        'K' => 'k',
        letter => letter.to_ascii_lowercase(),
    });
    letters.collect()
}

impl<'de> DeserializeSeed<'de> for Unambiguous {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unambiguous {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("settings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            let plain = folded(&name);
            if plain != name.to_ascii_lowercase() {
                return Err(A::Error::custom(format!("`{name}` may be read as `{plain}`")));
            }
            if !seen.insert(plain.clone()) {
                return Err(A::Error::custom(format!("`{name}` is given twice")));
            }
            match (self.0, plain.as_str()) {
                (0, "data") | (_, "labels" | "annotations") => {
                    fields.next_value::<IgnoredAny>()?;
                }
                _ => fields.next_value_seed(Unambiguous(self.0.saturating_add(1)))?,
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items
            .next_element_seed(Unambiguous(self.0.saturating_add(1)))?
            .is_some()
        {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        IgnoredAny::deserialize(deserializer).map(drop)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{SettingDifference, changed_settings, check_inline, parse_spec_file};
    use serde_json::{Value, json};

    #[test]
    fn settings_that_may_be_read_in_two_ways_are_refused() {
        for (text, why) in [
            (r#"{"spec":{"namespace":"a"},"spec":{}}"#, "`spec` is given twice"),
            (
                r#"{"spec":{"namespace":"a","NameSpace":"b"}}"#,
                "`NameSpace` is given twice",
            ),
            (r#"{"ſpec":{"namespace":"a"}}"#, "`ſpec` may be read as `spec`"),
            (
                r#"{"metadata":{"labels":{"A":"1","a":"2"}}} {}"#,
                "trailing characters",
            ),
            (r#"{"namespace":"a","spec":{}}"#, "`tk` may not read them"),
        ] {
            let error = parse_spec_file(text.as_bytes(), "e/spec.json")
                .unwrap_err()
                .to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let labels = r#"{"metadata":{"labels":{"A":"1","a":"2"}},"spec":{"namespace":"a"}}"#;
        assert_eq!(
            parse_spec_file(labels.as_bytes(), "e").unwrap().spec.namespace,
            "a"
        );
        let inline = json!({ "spec": { "namespace": "a" }, "data": { "a": 1, "A": 2 } });
        assert!(check_inline(&inline, "e").is_ok());
        let doubled = json!({ "spec": { "namespace": "a", "Namespace": "b" } });
        assert!(check_inline(&doubled, "e").is_err());
    }

    #[test]
    fn differing_settings_are_listed_one_by_one() {
        let read = |value: Value| parse_spec_file(value.to_string().as_bytes(), "e").unwrap();
        let before = read(
            json!({ "metadata": { "labels": { "team": "a", "tier": "1" } }, "spec": { "apiServer": "h" } }),
        );
        let after = read(
            json!({ "metadata": { "labels": { "team": "b" } }, "spec": { "apiServer": "h", "namespace": "n",
            "contextNames": ["c"] } }),
        );
        let expected: [SettingDifference; 4] = [
            ("metadata.labels.team".into(), Some(json!("a")), Some(json!("b"))),
            ("metadata.labels.tier".into(), Some(json!("1")), None),
            ("spec.contextNames".into(), None, Some(json!(["c"]))),
            ("spec.namespace".into(), Some(json!("default")), Some(json!("n"))),
        ];
        assert_eq!(changed_settings(Some(&before), Some(&after)), expected);
        assert!(changed_settings(Some(&before), Some(&before)).is_empty());
    }
}
