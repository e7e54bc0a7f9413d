//! The options of a class: the settings of its fixtures.

use super::placeholders::PlaceholderValues;
use super::require::component;
use super::table::{AttackClass, WireFormat};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The way the environments of the repository name their cluster.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ClusterNaming {
    /// The address of its server.
    #[default]
    Address,
    /// The name of a context, which is defined in files of the person who applies the environments.
    Context,
    /// No name. The person who applies the environments chooses the cluster.
    Nowhere,
}

impl ClusterNaming {
    /// Sets the text of `spec.json` before the namespace, as `«cluster dev»`.
    pub(crate) fn set_placeholders(self, values: &mut PlaceholderValues) {
        for environment in ["dev", "staging", "prod"] {
            let named = match self {
                Self::Address => format!("\"apiServer\": \"https://{environment}.k8s.example.com\", "),
                Self::Context => format!("\"contextNames\": [\"{environment}\"], "),
                Self::Nowhere => String::new(),
            };
            values.set(&format!("cluster {environment}"), &named);
        }
    }
}

/// The parts of a fixture, beside the cases.
#[derive(Clone, Debug, Default)]
pub(crate) struct FixtureOptions {
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) clusters: ClusterNaming,
    /// The wire format of a second model.
    pub(crate) fallback: Option<WireFormat>,
}

impl AttackClass {
    /// Returns the parts of its fixtures, or `None` if this machine lacks a required program.
    pub(crate) fn fixture_options(&self) -> Option<FixtureOptions> {
        let mut options = FixtureOptions {
            settings: self.settings.clone(),
            clusters: self.clusters,
            fallback: self.fallback,
        };
        for name in &self.needs {
            let program = component(name)?.place().display().to_string();
            options.settings.insert(format!("{name}.program"), program);
        }
        Some(options)
    }
}
