//! The dependencies of a chart that are charts of the same tree, and what packing them has changed.

use super::archive::is_same;
use super::{HelmError, chart_error};
use crate::jsonnet::foreign::Copies;
use crate::jsonnet::{path, yaml_documents};
use crate::model::RepoPath;
use crate::sandbox::{Scratch, ScratchError};
use bytes::Bytes;
use serde_json::Value;
use std::collections::BTreeMap;

/// Files that packing may leave.
const FILES_MAX: usize = 200;
/// Bytes of each of them.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Where dependencies are declared: today, and before helm 3.
const DECLARATIONS: [&str; 2] = ["Chart.yaml", "requirements.yaml"];
/// Where the versions are that were chosen.
const LOCKS: [&str; 2] = ["Chart.lock", "requirements.lock"];
/// Where packed charts are.
const CHARTS: &str = "charts";

/// The charts of the tree that a chart depends on. One that would have to be fetched is refused.
pub(super) fn local(directory: &RepoPath, copies: &Copies) -> Result<Vec<RepoPath>, HelmError> {
    let mut local = Vec::new();
    for name in DECLARATIONS {
        let declaration = beneath(directory, name)?;
        let Some(content) = copies.get(&declaration) else {
            continue;
        };
        let text = std::str::from_utf8(content).map_err(|why| chart_error(directory, &why))?;
        let documents = yaml_documents(text).map_err(|why| chart_error(directory, &why))?;
        let declared = documents
            .iter()
            .filter_map(|document| document.get("dependencies")?.as_array());
        for dependency in declared.flatten() {
            let field = |name: &str| dependency.get(name).and_then(Value::as_str).unwrap_or_default();
            let (name, repository) = (field("name"), field("repository"));
            match repository.strip_prefix("file://") {
                // It is in the chart already.
                None if repository.is_empty() => {}
                None => {
                    return Err(HelmError::Fetch {
                        chart: directory.to_string(),
                        name: name.to_owned(),
                        repository: repository.to_owned(),
                    });
                }
                Some(place) => {
                    let meant = path::clean(directory.as_str(), place);
                    let meant = meant.and_then(|meant| RepoPath::parse(&meant).ok());
                    let outside = format!("dependency `{name}`: `{place}` is outside the repository");
                    local.push(meant.ok_or_else(|| chart_error(directory, &outside))?);
                }
            }
        }
    }
    Ok(local)
}

/// What is different in the copies: the lock, and the packed charts. An archive that holds the same files
/// as before is the same.
pub(super) fn changes(
    directory: &RepoPath,
    copies: &Copies,
    scratch: &Scratch,
) -> Result<BTreeMap<RepoPath, Option<Bytes>>, ScratchError> {
    let odd = |name: &str| ScratchError::Odd(name.to_owned());
    let mut after = BTreeMap::new();
    for name in LOCKS {
        let path = beneath(directory, name).map_err(|_| odd(name))?;
        if let Some(content) = scratch.left(&path, FILE_BYTES_MAX)? {
            after.insert(path, Bytes::from(content));
        }
    }
    let charts = beneath(directory, CHARTS).map_err(|_| odd(CHARTS))?;
    for (name, kind) in scratch.names(&charts, FILES_MAX)? {
        let path = beneath(&charts, &name).map_err(|_| odd(&name))?;
        // A directory is an unpacked chart, which helm leaves as it is.
        if !kind.is_dir()
            && let Some(content) = scratch.left(&path, FILE_BYTES_MAX)?
        {
            after.insert(path, Bytes::from(content));
        }
    }
    let is_packed =
        |path: &RepoPath| path.parent() == Some(charts.as_str()) && path.as_str().ends_with(".tgz");
    let gone = copies
        .keys()
        .filter(|path| is_packed(path) && !after.contains_key(*path))
        .map(|path| (path.clone(), None));
    let mut changes: BTreeMap<RepoPath, Option<Bytes>> = gone.collect();
    for (path, content) in &after {
        let before = copies.get(path);
        let same =
            before.is_some_and(|before| before == content || is_packed(path) && is_same(before, content));
        if !same {
            changes.insert(path.clone(), Some(content.clone()));
        }
    }
    Ok(changes)
}

fn beneath(directory: &RepoPath, name: &str) -> Result<RepoPath, HelmError> {
    RepoPath::parse(&format!("{directory}/{name}")).map_err(|why| chart_error(directory, &why))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::local;
    use crate::jsonnet::foreign::Copies;
    use crate::model::RepoPath;
    use bytes::Bytes;

    fn of(dependencies: &str) -> Result<Vec<String>, String> {
        let path = |text: &str| RepoPath::parse(text).unwrap();
        let text = format!("apiVersion: v2\nname: web\ndependencies:\n{dependencies}");
        let copies = Copies::from([(path("charts/web/Chart.yaml"), Bytes::from(text))]);
        let local = local(&path("charts/web"), &copies).map_err(|error| error.to_string())?;
        Ok(local.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn charts_of_the_repository_are_found_and_others_refused() {
        let common = "- {name: common, version: 1.0.0, repository: file://../common}\n";
        assert_eq!(of(common), Ok(vec!["charts/common".to_owned()]));
        assert_eq!(of("- {name: inside, version: 1.0.0}\n"), Ok(Vec::new()));
        let redis = "- {name: redis, version: 1.0.0, repository: 'https://charts.example.com'}\n";
        assert_eq!(
            of(&format!("{common}{redis}")),
            Err("chart `charts/web`: dependency `redis` comes from `https://charts.example.com`, and charts are \
                 not fetched here; put the chart into `charts/web/charts` or refer to one of this repository \
                 with `file://../NAME`"
                .to_owned())
        );
    }

    /// T50
    #[test]
    fn a_dependency_outside_is_refused() {
        for place in ["../../../etc", "/etc", "../../.git/hooks", "../.."] {
            let error = of(&format!(
                "- {{name: x, version: 1.0.0, repository: 'file://{place}'}}\n"
            ));
            let expected = format!("chart `charts/web`: dependency `x`: `{place}` is outside the repository");
            assert_eq!(error, Err(expected));
        }
    }
}
