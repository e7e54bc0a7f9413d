//! `Chart.lock`: the chosen versions, and a digest of the declaration. The format is that of helm, so that helm and
//! this program can use each other's files.

use super::declaration::{ChartDependency, ChartFormat, document, parse_list};
use super::{HelmError, chart_error};
use crate::base::model::RepoPath;
use crate::rendering::jsonnet::external_program::Copies;
use crate::rendering::jsonnet::yaml::{self, GoYamlVersion};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The lock files: the current one, and that from before helm 3.
pub(super) const LOCKS: [&str; 2] = ["Chart.lock", "requirements.lock"];

/// The relevant content of a lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lock {
    pub(super) digest: String,
    pub(super) dependencies: Vec<ChartDependency>,
}

impl Lock {
    /// Reads the lock file of a chart, if it has one. If both kinds exist, the older kind is used.
    pub(super) fn read(directory: &RepoPath, copies: &Copies) -> Result<Option<Self>, HelmError> {
        let mut lock = None;
        for name in LOCKS {
            let wrong = |why: &str| chart_error(directory, &format_args!("`{name}`: {why}"));
            let Some(document) = document(directory, copies, name)? else {
                continue;
            };
            let listed = match document.get("dependencies") {
                None | Some(Value::Null) => [].as_slice(),
                Some(Value::Array(listed)) => listed,
                Some(_) => return Err(wrong("`dependencies` is not a list")),
            };
            let digest = document.get("digest").and_then(Value::as_str);
            lock = Some(Self {
                digest: digest.unwrap_or_default().to_owned(),
                dependencies: parse_list(listed).map_err(|why| wrong(&why))?,
            });
        }
        Ok(lock)
    }

    /// Creates a lock with the chosen versions of the declared dependencies.
    pub(super) fn for_dependencies(
        declared: Option<&[ChartDependency]>,
        chosen: Vec<ChartDependency>,
    ) -> Self {
        Self {
            digest: digest(&format!("[{},{}]", serialize(declared), serialize(Some(&chosen)))),
            dependencies: chosen,
        }
    }

    /// True if the lock was made for the declared dependencies. Helm 2 computed the digest from the declaration
    /// alone.
    pub(super) fn matches(&self, declared: Option<&[ChartDependency]>, format: ChartFormat) -> bool {
        let of_helm_2 = || digest(&format!("{{\"dependencies\":{}}}", serialize(declared)));
        let now = Self::for_dependencies(declared, self.dependencies.clone()).digest;
        now == self.digest || format == ChartFormat::V1 && of_helm_2() == self.digest
    }

    /// Returns the content of the lock file.
    pub(super) fn text(&self, at: Timestamp) -> String {
        let dependencies = self.dependencies.iter().map(|dependency| {
            let mut fields = json!({ "name": dependency.name, "repository": dependency.repository });
            if !dependency.version.is_empty() {
                fields["version"] = dependency.version.clone().into();
            }
            fields
        });
        let lock = json!({
            "dependencies": dependencies.collect::<Vec<_>>(),
            "digest": self.digest,
            "generated": at.to_string(),
        });
        yaml::document(GoYamlVersion::V2, &lock)
    }
}

fn digest(text: &str) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(text.as_bytes())))
}

/// Serializes dependencies as Go does for helm's struct: fields in the same order, without empty ones.
fn serialize(dependencies: Option<&[ChartDependency]>) -> String {
    let Some(dependencies) = dependencies else {
        return "null".to_owned();
    };
    let each: Vec<String> = dependencies.iter().map(serialize_dependency).collect();
    format!("[{}]", each.join(","))
}

fn serialize_dependency(dependency: &ChartDependency) -> String {
    let ChartDependency {
        name,
        version,
        repository,
        condition,
        tags,
        enabled,
        import_values,
        alias,
    } = dependency;
    let fields = [
        ("name", json!(name), true),
        ("version", json!(version), !version.is_empty()),
        ("repository", json!(repository), true),
        ("condition", json!(condition), !condition.is_empty()),
        ("tags", json!(tags), !tags.is_empty()),
        ("enabled", json!(enabled), *enabled),
        ("import-values", json!(import_values), !import_values.is_empty()),
        ("alias", json!(alias), !alias.is_empty()),
    ];
    let said = fields.iter().filter(|(_, _, said)| *said);
    let said: Vec<String> = said
        .map(|(name, value, _)| format!("\"{name}\":{}", yaml::compact(value)))
        .collect();
    format!("{{{}}}", said.join(","))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Lock, digest, serialize};
    use crate::base::model::RepoPath;
    use crate::rendering::helm::declaration::{ChartFormat, Declaration};
    use crate::rendering::jsonnet::external_program::Copies;
    use bytes::Bytes;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    /// A chart and the digests computed with helm's own types.
    #[derive(Deserialize)]
    struct RecordedChart {
        files: BTreeMap<String, String>,
        digest: String,
        helm_2: String,
    }

    fn read(files: &BTreeMap<String, String>) -> Declaration {
        let path = |name: &str| RepoPath::parse(&format!("web/{name}")).unwrap();
        let copies: Copies = files
            .iter()
            .map(|(name, text)| (path(name), Bytes::from(text.clone())))
            .collect();
        Declaration::read(&RepoPath::parse("web").unwrap(), &copies).unwrap()
    }

    #[test]
    fn the_digest_is_helms() {
        let recorded: Vec<RecordedChart> =
            serde_json::from_str(include_str!("testdata/digests.json")).unwrap();
        assert_eq!(recorded.len(), 8);
        for RecordedChart {
            files,
            digest,
            helm_2,
        } in recorded
        {
            let declaration = read(&files);
            let declared = declaration.dependencies.as_deref();
            let chosen = declaration.lock.unwrap().dependencies;
            let lock = Lock::for_dependencies(declared, chosen.clone());
            assert_eq!(lock.digest, digest, "{files:?}");
            assert!(lock.matches(declared, ChartFormat::V2));
            let older = Lock {
                digest: helm_2,
                dependencies: chosen,
            };
            assert!(older.matches(declared, ChartFormat::V1), "{files:?}");
            assert!(!older.matches(declared, ChartFormat::V2));
        }
    }

    #[test]
    fn missing_dependencies_and_an_empty_list_have_different_digests() {
        assert_eq!(serialize(None), "null");
        assert_eq!(serialize(Some(&[])), "[]");
        assert_ne!(digest("[null,[]]"), digest("[[],[]]"));
    }

    #[test]
    fn the_file_is_as_helm_writes_it() {
        let files = BTreeMap::from([(
            "Chart.lock".to_owned(),
            "dependencies:\n- {name: a, repository: 'https://x', version: 1.0.0}\n- {name: b, repository: ''}\n"
                .to_owned(),
        )]);
        let lock = Lock::for_dependencies(None, read(&files).lock.unwrap().dependencies);
        let at = "2026-01-02T03:04:05.120Z".parse().unwrap();
        assert_eq!(
            lock.text(at),
            format!(
                "dependencies:\n- name: a\n  repository: https://x\n  version: 1.0.0\n- name: b\n  repository: \
                 \"\"\ndigest: {}\ngenerated: \"2026-01-02T03:04:05.12Z\"\n",
                lock.digest
            )
        );
    }
}
