//! One Kubernetes object of an environment, and what identifies it.

use serde::Serialize;
use serde_json::Value;

/// One Kubernetes object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// The path in the value of the program: `.grafana.deployment`.
    pub path: String,
    /// The object.
    pub value: Value,
}

/// The identity of an object in a cluster: its API group without the version, its kind, its namespace (empty when it has none) and its
/// name, or else the prefix its name is generated from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ObjectIdentity {
    /// `apps`; empty for the core group.
    pub group: String,
    /// `Deployment`.
    pub kind: String,
    /// The namespace; empty when it has none.
    pub namespace: String,
    /// The name, or else the prefix it is generated from.
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

    /// `apps/v1`.
    pub fn api_version(&self) -> &str {
        self.value["apiVersion"].as_str().unwrap_or_default()
    }

    /// `Deployment`.
    pub fn kind(&self) -> &str {
        self.value["kind"].as_str().unwrap_or_default()
    }

    /// Returns the namespace; empty when it has none.
    pub fn namespace(&self) -> &str {
        self.metadata("namespace")
    }

    /// Returns the name; empty when it is generated.
    pub fn name(&self) -> &str {
        self.metadata("name")
    }

    /// Returns the prefix the name is generated from; empty when there is none.
    pub fn generate_name(&self) -> &str {
        self.metadata("generateName")
    }

    fn metadata(&self, field: &str) -> &str {
        self.value["metadata"][field].as_str().unwrap_or_default()
    }
}

impl std::fmt::Display for ObjectIdentity {
    /// `apps/Deployment dev/web`, as people read it; the core group and no namespace are left out.
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
