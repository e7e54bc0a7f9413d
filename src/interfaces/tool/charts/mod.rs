//! The tools for charts: they run the operator's helm on a chart and pack its dependencies. They are offered only if
//! the operator has configured helm.

mod build;
mod lint;
mod list;
mod update;

#[cfg(test)]
mod tests;

use super::adapter::ToolAdapter;
use super::write_policy::WritePolicy;
use super::{Tool, ToolError};
use crate::base::model::RepoPath;
use crate::rendering::helm::{Helm, HelmError, PackMode, PackResult};
use crate::rendering::jsonnet::FairSlots;
use std::sync::Arc;

/// The write policy and the helm that these tools use.
pub(super) struct ChartContext {
    policy: WritePolicy,
    helm: Arc<Helm>,
}

/// Returns every tool for charts; none without helm. Concurrent calls of tools that may download are limited.
pub(super) fn all(helm: Option<&Arc<Helm>>, downloads: &FairSlots) -> Vec<Arc<dyn Tool>> {
    let Some(helm) = helm else {
        return Vec::new();
    };
    let context = || {
        let helm = Arc::clone(helm);
        move |cx: super::Context<'_>| ChartContext {
            policy: WritePolicy::from(cx),
            helm: Arc::clone(&helm),
        }
    };
    vec![
        Arc::new(ToolAdapter::<build::HelmDependencyBuild>::with_context(context()).limited_by(downloads)),
        Arc::new(ToolAdapter::<lint::HelmLint>::with_context(context())),
        Arc::new(ToolAdapter::<list::HelmDependencyList>::with_context(context())),
        Arc::new(ToolAdapter::<update::HelmDependencyUpdate>::with_context(context()).limited_by(downloads)),
    ]
}

impl From<HelmError> for ToolError {
    fn from(err: HelmError) -> Self {
        Self::Failed(err.to_string())
    }
}

impl ChartContext {
    /// Returns true if the turn was stopped; helm is then stopped as well.
    fn stopped(&self) -> bool {
        self.policy.cancel.is_cancelled()
    }

    fn pack(&self, chart: &RepoPath, how: PackMode) -> Result<String, ToolError> {
        // Nothing is downloaded for a user who may not change the chart.
        let file = RepoPath::parse(&format!("{chart}/Chart.yaml"));
        self.policy
            .admit_write(&file.map_err(|why| ToolError::Failed(why.to_string()))?)
            .map(drop)?;
        let tree = self.policy.tree.as_ref();
        let packed = self.helm.pack(tree, chart, how, &self.policy.watch)?;
        self.policy.apply_files(&packed.changes)?;
        Ok(format_result(&packed))
    }
}

/// Returns the output of helm, and the files that changed.
fn format_result(packed: &PackResult) -> String {
    let mut lines: Vec<String> = packed.output.lines().map(str::to_owned).collect();
    lines.extend(packed.changes.iter().map(|(path, content)| match content {
        Some(_) => format!("wrote {path}"),
        None => format!("deleted {path}"),
    }));
    if packed.changes.is_empty() {
        lines.push("all charts were already present".to_owned());
    }
    lines.join("\n")
}
