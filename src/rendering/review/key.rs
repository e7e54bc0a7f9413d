//! The identity of an object in a cluster.

use serde::Serialize;
use serde_json::Value;

/// The API group without version, the kind, the namespace (which may be empty) and the name. A generated name
/// consists of its prefix and a star, which no real name contains.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ObjectKey {
    /// The API group, such as `apps`; empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// The namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name.
    pub name: String,
    /// 1, unless several objects of one environment have the same identity.
    #[serde(skip_serializing_if = "is_first")]
    pub occurrence: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_first(occurrence: &u32) -> bool {
    *occurrence == 1
}

impl ObjectKey {
    /// Reads the key of an object. Missing parts are empty.
    pub fn from_object(object: &Value) -> Self {
        let version = text(&object["apiVersion"]);
        let metadata = &object["metadata"];
        let name = match (text(&metadata["name"]), text(&metadata["generateName"])) {
            ("", "") => String::new(),
            ("", prefix) => format!("{prefix}*"),
            (name, _) => name.to_owned(),
        };
        Self {
            group: version.split_once('/').map_or("", |(group, _)| group).to_owned(),
            kind: text(&object["kind"]).to_owned(),
            namespace: text(&metadata["namespace"]).to_owned(),
            name,
            occurrence: 1,
        }
    }

    /// True if the cluster generates the name. Then every apply creates a new object.
    pub fn is_generated(&self) -> bool {
        self.name.ends_with('*')
    }

    /// Returns `apps/Deployment web`, without the namespace, which differs between environments.
    pub fn short(&self) -> String {
        let key = Self {
            namespace: String::new(),
            ..self.clone()
        };
        key.to_string()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

impl std::fmt::Display for ObjectKey {
    /// Writes `apps/Deployment dev/web`. The core group and a missing namespace are left out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)?;
        match self.occurrence {
            1 => Ok(()),
            occurrence => write!(f, " (no. {occurrence})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ObjectKey;
    use serde_json::json;

    #[test]
    fn a_key_has_no_version_and_leaves_out_what_is_empty() {
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
                "batch/Job job-*",
            ),
            (json!({ "kind": 7, "metadata": [] }), " "),
        ] {
            assert_eq!(ObjectKey::from_object(&value).to_string(), expected);
        }
    }
}
