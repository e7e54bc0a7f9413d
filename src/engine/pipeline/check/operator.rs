//! The limits that the operator of the server sets, and the names that are known.

use crate::base::config::{PipelineOperatorSettings, PipelineSettings};
use std::collections::BTreeSet;

/// The limits that the operator of the server sets, and the names that are known. An unknown name is not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorLimits {
    /// The names of Drydock's tools.
    pub tools: BTreeSet<String>,
    /// The configuration of the server; `None` if there is none at hand.
    pub server: Option<PipelineOperatorSettings>,
}

impl OperatorLimits {
    /// Returns the settings of the server, or their defaults.
    pub fn settings(&self) -> PipelineSettings {
        self.server
            .as_ref()
            .map(|server| server.pipelines.clone())
            .unwrap_or_default()
    }
}
