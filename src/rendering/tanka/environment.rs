//! The settings of an environment, in the structure and order in which Tanka prints them.

use serde::Serialize;
use std::collections::BTreeMap;

/// An environment without its objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Environment {
    /// The API version, `tanka.dev/v1alpha1`.
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// The kind, `Environment`.
    pub kind: String,
    /// The name, the entry point and the labels.
    pub metadata: Metadata,
    /// The settings for rendering and applying.
    pub spec: Spec,
}

/// The name, the entry point and the labels of an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Metadata {
    /// The name. A static environment has the name of its directory.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The path of the entry point, relative to the project.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The labels, which `env list` filters by.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// The settings for rendering and applying an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The cluster as its URL, or as a regular expression for it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_server: String,
    /// The cluster as names of kubeconfig contexts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context_names: Vec<String>,
    /// The namespace of objects without a namespace.
    pub namespace: String,
    /// The strategy for computing differences from the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub diff_strategy: String,
    /// The strategy for applying changes. Drydock never applies.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub apply_strategy: String,
    /// True if objects get a label with the environment they come from.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inject_labels: bool,
    /// The fields from which the value of that label is computed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tanka_env_label_from_fields: Vec<String>,
    /// The defaults that every object gets.
    pub resource_defaults: ResourceDefaults,
    /// The required versions.
    pub expect_versions: ExpectedVersions,
    /// The program with which `tk export` would evaluate the environment. The value is kept and printed but never
    /// used, because a file in the repository must not choose which program runs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub export_jsonnet_implementation: String,
}

/// Default annotations and labels for objects that do not set them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResourceDefaults {
    /// The default annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The default labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// The versions an environment needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExpectedVersions {
    /// A constraint on the version of Tanka. Empty for any version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tanka: String,
}

impl Default for Environment {
    fn default() -> Self {
        Self {
            api_version: "tanka.dev/v1alpha1".to_owned(),
            kind: "Environment".to_owned(),
            metadata: Metadata::default(),
            spec: Spec::default(),
        }
    }
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            api_server: String::new(),
            context_names: Vec::new(),
            namespace: "default".to_owned(),
            diff_strategy: String::new(),
            apply_strategy: String::new(),
            inject_labels: false,
            tanka_env_label_from_fields: Vec::new(),
            resource_defaults: ResourceDefaults::default(),
            expect_versions: ExpectedVersions::default(),
            export_jsonnet_implementation: String::new(),
        }
    }
}
