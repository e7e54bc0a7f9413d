//! The files that configuration declares as secrets: a file that is read for `password:`, for a `Secret` or by a
//! secret generator is a secret, whatever its content.

use crate::base::model::RepoPath;
use std::collections::{HashMap, HashSet};

/// Maximum number of names. Further ones are ignored.
const NAMES_MAX: usize = 10_000;

/// The declared files by name.
#[derive(Debug, Default)]
pub struct NamedFiles {
    /// The paths without leading `./` and `../`, by their last component.
    by_file_name: HashMap<String, HashSet<String>>,
    count: usize,
}

impl NamedFiles {
    /// Adds names as they are written in configuration.
    pub fn add(&mut self, written: &[String]) {
        for name in written {
            let name = below(name);
            let file_name = name.rsplit('/').next().unwrap_or_default();
            if file_name.is_empty() || self.count >= NAMES_MAX {
                continue;
            }
            let names = self.by_file_name.entry(file_name.to_owned()).or_default();
            self.count += usize::from(names.insert(name.to_owned()));
        }
    }

    /// True if one of the names can refer to this file, relative to any directory.
    pub fn contains(&self, path: &RepoPath) -> bool {
        let names = self.by_file_name.get(path.file_name());
        names.is_some_and(|names| {
            let is_meant = |name: &String| {
                let before = path.as_str().strip_suffix(name.as_str());
                before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
            };
            names.iter().any(is_meant)
        })
    }
}

/// Removes leading `./` and `../` from a name.
fn below(name: &str) -> &str {
    let mut name = name.trim();
    while let Some(rest) = ["../", "./", "/"].iter().find_map(|up| name.strip_prefix(up)) {
        name = rest;
    }
    name
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::NamedFiles;
    use crate::base::model::RepoPath;

    #[test]
    fn a_named_secret_file_matches_from_any_directory() {
        let mut named = NamedFiles::default();
        named.add(&[
            "../../keys/db".to_owned(),
            "./own".to_owned(),
            "..".to_owned(),
            String::new(),
        ]);
        let holds = |path: &str| named.contains(&RepoPath::parse(path).unwrap());
        for path in ["keys/db", "a/keys/db", "own", "environments/dev/own"] {
            assert!(holds(path), "{path}");
        }
        for path in ["db", "monkeys/db", "keys/db/x", "owner"] {
            assert!(!holds(path), "{path}");
        }
    }
}
