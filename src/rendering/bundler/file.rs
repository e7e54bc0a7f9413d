//! `jsonnetfile.json` and its lock file. Both format versions are read, and files are written byte for byte as
//! jsonnet-bundler writes them.

use super::dependency::{Dependency, Git, Local, PackageSource};
use super::error::FileError;
use super::project::{clean_rooted, local_name};
use super::uri;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const FILE_BYTES_MAX: usize = 1 << 20;
/// Maximum number of dependencies in one file.
const DEPENDENCIES_MAX: usize = 1_000;

/// A `jsonnetfile.json` or its lock file. Dependencies keep the order of the file, and each name occurs once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonnetFile {
    /// The dependencies.
    pub dependencies: Vec<Dependency>,
    /// True if packages can also be imported by short names.
    pub legacy_imports: bool,
}

impl Default for JsonnetFile {
    fn default() -> Self {
        Self {
            dependencies: Vec::new(),
            legacy_imports: true,
        }
    }
}

#[derive(Deserialize, Serialize)]
struct RawJsonnetFile {
    version: u64,
    #[serde(default)]
    dependencies: Option<Vec<RawDependency>>,
    #[serde(rename = "legacyImports")]
    legacy_imports: Option<bool>,
}

#[derive(Deserialize, Serialize)]
struct RawDependency {
    #[serde(default)]
    source: RawSource,
    #[serde(default)]
    version: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    sum: String,
    #[serde(default, skip_serializing_if = "is_false")]
    single: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
}

#[derive(Default, Deserialize, Serialize)]
struct RawSource {
    #[serde(skip_serializing_if = "Option::is_none")]
    git: Option<RawGit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    local: Option<RawLocal>,
}

#[derive(Deserialize, Serialize)]
struct RawGit {
    #[serde(default)]
    remote: String,
    #[serde(default)]
    subdir: String,
}

#[derive(Deserialize, Serialize)]
struct RawLocal {
    #[serde(default)]
    directory: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl JsonnetFile {
    /// Parses a file. `name` is used in error texts, and local names are relative to the directory `project`. No
    /// bytes are an empty file.
    pub fn parse(bytes: &[u8], name: &str, project: &str) -> Result<Self, FileError> {
        let malformed = |why: String| FileError::Malformed {
            file: name.to_owned(),
            why,
        };
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        if bytes.len() > FILE_BYTES_MAX {
            return Err(malformed(format!("more than {FILE_BYTES_MAX} bytes")));
        }
        // Parsed as a generic value first, so that the last of several equal keys is used.
        let mut value: Value = serde_json::from_slice(bytes).map_err(|err| malformed(err.to_string()))?;
        let fields = value
            .as_object_mut()
            .ok_or_else(|| malformed("expected an object".to_owned()))?;
        let version = match fields.get("version") {
            None | Some(Value::Null) => 0,
            Some(version) => version
                .as_u64()
                .ok_or_else(|| malformed("`version` is not a whole number".to_owned()))?,
        };
        if version > 1 {
            return Err(FileError::Unknown);
        }
        fields.insert("version".to_owned(), version.into());
        let written: RawJsonnetFile =
            serde_json::from_value(value).map_err(|err| malformed(err.to_string()))?;
        let listed = written.dependencies.unwrap_or_default();
        if listed.len() > DEPENDENCIES_MAX {
            return Err(malformed(format!("more than {DEPENDENCIES_MAX} dependencies")));
        }
        let mut file = Self {
            dependencies: Vec::with_capacity(listed.len()),
            // The older format had no such option.
            legacy_imports: version == 0 || written.legacy_imports.unwrap_or(true),
        };
        for dependency in listed {
            file.set(dependency.read(version, project).map_err(malformed)?);
        }
        Ok(file)
    }

    /// Returns the file as jsonnet-bundler writes it.
    pub fn write(&self) -> String {
        let written = RawJsonnetFile {
            version: 1,
            dependencies: Some(self.sorted().into_iter().map(RawDependency::from).collect()),
            legacy_imports: Some(self.legacy_imports),
        };
        // Serializing strings, lists and flags cannot fail.
        let text = serde_json::to_string_pretty(&written).unwrap_or_default();
        let mut escaped = String::with_capacity(text.len() + 1);
        for next in text.chars() {
            match next {
                // In JSON, these characters occur only inside strings. Go escapes them.
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                    escaped.push_str(&format!("\\u{:04x}", u32::from(next)));
                }
                _ => escaped.push(next),
            }
        }
        escaped.push('\n');
        escaped
    }

    /// Returns the dependency with this name.
    pub fn get(&self, name: &str) -> Option<&Dependency> {
        self.dependencies
            .iter()
            .find(|dependency| dependency.name() == name)
    }

    /// Replaces the dependency with the same name, or adds it at the end.
    pub(super) fn set(&mut self, dependency: Dependency) {
        let name = dependency.name();
        match self.dependencies.iter_mut().find(|known| known.name() == name) {
            Some(known) => *known = dependency,
            None => self.dependencies.push(dependency),
        }
    }

    /// Removes the dependency with this name.
    pub(super) fn remove(&mut self, name: &str) {
        self.dependencies.retain(|dependency| dependency.name() != name);
    }

    /// True if both have the same content in any order.
    pub(super) fn is_equivalent(&self, other: &Self) -> bool {
        self.legacy_imports == other.legacy_imports && self.sorted() == other.sorted()
    }

    fn sorted(&self) -> Vec<Dependency> {
        let mut dependencies = self.dependencies.clone();
        dependencies.sort_by_key(Dependency::name);
        dependencies
    }
}

impl RawDependency {
    fn read(self, version: u64, project: &str) -> Result<Dependency, String> {
        let source = match (self.source.git, self.source.local) {
            (Some(git), _) => PackageSource::Git(git.read(version)?),
            (None, Some(local)) => PackageSource::Local(Local {
                name: local_name(project, &local.directory)
                    .ok_or_else(|| format!("local dependency `{}` names no directory", local.directory))?,
                directory: local.directory,
            }),
            (None, None) => return Err("either git or local source is required".to_owned()),
        };
        Ok(Dependency {
            source,
            version: self.version,
            sum: self.sum,
            single: self.single,
            legacy_name: self.name,
        })
    }
}

impl RawGit {
    fn read(self, version: u64) -> Result<Git, String> {
        let parsed = uri::parse(&self.remote).map_err(|err| match err {
            uri::UriError::Unparsable(remote) => format!("unable to parse git url `{remote}`"),
            uri::UriError::Refused(refused) => refused.to_string(),
        })?;
        let PackageSource::Git(mut git) = parsed.source else {
            return Err(format!("unable to parse git url `{}`", self.remote));
        };
        git.subdir = match version {
            0 => clean_rooted(&self.subdir),
            _ => self
                .subdir
                .strip_prefix('/')
                .map_or(self.subdir.clone(), str::to_owned),
        };
        Ok(git)
    }
}

impl From<Dependency> for RawDependency {
    fn from(dependency: Dependency) -> Self {
        let source = match dependency.source {
            PackageSource::Git(git) => RawSource {
                git: Some(RawGit {
                    remote: git.remote(),
                    subdir: git.subdir,
                }),
                local: None,
            },
            PackageSource::Local(local) => RawSource {
                git: None,
                local: Some(RawLocal {
                    directory: local.directory,
                }),
            },
        };
        Self {
            source,
            version: dependency.version,
            sum: dependency.sum,
            single: dependency.single,
            name: dependency.legacy_name,
        }
    }
}
