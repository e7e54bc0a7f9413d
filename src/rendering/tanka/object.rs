//! A Kubernetes object of an environment.

use serde_json::Value;

/// A Kubernetes object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// The path in the value of the program, such as `.grafana.deployment`.
    pub path: String,
    /// The object.
    pub value: Value,
}

impl Object {
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
