//! Names that differ only in their spelling. Some file systems treat `Secrets` and `secrets`, or two Unicode forms
//! of `ö`, as the same name. A rule for one spelling must hold for the other, here and wherever a patch is applied.

use super::{TreeError, links};
use crate::base::model::{RepoPath, fold_name};

/// The names in a tree of files.
pub(super) trait NameListing {
    /// True if there is a file or a directory at exactly this path.
    fn has(&self, path: &str) -> bool;

    /// Returns all names in a directory, or `None` if it cannot be listed. The root is `""`.
    fn names(&self, directory: &str) -> Option<Vec<String>>;
}

/// Refuses a new file if its path, or a directory on the way, exists in another spelling that some file systems
/// treat as the same.
pub(super) fn check_new(path: &RepoPath, names: &dyn NameListing) -> Result<(), TreeError> {
    let mut directory = "";
    for here in links::ancestors(path).chain([path.as_str()]) {
        if names.has(here) {
            directory = here;
            continue;
        }
        let name = last_name(here);
        // The parent exists and this component is new, so nothing below it can clash.
        return match has_in_any_spelling(directory, name, names) {
            true => Err(other_spelling_error(path)),
            false => Ok(()),
        };
    }
    Ok(())
}

/// Applies the same check to files that a program of this product writes. Files inside a package below `vendor/`
/// keep the names that their author chose.
pub(super) fn check_put(path: &RepoPath, names: &dyn NameListing) -> Result<(), TreeError> {
    let vendor = links::ancestors(path).find(|directory| last_name(directory) == "vendor");
    match vendor.map(RepoPath::parse) {
        Some(Ok(vendor)) => check_new(&vendor, names),
        Some(Err(_)) | None => check_new(path, names),
    }
}

/// True if a directory contains a name in any spelling, or cannot be listed.
pub(super) fn has_in_any_spelling(directory: &str, name: &str, names: &dyn NameListing) -> bool {
    let wanted = fold_name(name);
    let Some(present) = names.names(directory) else {
        return true;
    };
    present
        .iter()
        .filter(|present| fold_name(present) == wanted)
        .any(|present| names.has(&join(directory, present)))
}

pub(super) fn join(directory: &str, name: &str) -> String {
    match directory {
        "" => name.to_owned(),
        _ => format!("{directory}/{name}"),
    }
}

/// Returns the last component of a path.
pub(super) fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the error for a name that exists in another spelling.
pub(super) fn other_spelling_error(path: &RepoPath) -> TreeError {
    TreeError::OtherSpelling { path: path.clone() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{NameListing, check_new};
    use crate::base::model::RepoPath;

    struct Files(&'static [&'static str]);

    impl NameListing for Files {
        fn has(&self, path: &str) -> bool {
            let inside = format!("{path}/");
            self.0
                .iter()
                .any(|file| *file == path || file.starts_with(&inside))
        }

        fn names(&self, directory: &str) -> Option<Vec<String>> {
            let inside = match directory {
                "" => String::new(),
                _ => format!("{directory}/"),
            };
            let names = self
                .0
                .iter()
                .filter_map(|file| file.strip_prefix(inside.as_str()));
            Some(
                names
                    .map(|name| name.split('/').next().unwrap().to_owned())
                    .collect(),
            )
        }
    }

    #[test]
    fn a_new_name_is_refused_beside_one_that_is_the_same_to_some_file_system() {
        let files = Files(&["environments/prod/main.jsonnet", "Lib/gr\u{f6}\u{df}e", "lib/a"]);
        let refused = |path: &str| check_new(&RepoPath::parse(path).unwrap(), &files).is_err();
        for path in [
            "Environments/prod/main.jsonnet",
            "environments/Prod/main.jsonnet",
            "environments/PROD/new.jsonnet",
            "environments/prod/MAIN.jsonnet",
            "environments/prod/main.jsonnet.",
            "Lib/gro\u{308}\u{df}e",
            "Lib/GR\u{d6}SSE/x",
            "LIB/a",
        ] {
            assert!(refused(path), "{path}");
        }
        for path in [
            "environments/prod/main.jsonnet",
            "environments/prod/new.jsonnet",
            "environments/dev/main.jsonnet",
            "lib/gr\u{f6}\u{df}e",
            "Lib/a",
            "new/Environments/prod",
        ] {
            assert!(!refused(path), "{path}");
        }
    }
}
