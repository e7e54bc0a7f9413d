//! The location of an environment: its project, its entry point, and the directories in which its imports are
//! searched.

use super::TankaError;
use super::listing::{Listing, TreeLookup, TreeNames, join, parent, relative};
use crate::base::model::{MAIN_FILE, RepoPath, SPEC_FILE};
use crate::state::workspace::Tree;

const ROOT_MARKERS: [&str; 2] = ["tkrc.yaml", "jsonnetfile.json"];

/// The location of one environment. Directories are relative to the repository, whose root is `""`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The directory of the project.
    pub root: String,
    /// The directory of the environment.
    pub base: String,
    /// The file that is evaluated.
    pub entrypoint: RepoPath,
}

impl Layout {
    /// Finds the environment of a file or directory: `environments/dev`, anything below it, or a Jsonnet file that
    /// is evaluated instead of `main.jsonnet`.
    pub fn find(names: &dyn TreeNames, path: &str) -> Result<Self, TankaError> {
        let path = normalize_path(path)?;
        let (start, file) = if names.is_file(&path) {
            let file = path.rsplit('/').next().unwrap_or(&path);
            (parent(&path).unwrap_or(""), file)
        } else {
            (path.as_str(), MAIN_FILE)
        };
        let root = root_of(names, start).ok_or(TankaError::NoRoot)?;
        let base = ancestors(start, root)
            .find(|directory| names.has_entry(directory, file))
            .ok_or_else(|| TankaError::NoBase {
                file: file.to_owned(),
            })?;
        Ok(Self {
            root: root.to_owned(),
            base: base.to_owned(),
            entrypoint: RepoPath::parse(&join(base, file))?,
        })
    }

    /// Returns the directories of the library path. They are searched from the end, after the directory of the
    /// importing file.
    pub fn jpath(&self) -> Vec<String> {
        vec![
            join(&self.root, "vendor"),
            join(&self.base, "vendor"),
            join(&self.root, "lib"),
            self.base.clone(),
        ]
    }

    /// True for a static environment, whose settings are in a separate file.
    pub fn is_static(&self, tree: &dyn Tree) -> bool {
        TreeLookup(tree).has_entry(&self.base, SPEC_FILE)
    }

    /// Returns the settings file of a static environment, or `None` for an inline environment.
    pub fn spec_file(&self, names: &dyn TreeNames) -> Result<Option<RepoPath>, TankaError> {
        if !names.has_entry(&self.base, SPEC_FILE) {
            return Ok(None);
        }
        Ok(Some(RepoPath::parse(&join(&self.base, SPEC_FILE))?))
    }

    /// Returns the name of a static environment: its directory relative to the project.
    pub fn name(&self) -> &str {
        relative(&self.root, &self.base)
    }

    /// Returns the entry point relative to the project, which is the `metadata.namespace` of its environments.
    pub fn namespace(&self) -> &str {
        relative(&self.root, self.entrypoint.as_str())
    }
}

/// Returns the directory at a path: the path itself, or the directory of a file.
pub(super) fn start_directory(names: &dyn TreeNames, path: &str) -> Result<String, TankaError> {
    let path = normalize_path(path)?;
    match names.is_file(&path) {
        true => Ok(parent(&path).unwrap_or("").to_owned()),
        false => Ok(path),
    }
}

/// Returns every entry point below a directory, except those of vendored packages. `listing` must contain all files
/// below the directory.
pub(super) fn entrypoints(
    names: &dyn TreeNames,
    listing: &Listing,
    start: &str,
) -> Result<Vec<RepoPath>, TankaError> {
    if root_of(names, start).is_none() && !has_root_below(listing, start) {
        return Err(TankaError::NoRoot);
    }
    let is_vendored = |path: &RepoPath| {
        let inside = relative(start, path.as_str());
        inside.split('/').any(|component| component == "vendor")
    };
    let files = listing.below(start).iter();
    Ok(files
        .filter(|path| path.file_name() == MAIN_FILE && !is_vendored(path))
        .cloned()
        .collect())
}

/// Normalizes a path as people write it by removing redundant components. The repository root is `""`.
pub(super) fn normalize_path(path: &str) -> Result<String, TankaError> {
    let path = path.trim_end_matches('/');
    let path = path.strip_prefix("./").unwrap_or(path);
    if path.is_empty() || path == "." {
        return Ok(String::new());
    }
    Ok(RepoPath::parse(path)?.as_str().to_owned())
}

/// Returns the nearest directory with the first marker, or else with the second.
fn root_of<'a>(names: &dyn TreeNames, start: &'a str) -> Option<&'a str> {
    ROOT_MARKERS
        .iter()
        .find_map(|marker| ancestors(start, "").find(|directory| names.has_entry(directory, marker)))
}

fn has_root_below(listing: &Listing, start: &str) -> bool {
    let files = listing.below(start).iter();
    files
        .map(RepoPath::file_name)
        .any(|name| ROOT_MARKERS.contains(&name))
}

/// Returns a directory and its parents up to `last`.
fn ancestors<'a>(start: &'a str, last: &'a str) -> impl Iterator<Item = &'a str> {
    std::iter::successors(Some(start), move |directory| {
        if *directory == last {
            return None;
        }
        parent(directory)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{Layout, entrypoints, start_directory};
    use crate::rendering::tanka::testing::listing;
    use crate::rendering::tanka::{Listing, TankaError};

    fn project() -> Listing {
        listing(&[
            "jsonnetfile.json",
            "environments/dev/main.jsonnet",
            "environments/dev/other.jsonnet",
            "environments/dev/spec.json",
            "environments/dev/sub/deep/file.txt",
            "environments/inline/main.jsonnet",
            "lib/k.libsonnet",
            "vendor/x/main.jsonnet",
            "nested/tkrc.yaml",
            "nested/env/jsonnetfile.json",
            "nested/env/main.jsonnet",
        ])
    }

    fn found(path: &str) -> (String, String, String) {
        let layout = Layout::find(&project(), path).unwrap();
        (layout.root, layout.base, layout.entrypoint.as_str().to_owned())
    }

    #[test]
    fn an_environment_is_found_from_anywhere_inside_it() {
        for path in [
            "environments/dev",
            "environments/dev/",
            "./environments/dev",
            "environments/dev/main.jsonnet",
            "environments/dev/sub",
            "environments/dev/sub/deep",
        ] {
            let expected = ["", "environments/dev", "environments/dev/main.jsonnet"].map(str::to_owned);
            assert_eq!(<[String; 3]>::from(found(path)), expected, "{path}");
        }
        assert_eq!(
            found("environments/dev/other.jsonnet").2,
            "environments/dev/other.jsonnet"
        );
        assert_eq!(
            found("environments/dev/sub/deep/file.txt").1,
            "environments/dev/sub/deep"
        );
    }

    #[test]
    fn the_first_marker_wins_over_a_nearer_second() {
        assert_eq!(found("nested/env").0, "nested");
        let layout = Layout::find(&project(), "nested/env").unwrap();
        assert_eq!((layout.name(), layout.namespace()), ("env", "env/main.jsonnet"));
        assert_eq!(
            layout.jpath(),
            ["nested/vendor", "nested/env/vendor", "nested/lib", "nested/env"]
        );
    }

    #[test]
    fn what_is_no_environment_says_so() {
        assert!(matches!(
            Layout::find(&project(), "lib"),
            Err(TankaError::NoBase { file }) if file == "main.jsonnet"
        ));
        assert!(matches!(
            Layout::find(&listing(&["a/main.jsonnet"]), "a"),
            Err(TankaError::NoRoot)
        ));
        for outside in ["/tmp", "../x", "a/../../b", ".git"] {
            assert!(
                matches!(Layout::find(&project(), outside), Err(TankaError::Path(_))),
                "{outside}"
            );
        }
    }

    #[test]
    fn vendored_packages_have_no_environments_of_ours() {
        let names = |directory: &str| -> Vec<String> {
            let project = project();
            let start = start_directory(&project, directory).unwrap();
            let paths = entrypoints(&project, &project, &start).unwrap();
            paths.iter().map(|path| path.as_str().to_owned()).collect()
        };
        let environments = [
            "environments/dev/main.jsonnet",
            "environments/inline/main.jsonnet",
        ];
        assert_eq!(names("environments"), environments);
        assert_eq!(
            names("."),
            [environments.as_slice(), &["nested/env/main.jsonnet"]].concat()
        );
        assert_eq!(names("vendor"), ["vendor/x/main.jsonnet"]);
        assert_eq!(names("lib"), Vec::<String>::new());
    }
}
