//! The request for a comparison: two sides, their differences, and the person's request.

use super::CompareError;
use crate::base::model::FileChange;
use crate::rendering::jsonnet::CrossCheckMode;
use crate::rendering::review::{ChangedFile, ReviewInput, ReviewedEnvironment, SettingsChange};
use crate::rendering::tanka::Target;
use crate::state::workspace::{
    Base, Overlay, Repository, RevertedTree, SecretGuard, Tree, Workspace, WorkspaceEdits, patch,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The request for a comparison.
#[derive(Clone, Debug)]
pub struct CompareRequest {
    /// The two trees.
    pub sides: Sides,
    /// The person's request, used to find effects that it does not mention. Empty without a request.
    pub request: String,
    /// The single environment to compare, or all.
    pub only: Option<EnvironmentSelection>,
    /// The variables for the programs.
    pub variables: Variables,
    /// The time of the cross-check of the workspace.
    pub cross_check: CrossCheckWanted,
}

/// The time of the cross-check. Without it, the difference is available earlier but not reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrossCheckWanted {
    /// Together with the first engine.
    Now,
    /// Later, when the change is examined again.
    Later,
    /// Never.
    Never,
}

/// The progress of a comparison, which renders every environment on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompareProgress {
    /// Renderings that are finished or cached.
    pub done: usize,
    /// Renderings in all; 0 while unknown.
    pub total: usize,
}

/// The single environment to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentSelection {
    /// The directory of the environment, a file in it, or its name.
    pub path: String,
    /// The name of the environment, if one file defines several.
    pub name: Option<String>,
}

/// The variables for the programs of both sides, as Jsonnet code by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    /// External variables.
    pub ext_code: BTreeMap<String, String>,
    /// Top-level arguments.
    pub tla_code: BTreeMap<String, String>,
}

/// Two trees and their differences.
#[derive(Clone, Debug)]
pub struct Sides {
    /// The base.
    pub base: Arc<dyn Tree>,
    /// The lasting identity of the base, such as repository and commit; `None` if the base may change.
    pub base_id: Option<String>,
    /// The base with the change.
    pub workspace: Arc<dyn Tree>,
    /// Every file that differs.
    pub changes: Vec<FileChange>,
    /// The guard that hides files and secrets from the reader; `None` without a specific reader.
    pub guard: Option<SecretGuard>,
}

impl Sides {
    /// Compares a workspace with its base. Reads files and may block.
    pub fn from_workspace(workspace: &Workspace) -> Result<Self, CompareError> {
        let changes = workspace.tree.changes()?;
        let guard = Some(workspace.guard.clone());
        let Some(base) = workspace.tree.overlay_base() else {
            return Ok(Self {
                guard,
                ..Self::from_changes(Arc::clone(&workspace.tree), changes)?
            });
        };
        Ok(Self {
            workspace: Arc::clone(&workspace.tree),
            changes,
            guard,
            ..Self::unchanged_base(&workspace.repository, base)
        })
    }

    /// Compares a base with itself.
    pub fn unchanged_base(repository: &Repository, base: Arc<Base>) -> Self {
        let base_id = Some(format!("{} {}", repository.name(), base.commit()));
        let base: Arc<dyn Tree> = Arc::new(Overlay::new(base, WorkspaceEdits::new()));
        Self {
            base_id,
            workspace: Arc::clone(&base),
            base,
            changes: Vec::new(),
            guard: None,
        }
    }

    /// Compares a tree with itself.
    pub fn unchanged_tree(workspace: Arc<dyn Tree>) -> Self {
        Self {
            base: Arc::clone(&workspace),
            base_id: None,
            workspace,
            changes: Vec::new(),
            guard: None,
        }
    }

    /// Compares a tree with its state before these changes.
    pub fn from_changes(workspace: Arc<dyn Tree>, changes: Vec<FileChange>) -> Result<Self, CompareError> {
        Ok(Self {
            base: Arc::new(RevertedTree::new(Arc::clone(&workspace), &changes)?),
            base_id: None,
            workspace,
            changes,
            guard: None,
        })
    }
}

impl CompareRequest {
    /// Requests a comparison of all environments, without variables.
    pub fn all(sides: Sides, request: impl Into<String>) -> Self {
        Self {
            sides,
            request: request.into(),
            only: None,
            variables: Variables::default(),
            cross_check: CrossCheckWanted::Now,
        }
    }

    /// Requests a result after the first engine. The cross-check is done when the change is examined again.
    #[must_use]
    pub fn defer_cross_check(self) -> Self {
        Self {
            cross_check: CrossCheckWanted::Later,
            ..self
        }
    }

    /// Requests a comparison of one environment, by its directory, a file in it, or its name.
    pub fn environment(sides: Sides, path: impl Into<String>) -> Self {
        let path = path.into();
        Self {
            only: Some(EnvironmentSelection { path, name: None }),
            ..Self::all(sides, "")
        }
    }

    pub(super) fn input(
        &self,
        environments: Vec<ReviewedEnvironment>,
        settings: Vec<SettingsChange>,
    ) -> ReviewInput {
        let stats = patch::write(&self.sides.changes).stats;
        let files = stats.into_iter().map(|stats| ChangedFile {
            path: stats.path.to_string(),
            added: stats.added,
            removed: stats.removed,
        });
        ReviewInput {
            environments,
            settings,
            files: files.collect(),
            request: self.request.clone(),
        }
    }
}

impl Variables {
    pub(super) fn target(&self, path: &str, name: Option<String>) -> Target {
        Target {
            name,
            ext_code: self.ext_code.clone(),
            tla_code: self.tla_code.clone(),
            ..Target::from_path(path)
        }
    }

    pub(super) fn entrypoint(&self, path: &str, cross_check: CrossCheckMode) -> Target {
        Target {
            cross_check,
            ..self.target(path, None)
        }
    }
}
