//! `chartfile.yaml`: the list of charts that a project vendors, in the format of `tk tool charts`. It is read,
//! checked and compared with the vendored charts. Nothing is fetched or written.

use crate::base::model::RepoPath;
use crate::rendering::jsonnet::{path, yaml_documents};
use crate::state::workspace::{Tree, TreeError};
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The name of the file.
const FILE: &str = "chartfile.yaml";
/// The only version of the chartfile format.
const VERSION: f64 = 1.0;
/// The default directory of charts.
const DIRECTORY: &str = "charts";
/// Maximum number of charts in one file.
const REQUIREMENTS_MAX: usize = 1_000;

/// A valid `chartfile.yaml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chartfile {
    /// The required charts.
    pub requires: Vec<Requirement>,
    /// The directory of the charts, relative to the root of the tree.
    pub directory: String,
}

/// A required chart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Requirement {
    /// The name as `repository/name`.
    pub chart: String,
    /// The version.
    pub version: String,
    /// The directory, relative to the root of the tree.
    pub directory: String,
}

/// A chart that is required or present.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VendoredChart {
    /// The directory, relative to the root of the tree.
    pub directory: String,
    /// The name as `repository/name`; `None` if the chart is not required.
    pub chart: Option<String>,
    /// The required version.
    pub wanted: Option<String>,
    /// The present version.
    pub found: Option<String>,
    /// The difference between the two.
    pub drift: Drift,
}

/// The difference between a required chart and the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Drift {
    /// No difference.
    None,
    /// The chart is required but missing.
    Missing,
    /// The chart is present in another version.
    OtherVersion,
    /// The chart is present but not required.
    NotListed,
}

/// The reason why a chartfile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ChartfileError {
    /// The chartfile cannot be read.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The file is not a chartfile.
    #[error("`{path}`: {why}")]
    Malformed {
        /// The path of the file.
        path: String,
        /// The reason.
        why: String,
    },
    /// The entries of the chartfile are inconsistent.
    #[error("`{path}`: validation errors:\n - {}", .problems.join("\n - "))]
    Invalid {
        /// The path of the file.
        path: String,
        /// The errors.
        problems: Vec<String>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawChartfile {
    // JSON can represent every YAML number.
    version: f64,
    #[serde(default)]
    repositories: Vec<RawRepository>,
    #[serde(default)]
    requires: Vec<RawRequirement>,
    directory: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "known so that they are not refused; nothing is fetched")]
struct RawRepository {
    name: String,
    url: String,
    ca_file: Option<String>,
    cert_file: Option<String>,
    key_file: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRequirement {
    chart: String,
    version: String,
    directory: Option<String>,
}

impl Chartfile {
    /// Reads the chartfile of a directory, which is relative to the root of the tree.
    pub fn read(tree: &dyn Tree, directory: &str) -> Result<Self, ChartfileError> {
        let name = path::clean(directory, FILE).unwrap_or_else(|| FILE.to_owned());
        let malformed = |why: &dyn std::fmt::Display| ChartfileError::Malformed {
            path: name.clone(),
            why: why.to_string(),
        };
        let file = RepoPath::parse(&name).map_err(|error| malformed(&error))?;
        let content = tree.read(&file)?.content;
        let text = std::str::from_utf8(&content).map_err(|error| malformed(&error))?;
        let documents = yaml_documents(text).map_err(|error| malformed(&error))?;
        let [document] = documents.as_slice() else {
            return Err(malformed(&"it is not one document"));
        };
        let written: RawChartfile =
            serde_json::from_value(document.clone()).map_err(|error| malformed(&error))?;
        if written.version.total_cmp(&VERSION).is_ne() {
            let why = format!("version {} is not known; {VERSION} is", written.version);
            return Err(malformed(&why));
        }
        written
            .validate(directory)
            .map_err(|problems| ChartfileError::Invalid {
                path: name.clone(),
                problems,
            })
    }
}

impl RawChartfile {
    fn validate(self, directory: &str) -> Result<Chartfile, Vec<String>> {
        let mut problems = Vec::new();
        if self.requires.len() > REQUIREMENTS_MAX {
            return Err(vec![format!("more than {REQUIREMENTS_MAX} charts")]);
        }
        let repositories: BTreeSet<&str> = self
            .repositories
            .iter()
            .map(|known| known.name.as_str())
            .collect();
        let name = |pattern: &str| Regex::new(pattern).map_err(|error| vec![error.to_string()]);
        let (repository_name, chart_name) = (name(r"^[\w-]+$")?, name(r"^([\w-]+)/([\w.+-]+)$")?);
        for repository in &repositories {
            if !repository_name.is_match(repository) {
                problems.push(format!("Repository name \"{repository}\" is not valid."));
            }
        }
        let charts = self.directory.as_deref().unwrap_or(DIRECTORY);
        let base = path::clean(directory, charts);
        let base = base.ok_or_else(|| vec![format!("directory \"{charts}\" is outside the repository")])?;
        let mut requires: Vec<Requirement> = Vec::new();
        for RawRequirement {
            chart,
            version,
            directory,
        } in &self.requires
        {
            let Some(parts) = chart_name.captures(chart) else {
                problems.push(format!(
                    "Chart name \"{chart}\" is not valid. Expecting a repo/name format."
                ));
                continue;
            };
            let (repository, name) = (&parts[1], &parts[2]);
            if !repositories.contains(repository) {
                problems.push(format!(
                    "repository \"{repository}\" not found for chart \"{chart}\""
                ));
            }
            let own = directory.as_deref().filter(|own| !own.is_empty()).unwrap_or(name);
            let Some(place) = path::clean(&base, own) else {
                problems.push(format!(
                    "directory \"{own}\" of chart \"{chart}\" is outside the repository"
                ));
                continue;
            };
            if let Some(other) = requires.iter().find(|other| other.directory == place) {
                problems.push(format!(
                    "output directory \"{own}\" is used twice, by charts \"{}@{}\" and \"{chart}@{version}\"",
                    other.chart, other.version
                ));
            }
            requires.push(Requirement {
                chart: chart.clone(),
                version: version.clone(),
                directory: place,
            });
        }
        match problems.is_empty() {
            true => Ok(Chartfile {
                requires,
                directory: base,
            }),
            false => Err(problems),
        }
    }
}

/// Compares the required charts with the present ones, by directory.
pub fn compare_vendored(
    tree: &dyn Tree,
    chartfile: &Chartfile,
) -> Result<Vec<VendoredChart>, ChartfileError> {
    let mut found = BTreeMap::new();
    for file in tree.files_below(&chartfile.directory)? {
        let inside = file
            .as_str()
            .strip_prefix(&chartfile.directory)
            .unwrap_or_default();
        // A nested chart belongs to the outer chart.
        let depth = inside.trim_start_matches('/').matches('/').count();
        if file.file_name() == "Chart.yaml" && depth == 1 {
            found.insert(
                file.parent().unwrap_or_default().to_owned(),
                version(tree, &file)?,
            );
        }
    }
    let mut all = BTreeMap::new();
    for requirement in &chartfile.requires {
        let there = match found.remove(&requirement.directory) {
            Some(there) => Some(there),
            None => match RepoPath::parse(&format!("{}/Chart.yaml", requirement.directory)) {
                Ok(file) if tree.entry(&file)?.is_some() => Some(version(tree, &file)?),
                Ok(_) | Err(_) => None,
            },
        };
        let drift = match &there {
            None => Drift::Missing,
            Some(there) if *there == requirement.version => Drift::None,
            Some(_) => Drift::OtherVersion,
        };
        all.insert(
            requirement.directory.clone(),
            VendoredChart {
                directory: requirement.directory.clone(),
                chart: Some(requirement.chart.clone()),
                wanted: Some(requirement.version.clone()),
                found: there,
                drift,
            },
        );
    }
    for (directory, there) in found {
        all.insert(
            directory.clone(),
            VendoredChart {
                directory,
                chart: None,
                wanted: None,
                found: Some(there),
                drift: Drift::NotListed,
            },
        );
    }
    Ok(all.into_values().collect())
}

/// Returns the version in a `Chart.yaml`, or an empty text if there is none.
fn version(tree: &dyn Tree, file: &RepoPath) -> Result<String, ChartfileError> {
    let content = tree.read(file)?.content;
    let text = String::from_utf8_lossy(&content);
    let documents = yaml_documents(&text).map_err(|error| ChartfileError::Malformed {
        path: file.to_string(),
        why: error.to_string(),
    })?;
    let version = documents
        .first()
        .and_then(|document| document.get("version")?.as_str().map(str::to_owned));
    Ok(version.unwrap_or_default())
}

#[cfg(test)]
mod tests;
