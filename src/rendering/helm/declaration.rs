//! The declared dependencies of a chart, as helm reads them: from `Chart.yaml`, and for charts from before helm 3
//! from a file beside it.

use super::error::{DependencyError, HelmError};
use super::lock::{LOCKS, Lock};
use super::{beneath, chart_error};
use crate::base::model::RepoPath;
use crate::rendering::jsonnet::external_program::Copies;
use crate::rendering::jsonnet::{path, yaml_documents};
use serde_json::Value;

/// The files that declare dependencies: the current one, and that from before helm 3.
const DECLARATIONS: [&str; 2] = ["Chart.yaml", "requirements.yaml"];
/// Maximum number of dependencies of one chart.
const DEPENDENCIES_MAX: usize = 200;

/// The format of a chart, which decides on the file that declares its dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChartFormat {
    /// The format from before helm 3.
    V1,
    V2,
}

impl ChartFormat {
    /// Returns the file that declares the dependencies.
    pub(super) fn declaration(self) -> &'static str {
        match self {
            Self::V1 => DECLARATIONS[1],
            Self::V2 => DECLARATIONS[0],
        }
    }

    /// Returns the file that locks the dependencies.
    pub(super) fn lock(self) -> &'static str {
        match self {
            Self::V1 => LOCKS[1],
            Self::V2 => LOCKS[0],
        }
    }
}

/// The part of a chart that concerns its dependencies.
#[derive(Clone, Debug)]
pub(super) struct Declaration {
    pub(super) format: ChartFormat,
    /// `None` if the chart declares no list of dependencies.
    pub(super) dependencies: Option<Vec<ChartDependency>>,
    pub(super) lock: Option<Lock>,
}

/// A chart that another chart needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChartDependency {
    pub(super) name: String,
    /// A version or a version range.
    pub(super) version: String,
    pub(super) repository: String,
    pub(super) condition: String,
    pub(super) tags: Vec<String>,
    pub(super) enabled: bool,
    pub(super) import_values: Vec<Value>,
    pub(super) alias: String,
}

/// The source of a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DependencyOrigin<'a> {
    /// The dependency is already in `charts/`.
    InChartsDirectory,
    /// A directory, relative to that of the chart.
    Local(&'a str),
    /// The address of a repository.
    Repository(&'a str),
}

impl Declaration {
    /// Reads the declaration in the files of a chart.
    pub(super) fn read(directory: &RepoPath, copies: &Copies) -> Result<Self, HelmError> {
        let wrong = |name: &str, why: &str| chart_error(directory, &format_args!("`{name}`: {why}"));
        let mut format = ChartFormat::V1;
        let mut dependencies = None;
        for name in DECLARATIONS {
            let Some(document) = document(directory, copies, name)? else {
                continue;
            };
            if name == DECLARATIONS[0] {
                let version = document.get("apiVersion").and_then(Value::as_str);
                format = match version {
                    None | Some("" | "v1") => ChartFormat::V1,
                    Some(_) => ChartFormat::V2,
                };
            }
            let written = document.get("dependencies").filter(|list| !list.is_null());
            let Some(written) = written else { continue };
            let listed = written.as_array();
            let listed = listed.ok_or_else(|| wrong(name, "`dependencies` is not a list"))?;
            let listed = parse_list(listed).map_err(|why| wrong(name, &why))?;
            dependencies = Some(listed);
        }
        Ok(Self {
            format,
            dependencies,
            lock: Lock::read(directory, copies)?,
        })
    }
}

/// Returns the only YAML document in a file of a chart, or `None` if the file is missing or empty.
pub(super) fn document(
    directory: &RepoPath,
    copies: &Copies,
    name: &str,
) -> Result<Option<Value>, HelmError> {
    let wrong = |why: &dyn std::fmt::Display| chart_error(directory, &format_args!("`{name}`: {why}"));
    let Some(content) = copies.get(&beneath(directory, name)?) else {
        return Ok(None);
    };
    let text = std::str::from_utf8(content).map_err(|why| wrong(&why))?;
    let documents = yaml_documents(text).map_err(|why| wrong(&why))?;
    Ok(documents
        .into_iter()
        .next()
        .filter(|document| !document.is_null()))
}

pub(super) fn parse_list(written: &[Value]) -> Result<Vec<ChartDependency>, String> {
    if written.len() > DEPENDENCIES_MAX {
        return Err(format!("more than {DEPENDENCIES_MAX} dependencies"));
    }
    written.iter().map(ChartDependency::parse).collect()
}

impl ChartDependency {
    fn parse(written: &Value) -> Result<Self, String> {
        let field = |name: &str| match written.get(name) {
            None => Ok(String::new()),
            Some(value) => text(value).ok_or_else(|| format!("`{name}` of a dependency is not text")),
        };
        let elements = |name: &str| match written.get(name) {
            None | Some(Value::Null) => Ok([].as_slice()),
            Some(value) => value
                .as_array()
                .map(Vec::as_slice)
                .ok_or_else(|| format!("`{name}` of a dependency is not a list")),
        };
        if !written.is_object() {
            return Err("a dependency is not a mapping".to_owned());
        }
        let tags = elements("tags")?.iter().map(text);
        Ok(Self {
            name: printable(&field("name")?),
            version: printable(&field("version")?),
            repository: printable(&field("repository")?),
            condition: printable(&field("condition")?),
            tags: tags
                .map(|tag| tag.map(|tag| printable(&tag)))
                .collect::<Option<_>>()
                .ok_or("a tag of a dependency is not text")?,
            enabled: written
                .get("enabled")
                .and_then(Value::as_bool)
                .unwrap_or_default(),
            import_values: elements("import-values")?.to_vec(),
            alias: field("alias")?,
        })
    }

    /// Returns the source of the dependency. Fails if that source is not supported.
    pub(super) fn origin(&self) -> Result<DependencyOrigin<'_>, DependencyError> {
        let repository = self.repository.as_str();
        if repository.is_empty() {
            return Ok(DependencyOrigin::InChartsDirectory);
        }
        if let Some(place) = repository.strip_prefix("file://") {
            return Ok(DependencyOrigin::Local(place));
        }
        if repository.starts_with(['@']) || repository.starts_with("alias:") {
            return Err(DependencyError::Alias(repository.to_owned()));
        }
        match repository.starts_with("oci://") {
            true => Err(DependencyError::Registry),
            false => Ok(DependencyOrigin::Repository(repository)),
        }
    }

    /// Returns the directory of a dependency in the same tree.
    pub(super) fn local_directory(&self, directory: &RepoPath) -> Result<Option<RepoPath>, DependencyError> {
        let DependencyOrigin::Local(place) = self.origin()? else {
            return Ok(None);
        };
        let meant = path::clean(directory.as_str(), place);
        let meant = meant.and_then(|meant| RepoPath::parse(&meant).ok());
        let meant = meant.ok_or_else(|| DependencyError::OutsideRepository(place.to_owned()))?;
        Ok(Some(meant))
    }

    /// Returns the dependency with a fixed version, which is the form in a lock file.
    pub(super) fn with_version(&self, version: &str) -> Self {
        Self {
            name: self.name.clone(),
            version: version.to_owned(),
            repository: self.repository.clone(),
            ..Self::default()
        }
    }
}

/// Returns a text as helm reads it: a number or boolean without quotes counts as text.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(number) => number.as_f64().map(|number| number.to_string()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// Removes unprintable characters, as helm does.
fn printable(text: &str) -> String {
    let blank = |character: char| if character.is_whitespace() { ' ' } else { character };
    let characters = text.chars().map(blank);
    characters.filter(|character| !character.is_control()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{ChartFormat, Declaration};
    use crate::base::model::RepoPath;
    use crate::rendering::jsonnet::external_program::Copies;
    use bytes::Bytes;

    fn declaration(files: &[(&str, &str)]) -> Declaration {
        let path = |text: &str| RepoPath::parse(text).unwrap();
        let copies: Copies = files
            .iter()
            .map(|(name, text)| {
                (
                    path(&format!("charts/web/{name}")),
                    Bytes::from((*text).to_owned()),
                )
            })
            .collect();
        Declaration::read(&path("charts/web"), &copies).unwrap()
    }

    /// Returns the directories of dependencies in the same tree, or an error for an unsupported dependency.
    fn of(dependencies: &str) -> Result<Vec<String>, String> {
        let text = format!("apiVersion: v2\nname: web\ndependencies:\n{dependencies}");
        let declared = declaration(&[("Chart.yaml", &text)]).dependencies.unwrap();
        let directory = RepoPath::parse("charts/web").unwrap();
        let local = declared
            .iter()
            .map(|dependency| dependency.local_directory(&directory));
        let local: Result<Vec<_>, _> = local.collect();
        let local = local.map_err(|why| why.to_string())?;
        Ok(local.iter().flatten().map(ToString::to_string).collect())
    }

    #[test]
    fn charts_of_the_repository_are_found_and_others_refused() {
        let common = "- {name: common, version: 1.0.0, repository: file://../common}\n";
        assert_eq!(of(common), Ok(vec!["charts/common".to_owned()]));
        assert_eq!(of("- {name: inside, version: 1.0.0}\n"), Ok(Vec::new()));
        let from = |repository: &str| {
            of(&format!(
                "- {{name: x, version: 1, repository: '{repository}'}}\n"
            ))
        };
        assert_eq!(from("https://charts.example.com"), Ok(Vec::new()));
        for alias in ["@stable", "alias:stable"] {
            let why = format!(
                "`{alias}` is an alias from a local helm configuration; write the https address instead"
            );
            assert_eq!(from(alias), Err(why));
        }
        let refused = from("oci://registry.example.com/charts").unwrap_err();
        assert!(refused.starts_with("charts of registries (`oci://`) are not fetched; name an https"));
    }

    /// T50
    #[test]
    fn a_dependency_outside_is_refused() {
        for place in ["../../../etc", "/etc", "../../.git/hooks", "../.."] {
            let error = of(&format!(
                "- {{name: x, version: 1.0.0, repository: 'file://{place}'}}\n"
            ));
            assert_eq!(error, Err(format!("`{place}` is outside the repository")));
        }
    }

    #[test]
    fn a_pre_helm_3_chart_reads_its_dependencies_from_requirements_yaml() {
        let chart = ("Chart.yaml", "name: web\nversion: 1.0.0\n");
        let requirements = "dependencies:\n- name: redis\n  version: 1.2\n  enabled: true\n  tags: [a, 1]\n";
        let read = declaration(&[chart, ("requirements.yaml", requirements)]);
        assert_eq!(read.format, ChartFormat::V1);
        let [redis] = read.dependencies.as_deref().unwrap() else {
            panic!("one")
        };
        assert_eq!(
            (redis.name.as_str(), redis.version.as_str(), redis.enabled),
            ("redis", "1.2", true)
        );
        assert_eq!(redis.tags, ["a", "1"]);
        assert!(declaration(&[chart]).dependencies.is_none());
    }
}
