//! The ground of a class: what the arenas it is played in are built of.

use super::placeholders::PlaceholderValues;
use super::require::component;
use super::table::AttackClass;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The way the environments of the repository name the cluster they live in.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ClusterNaming {
    /// The address of its server.
    #[default]
    Address,
    /// The name of a context, which stands in files of whoever applies them.
    Context,
    /// No name: whoever applies them chooses.
    Nowhere,
}

impl ClusterNaming {
    /// Sets what `spec.json` says before the namespace, as `«cluster dev»`.
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

/// The parts of an arena, beside the cases.
#[derive(Clone, Debug, Default)]
pub(crate) struct FixtureOptions {
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) clusters: ClusterNaming,
}

impl AttackClass {
    /// The parts of its arenas; `None` where this machine lacks a program it takes.
    pub(crate) fn fixture_options(&self) -> Option<FixtureOptions> {
        let mut ground = FixtureOptions {
            settings: self.settings.clone(),
            clusters: self.clusters,
        };
        for name in &self.needs {
            let program = component(name)?.place().display().to_string();
            ground.settings.insert(format!("{name}.program"), program);
        }
        Some(ground)
    }
}
