//! Destinations of environments: the cluster and the namespace in their settings. A destination is built from the
//! original settings, never from redacted text.

use super::environment::Environment;

/// A cluster, and the namespace of objects without a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub(super) cluster: Cluster,
    pub(super) namespace: String,
}

/// A cluster as the settings name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Cluster {
    pub(super) servers: Vec<String>,
    pub(super) contexts: Vec<String>,
}

/// An environment that exists before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingEnvironment {
    /// The directory that a grant for the environment names; `None` for the root, which all environments share.
    pub owner: Option<String>,
    /// The destination of the environment; `None` if it is unknown.
    pub destination: Option<Destination>,
}

impl Destination {
    /// Returns the destination from the settings of an environment.
    pub fn from_settings(environment: &Environment) -> Self {
        let spec = &environment.spec;
        let server = Some(spec.api_server.clone()).filter(|server| !server.is_empty());
        let namespace = match spec.namespace.as_str() {
            "" => "default",
            namespace => namespace,
        };
        Self {
            cluster: Cluster {
                servers: server.into_iter().collect(),
                contexts: spec.context_names.clone(),
            },
            namespace: namespace.to_owned(),
        }
    }
}

impl Cluster {
    /// True if the settings name no cluster, so that the person who applies them chooses it.
    pub(super) fn is_unset(&self) -> bool {
        self.servers.is_empty() && self.contexts.is_empty()
    }

    /// Returns the servers and the contexts.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().chain(&self.contexts).map(String::as_str)
    }
}
