//! The tools for charts: what the operator's helm says of one, and packing its dependencies into it. They
//! are offered only where the operator has named a helm.

mod build;
mod lint;
mod list;
mod update;

#[cfg(test)]
mod tests;

use super::desk::Desk;
use super::work::Framed;
use super::{Tool, ToolError};
use crate::helm::{Helm, HelmError, Pack, Packed};
use crate::jsonnet::Places;
use crate::model::RepoPath;
use std::sync::Arc;

/// The desk and the helm that these tools work with.
pub(super) struct Bench {
    desk: Desk,
    helm: Arc<Helm>,
}

/// Every tool for charts; none without a helm. Those that may download take turns.
pub(super) fn all(helm: Option<&Arc<Helm>>, downloads: &Places) -> Vec<Arc<dyn Tool>> {
    let Some(helm) = helm else {
        return Vec::new();
    };
    let bench = || {
        let helm = Arc::clone(helm);
        move |cx: super::Context<'_>| Bench {
            desk: Desk::from(cx),
            helm: Arc::clone(&helm),
        }
    };
    vec![
        Arc::new(Framed::<build::Build>::on(bench()).in_turn(downloads)),
        Arc::new(Framed::<lint::Lint>::on(bench())),
        Arc::new(Framed::<list::List>::on(bench())),
        Arc::new(Framed::<update::Update>::on(bench()).in_turn(downloads)),
    ]
}

impl From<HelmError> for ToolError {
    fn from(err: HelmError) -> Self {
        Self::Failed(err.to_string())
    }
}

impl Bench {
    /// Helm ends with the turn.
    fn stopped(&self) -> bool {
        self.desk.cancel.is_cancelled()
    }

    fn pack(&self, chart: &RepoPath, how: Pack) -> Result<String, ToolError> {
        // Who may not change the chart has nothing fetched for them.
        let file = RepoPath::parse(&format!("{chart}/Chart.yaml"));
        self.desk
            .admit_write(&file.map_err(|why| ToolError::Failed(why.to_string()))?)
            .map(drop)?;
        let tree = self.desk.tree.as_ref();
        let packed = self.helm.pack(tree, chart, how, &self.desk.watch)?;
        self.desk.place(&packed.changes)?;
        Ok(told(&packed))
    }
}

/// Returns the output of helm, and the files that are different now.
fn told(packed: &Packed) -> String {
    let mut lines: Vec<String> = packed.said.lines().map(str::to_owned).collect();
    lines.extend(packed.changes.iter().map(|(path, content)| match content {
        Some(_) => format!("wrote {path}"),
        None => format!("deleted {path}"),
    }));
    if packed.changes.is_empty() {
        lines.push("everything was in place".to_owned());
    }
    lines.join("\n")
}
