//! A Kubernetes object of an environment, and its identity.

use serde::Serialize;
use serde_json::Value;

/// A Kubernetes object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// The path in the value of the program, such as `.grafana.deployment`.
    pub path: String,
    /// The object.
    pub value: Value,
}

/// The identity of an object in a cluster: its API group without the version, its kind, its namespace (which may be
/// empty) and its name, or else its `generateName` prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ObjectIdentity {
    /// The API group, such as `apps`; empty for the core group.
    pub group: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// The namespace; empty if there is none.
    pub namespace: String,
    /// The name, or else the `generateName` prefix.
    pub name: String,
}

impl Object {
    /// Returns the identity of the object.
    pub fn key(&self) -> ObjectIdentity {
        let version = self.api_version();
        let name = match self.name() {
            "" => self.generate_name(),
            name => name,
        };
        ObjectIdentity {
            group: version.split_once('/').map_or("", |(group, _)| group).to_owned(),
            kind: self.kind().to_owned(),
            namespace: self.namespace().to_owned(),
            name: name.to_owned(),
        }
    }

    /// Returns the API version, such as `apps/v1`.
    pub fn api_version(&self) -> &str {
        self.value["apiVersion"].as_str().unwrap_or_default()
    }

    /// Returns the kind, such as `Deployment`.
    pub fn kind(&self) -> &str {
        self.value["kind"].as_str().unwrap_or_default()
    }

    /// Returns the namespace, or an empty text if there is none.
    pub fn namespace(&self) -> &str {
        self.metadata("namespace")
    }

    /// Returns the name, or an empty text if it is generated.
    pub fn name(&self) -> &str {
        self.metadata("name")
    }

    /// Returns the `generateName` prefix, or an empty text if there is none.
    pub fn generate_name(&self) -> &str {
        self.metadata("generateName")
    }

    fn metadata(&self, field: &str) -> &str {
        self.value["metadata"][field].as_str().unwrap_or_default()
    }
}

impl std::fmt::Display for ObjectIdentity {
    /// Writes `apps/Deployment dev/web`. The core group and a missing namespace are left out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::Object;
    use serde_json::{Value, json};

    #[test]
    fn a_key_has_no_version_and_leaves_out_what_is_empty() {
        let shown = |value: Value| {
            let object = Object {
                path: String::new(),
                value,
            };
            object.key().to_string()
        };
        let metadata = json!({ "name": "web", "namespace": "dev" });
        for (value, expected) in [
            (
                json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata }),
                "apps/Deployment dev/web",
            ),
            (
                json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "dev" } }),
                "Namespace dev",
            ),
            (
                json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "generateName": "job-" } }),
                "batch/Job job-",
            ),
        ] {
            assert_eq!(shown(value), expected);
        }
    }
}
