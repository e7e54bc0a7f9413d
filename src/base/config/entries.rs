//! The keys that were set. A file may set thousands, and reading it looks for each key of each section, so they are found by
//! their section.

use crate::base::config::error::SettingLocation;
use crate::base::config::value::Value;
use std::collections::HashMap;

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
    /// The few keys of each section with their own names, by the path of the section.
    sections: HashMap<String, Vec<(String, Entry)>>,
}

impl Entries {
    pub(super) fn get(&self, path: &str) -> Option<&Entry> {
        let (section, name) = divided(path);
        let mut keys = self.sections.get(section)?.iter();
        keys.find(|(known, _)| known == name).map(|(_, entry)| entry)
    }

    pub(super) fn insert(&mut self, path: &str, entry: Entry) {
        self.remove(path);
        let (section, name) = divided(path);
        let key = (name.to_owned(), entry);
        match self.sections.get_mut(section) {
            Some(keys) => keys.push(key),
            None => drop(self.sections.insert(section.to_owned(), vec![key])),
        }
    }

    /// Adds the keys of a section that has none yet.
    pub(super) fn insert_section(&mut self, section: String, keys: Vec<(String, Entry)>) {
        if !keys.is_empty() {
            self.sections.insert(section, keys);
        }
    }

    pub(super) fn remove(&mut self, path: &str) {
        let (section, name) = divided(path);
        if let Some(keys) = self.sections.get_mut(section) {
            keys.retain(|(known, _)| known != name);
        }
    }

    /// Returns the names of the keys set directly in a section, in order.
    pub(super) fn names_in(&self, section: &str) -> Vec<String> {
        let keys = self.sections.get(section).map_or(&[][..], Vec::as_slice);
        let mut names: Vec<String> = keys.iter().map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Returns the keys of all sections with the path of the section and their names, in no particular order.
    pub(super) fn all(&self) -> impl Iterator<Item = ((&str, &str), &Entry)> {
        self.sections.iter().flat_map(|(section, keys)| {
            let keys = keys.iter();
            keys.map(|(name, entry)| ((section.as_str(), name.as_str()), entry))
        })
    }
}

/// Divides a path into that of the section and the name of the key. The path of a section may contain dots in a name that the
/// operator chose; the name of a key has none.
fn divided(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

#[cfg(test)]
mod tests {
    use super::{Entries, Entry};
    use crate::base::config::error::SettingLocation;

    fn entry(location: SettingLocation) -> Entry {
        Entry {
            value: None,
            location,
        }
    }

    #[test]
    fn a_key_is_found_in_a_section_whose_name_has_dots_and_a_later_one_replaces_it() {
        let mut entries = Entries::default();
        let keys =
            ["price_output", "price_input"].map(|name| (name.to_owned(), entry(SettingLocation::Nowhere)));
        entries.insert_section("models.house/qwen3.5".to_owned(), keys.into());
        let location = |entries: &Entries, path: &str| entries.get(path).map(|entry| entry.location.clone());
        let price = "models.house/qwen3.5.price_input";
        assert_eq!(location(&entries, price), Some(SettingLocation::Nowhere));
        for unknown in [
            "models.house/qwen3.price_input",
            "models.house/qwen3.5",
            "price_input",
        ] {
            assert_eq!(location(&entries, unknown), None, "{unknown}");
        }

        entries.insert(price, entry(SettingLocation::Flag));
        assert_eq!(location(&entries, price), Some(SettingLocation::Flag));
        assert_eq!(
            entries.names_in("models.house/qwen3.5"),
            ["price_input", "price_output"]
        );
        entries.insert("alone", entry(SettingLocation::Flag));
        assert_eq!(location(&entries, "alone"), Some(SettingLocation::Flag));
        entries.remove(price);
        assert_eq!(location(&entries, price), None);
        let mut all: Vec<String> = entries
            .all()
            .map(|((section, name), _)| format!("{section}:{name}"))
            .collect();
        all.sort_unstable();
        assert_eq!(all, [":alone", "models.house/qwen3.5:price_output"]);
    }
}
