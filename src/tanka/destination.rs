//! Places where environments live: the cluster and the namespace their settings name. Made of settings as they are written,
//! never of text that was redacted.

use super::environment::Environment;

/// A cluster, and the namespace of objects that name none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub(super) cluster: Cluster,
    pub(super) namespace: String,
}

/// A cluster, in the words of the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Cluster {
    pub(super) servers: Vec<String>,
    pub(super) contexts: Vec<String>,
}

/// An environment that is there before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingEnvironment {
    /// The directory that a grant for it names; `None` for the root, which all share.
    pub owner: Option<String>,
    /// The place where it lives; `None` where that could not be found out.
    pub destination: Option<Destination>,
}

impl Destination {
    /// Returns the place that the settings of an environment name.
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
    /// Tells if whoever applies it chooses the cluster.
    pub(super) fn is_unset(&self) -> bool {
        self.servers.is_empty() && self.contexts.is_empty()
    }

    /// Returns the servers and the contexts.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().chain(&self.contexts).map(String::as_str)
    }
}
