//! The environment that owns a file.

use crate::base::model::{MAIN_FILE, RepoPath, RequiredGrant, SPEC_FILE, quoted};
use std::collections::BTreeMap;

/// A directory with one of these files is an environment.
const ENVIRONMENT_FILES: [&str; 2] = [MAIN_FILE, SPEC_FILE];

/// Returns the directory of the environment that a path belongs to: the nearest with a `main.jsonnet` or
/// `spec.json` among the sorted `files`. Only existing files count, so that a new file cannot turn a shared
/// directory into an environment.
pub fn environment_of<'a>(path: &'a RepoPath, files: &[RepoPath]) -> Option<&'a str> {
    nearest(path.parent(), files)
}

/// Returns the grants required to change these files, given the sorted files of the base: one for each environment,
/// and one for files that all environments share. Files of a package in a `vendor/` directory belong to the owner
/// of that directory.
pub fn required_grants<'a>(
    changed: impl Iterator<Item = &'a RepoPath>,
    base: &[RepoPath],
) -> Vec<RequiredGrant> {
    let mut needs = BTreeMap::new();
    for path in changed {
        let environment = nearest(above_vendor(path), base).map(str::to_owned);
        let because = || format!("{} is edited", quoted(path.as_str()));
        needs.entry(environment).or_insert_with(because);
    }
    let needs = needs
        .into_iter()
        .map(|(environment, because)| RequiredGrant { environment, because });
    needs.collect()
}

fn nearest<'a>(mut directory: Option<&'a str>, files: &[RepoPath]) -> Option<&'a str> {
    while let Some(candidate) = directory {
        let holds = |name: &str| {
            let marker = format!("{candidate}/{name}");
            files.binary_search_by(|file| file.as_str().cmp(&marker)).is_ok()
        };
        if ENVIRONMENT_FILES.into_iter().any(holds) {
            return Some(candidate);
        }
        directory = candidate.rsplit_once('/').map(|(parent, _)| parent);
    }
    None
}

/// Returns the directory of a file, or the directory that contains the first `vendor/` on its path.
fn above_vendor(path: &RepoPath) -> Option<&str> {
    let text = path.as_str();
    if text.starts_with("vendor/") {
        return None;
    }
    match text.split_once("/vendor/") {
        Some((above, _)) => Some(above),
        None => path.parent(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{environment_of, required_grants};
    use crate::base::model::{RepoPath, RequiredGrant};

    fn paths<const N: usize>(all: [&str; N]) -> Vec<RepoPath> {
        all.map(|text| RepoPath::parse(text).unwrap()).into()
    }

    #[test]
    fn the_nearest_directory_with_an_environment_file_owns_a_path() {
        let files = paths([
            "environments/dev/main.jsonnet",
            "environments/prod/eu/spec.json",
            "lib/k.libsonnet",
            "main.jsonnet",
        ]);
        for (of, environment) in [
            ("environments/dev/main.jsonnet", Some("environments/dev")),
            ("environments/dev/deep/er/x", Some("environments/dev")),
            ("environments/prod/eu/x", Some("environments/prod/eu")),
            ("environments/prod/x", None),
            ("environments/developers/x", None),
            ("environments/new/main.jsonnet", None),
            ("lib/k.libsonnet", None),
            ("main.jsonnet", None),
        ] {
            let path = RepoPath::parse(of).unwrap();
            assert_eq!(environment_of(&path, &files), environment, "{of}");
        }
    }

    #[test]
    fn a_change_takes_a_grant_for_each_environment_it_edits_and_for_what_they_share() {
        let base = paths([
            "environments/dev/main.jsonnet",
            "environments/dev/vendor/a/main.jsonnet",
            "environments/prod/spec.json",
        ]);
        let changed = paths([
            "environments/dev/a.libsonnet",
            "environments/dev/b.libsonnet",
            "environments/dev/vendor/a/main.jsonnet",
            "environments/prod/spec.json",
            "lib/k.libsonnet",
            "vendor/x/main.jsonnet",
        ]);
        let need = |environment: Option<&str>, path: &str| RequiredGrant {
            environment: environment.map(str::to_owned),
            because: format!("`{path}` is edited"),
        };
        assert_eq!(
            required_grants(changed.iter(), &base),
            [
                need(None, "lib/k.libsonnet"),
                need(Some("environments/dev"), "environments/dev/a.libsonnet"),
                need(Some("environments/prod"), "environments/prod/spec.json"),
            ]
        );
    }
}
