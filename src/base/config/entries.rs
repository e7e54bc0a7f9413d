//! The keys that were set. A file may set thousands, and reading it looks for each key of each section, so they are found by
//! their section.

use crate::base::config::error::SettingLocation;
use crate::base::config::value::Value;
use std::collections::{BTreeMap, HashMap};

/// A key that was set.
#[derive(Clone)]
pub(super) struct Entry {
    /// The value, or `None` if it was refused; the problem is already recorded.
    pub(super) value: Option<Value>,
    pub(super) location: SettingLocation,
}

/// All keys that were set, by dotted path.
#[derive(Default)]
pub(super) struct Entries {
    /// The keys by the path of their section, and then by their own name.
    sections: HashMap<String, BTreeMap<String, Entry>>,
}

impl Entries {
    pub(super) fn get(&self, path: &str) -> Option<&Entry> {
        let (section, name) = divided(path);
        self.sections.get(section)?.get(name)
    }

    pub(super) fn insert(&mut self, path: &str, entry: Entry) {
        let (section, name) = divided(path);
        match self.sections.get_mut(section) {
            Some(keys) => drop(keys.insert(name.to_owned(), entry)),
            None => {
                let keys = BTreeMap::from([(name.to_owned(), entry)]);
                self.sections.insert(section.to_owned(), keys);
            }
        }
    }

    pub(super) fn remove(&mut self, path: &str) {
        let (section, name) = divided(path);
        if let Some(keys) = self.sections.get_mut(section) {
            keys.remove(name);
        }
    }

    /// Returns the names of the keys set directly in a section, in order.
    pub(super) fn names_in(&self, section: &str) -> Vec<String> {
        let keys = self.sections.get(section);
        keys.map(|keys| keys.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// Returns the keys of all sections with the path of the section and their names, in no particular order.
    pub(super) fn all(&self) -> impl Iterator<Item = ((&str, &str), &Entry)> {
        self.sections.iter().flat_map(|(section, keys)| {
            let named = keys.iter();
            named.map(|(name, entry)| ((section.as_str(), name.as_str()), entry))
        })
    }
}

/// Divides a path into that of the section and the name of the key. The path of a section may contain dots in a name that the
/// operator chose; the name of a key has none.
fn divided(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}
