//! The ground of a class: what the arenas it is played in are built of.

use super::require::component;
use super::table::Class;
use super::words::Values;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The way the environments of the repository name the cluster they live in.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Clusters {
    /// The address of its server.
    #[default]
    Address,
    /// The name of a context, which stands in files of whoever applies them.
    Context,
    /// No name: whoever applies them chooses.
    Nowhere,
}

impl Clusters {
    /// Sets what `spec.json` says before the namespace, as `«cluster dev»`.
    pub(crate) fn name_in(self, values: &mut Values) {
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
pub(crate) struct Ground {
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) clusters: Clusters,
}

impl Class {
    /// The parts of its arenas; `None` where this machine lacks a program it takes.
    pub(crate) fn ground(&self) -> Option<Ground> {
        let mut ground = Ground {
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
