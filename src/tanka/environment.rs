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
    /// The name, the entry point and the labels.
    pub metadata: Metadata,
    /// The settings it is rendered and applied with.
    pub spec: Spec,
}

/// The name, the entry point and the labels of an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Metadata {
    /// The name. That of a static one is its directory.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The entry point, seen from the project.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The labels, which `env list` selects by.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// The settings an environment is rendered and applied with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The cluster, as its URL or a regular expression for it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_server: String,
    /// The cluster, as names of contexts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context_names: Vec<String>,
    /// The namespace of objects that name none.
    pub namespace: String,
    /// The strategy for finding differences from the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub diff_strategy: String,
    /// The strategy for applying changes. Drydock never applies.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub apply_strategy: String,
    /// True if objects are labelled with the environment they come from.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inject_labels: bool,
    /// The fields that label is made of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tanka_env_label_from_fields: Vec<String>,
    /// The defaults that every object gets.
    pub resource_defaults: ResourceDefaults,
    /// The versions it needs.
    pub expect_versions: ExpectedVersions,
    /// The program `tk export` would evaluate it with. It is kept, printed, and never honoured: a file
    /// of the repository does not choose what runs here.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub export_jsonnet_implementation: String,
}

/// The defaults that every object gets unless it has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResourceDefaults {
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// The versions an environment needs.
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
