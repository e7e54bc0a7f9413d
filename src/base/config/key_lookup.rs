//! The lookup of dotted paths in the table of keys, and the keys that were probably meant by others.

use crate::base::config::keys::{ConfigKey, KEYS};
use crate::base::model::edit_distance;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The result of looking up a dotted path in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyMatch {
    /// The path is a key.
    Key(&'static ConfigKey),
    /// The path is a table that holds keys.
    Section,
    Nothing,
}

/// A key with the parts of its path.
type DividedKey = (Vec<&'static str>, &'static ConfigKey);

/// The keys by the first part of their paths. Each name of a file is looked up here, and there may be thousands.
static KEYS_BY_SECTION: LazyLock<BTreeMap<&'static str, Vec<DividedKey>>> = LazyLock::new(|| {
    let mut sections: BTreeMap<&str, Vec<DividedKey>> = BTreeMap::new();
    for key in KEYS.iter() {
        let parts: Vec<&str> = key.path.split('.').collect();
        let section = parts.first().copied().unwrap_or_default();
        sections.entry(section).or_default().push((parts, key));
    }
    sections
});

/// Looks up a path.
pub(super) fn find<T: AsRef<str>>(path: &[T]) -> KeyMatch {
    let first = path.first().map_or("", AsRef::as_ref);
    let keys = KEYS_BY_SECTION.get(first).map_or(&[][..], Vec::as_slice);
    // The last names differ most.
    let fits = |pattern: &[&str]| {
        let mut both = path.iter().zip(pattern).rev();
        both.all(|(name, part)| *part == "*" || *part == name.as_ref())
    };
    let same_length = |(pattern, _): &&DividedKey| pattern.len() == path.len() && fits(pattern);
    if let Some((_, key)) = keys.iter().find(same_length) {
        return KeyMatch::Key(key);
    }
    let is_below = |(pattern, _): &DividedKey| {
        let start = pattern.get(..path.len()).unwrap_or_default();
        pattern.len() > path.len() && fits(start)
    };
    match keys.iter().any(is_below) {
        true => KeyMatch::Section,
        false => KeyMatch::Nothing,
    }
}

/// Returns the first key of a section, with the operator's own names kept; `None` if the path is no section.
pub(super) fn first_in(path: &[String]) -> Option<String> {
    if find(path) != KeyMatch::Section {
        return None;
    }
    let fits = |pattern: &[&str]| {
        let same = path
            .iter()
            .zip(pattern)
            .all(|(name, part)| *part == "*" || part == name);
        same && pattern.len() > path.len()
    };
    let mut patterns = KEYS.iter().map(|key| key.path.split('.').collect::<Vec<_>>());
    patterns
        .find(|pattern| fits(pattern))
        .map(|pattern| named(&pattern, path))
}

/// Returns the known path nearest to an unknown one, with the operator's own names kept; `None` if none is similar
/// enough.
pub(super) fn nearest(path: &[String]) -> Option<String> {
    let asked = path.join(".");
    let mut best: Option<(usize, String)> = None;
    for key in KEYS.iter() {
        let pattern: Vec<&str> = key.path.split('.').collect();
        // A name that the operator chooses is no key, so nobody means a path that ends with one.
        let ends = (1..=pattern.len()).filter(|length| pattern.get(length - 1) != Some(&"*"));
        for length in ends {
            let known = named(pattern.get(..length).unwrap_or_default(), path);
            let distance = edit_distance(&asked, &known);
            if best.as_ref().is_none_or(|(least, _)| distance < *least) {
                best = Some((distance, known));
            }
        }
    }
    let near = asked.chars().count().div_ceil(3).max(2);
    best.filter(|(distance, _)| *distance <= near)
        .map(|(_, known)| known)
}

fn named(pattern: &[&str], path: &[String]) -> String {
    let names = pattern
        .iter()
        .enumerate()
        .map(|(index, part)| match (*part, path.get(index)) {
            ("*", Some(name)) => name.as_str(),
            ("*", None) => "<name>",
            (part, _) => part,
        });
    names.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn a_misspelt_key_finds_the_one_that_was_meant() {
        let nearest = |text: &str| nearest(&path(text)).unwrap_or_default();
        assert_eq!(nearest("server.listne"), "server.listen");
        assert_eq!(nearest("serve"), "server");
        assert_eq!(nearest("channels.team.bottoken"), "channels.team.bot_token");
        assert_eq!(nearest("limits.step_max"), "limits.steps_max");
        assert_eq!(nearest("completely.unlike.anything.we.know"), "");
        // Neither is a key of a section whose names the operator chooses.
        for (asked, other) in [
            ("server.data_dir", "services.data_dir"),
            ("model.nime", "models.nime"),
        ] {
            assert_ne!(nearest(asked), other);
        }
    }

    #[test]
    fn every_path_is_a_key_a_section_or_nothing() {
        assert!(
            matches!(find(&path("hooks.ci.grants.role")), KeyMatch::Key(key) if key.path == "hooks.*.grants.role")
        );
        assert_eq!(find(&path("hooks.ci.grants")), KeyMatch::Section);
        assert_eq!(find(&path("hooks")), KeyMatch::Section);
        assert_eq!(find(&path("hooks.ci.grants.rule")), KeyMatch::Nothing);
        assert_eq!(find(&path("server.listen.port")), KeyMatch::Nothing);
    }

    #[test]
    fn swapped_neighbours_are_one_edit() {
        let nearest = |text: &str| nearest(&path(text)).unwrap_or_default();
        // Two edits are the most for a short key, so each pair of swapped letters must count as one.
        assert_eq!(nearest("ohosk"), "hooks");
        assert_eq!(nearest("ohosk.ci.secret"), "hooks.ci.secret");
        assert_eq!(nearest("ohosx"), "");
    }
}
