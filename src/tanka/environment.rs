//! An environment's settings, in the shape and order Tanka prints them.

use serde::Serialize;
use std::collections::BTreeMap;

/// An environment without its objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Environment {
    /// `tanka.dev/v1alpha1`.
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// `Environment`.
    pub kind: String,
    /// What it is called and where it is.
    pub metadata: Metadata,
    /// What it is rendered and applied with.
    pub spec: Spec,
}

/// What an environment is called and where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Metadata {
    /// Its name. That of a static one is its directory.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its entry point, seen from the project.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its labels, which `env list` selects by.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// What an environment is rendered and applied with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The cluster, as its URL or a regular expression for it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_server: String,
    /// The cluster, as names of contexts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context_names: Vec<String>,
    /// Where objects go that name no namespace.
    pub namespace: String,
    /// How changes against the cluster are found.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub diff_strategy: String,
    /// How changes are applied. Drydock never applies.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub apply_strategy: String,
    /// Whether objects are labelled with the environment they come from.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inject_labels: bool,
    /// What that label is made of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tanka_env_label_from_fields: Vec<String>,
    /// What every object gets unless it has it.
    pub resource_defaults: ResourceDefaults,
    /// What it needs.
    pub expect_versions: ExpectedVersions,
    /// The program `tk export` would evaluate it with. It is kept, printed, and never honoured: a file
    /// of the repository does not choose what runs here.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub export_jsonnet_implementation: String,
}

/// What every object gets unless it has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResourceDefaults {
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// What an environment needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExpectedVersions {
    /// A constraint on the version of Tanka; empty for any.
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
