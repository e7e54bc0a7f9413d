//! The questions to a renderer, and its answers.

use crate::jsonnet::{CrossCheckMode, CrossCheckResult, Import};
use crate::model::RepoPath;
use crate::tanka::TankaError;
use crate::tanka::environment::Environment;
use crate::tanka::layout::Layout;
use crate::tanka::object::Object;
use crate::tanka::spec::ParsedEnvironment;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An environment to be rendered, and the values its program is given.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// A directory or file of the environment; `.` is the repository. What is neither is taken for the
    /// name of an environment.
    pub path: String,
    /// The name, or a part of it, where several environments are written in one file.
    pub name: Option<String>,
    /// External variables as Jsonnet code, by name.
    pub ext_code: BTreeMap<String, String>,
    /// Top-level arguments as Jsonnet code, by name.
    pub tla_code: BTreeMap<String, String>,
    /// Depth of calls; 0 for the usual one.
    pub max_stack: u32,
    /// The wish for a cross-check by the second engine.
    pub cross_check: CrossCheckMode,
}

impl Target {
    /// The environment at a path, given nothing.
    pub fn from_path(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            ..Self::default()
        }
    }
}

/// A rendered environment.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedEnvironment {
    /// The place of the environment.
    pub layout: Layout,
    /// The settings.
    pub environment: Environment,
    /// The objects, in order.
    pub objects: Vec<Object>,
    /// Every file its value depends on. The settings of a static environment are not among them.
    pub imports: Arc<[Import]>,
    /// The result of the second engine's cross-check.
    pub cross_check: CrossCheckResult,
    /// Hints at text that should be written differently.
    pub warnings: Vec<String>,
}

/// One environment that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEnvironment {
    /// The file it starts with.
    pub entrypoint: RepoPath,
    /// The settings.
    pub environment: Environment,
}

/// An entry point whose environments are not known.
#[derive(Debug)]
pub struct EnvironmentFailure {
    /// The file.
    pub entrypoint: RepoPath,
    /// The reason.
    pub error: TankaError,
}

/// The environments below a directory.
#[derive(Debug, Default)]
pub struct EnvironmentList {
    /// The environments that were found, by name.
    pub environments: Vec<ListedEnvironment>,
    /// The environments that could not be looked into, by path.
    pub failures: Vec<EnvironmentFailure>,
    /// Hints at text that should be written differently, each once.
    pub warnings: Vec<String>,
}

impl EnvironmentList {
    /// Sorts what was found by name and what failed by path.
    pub(super) fn from_results(looked: Vec<(RepoPath, Result<Vec<ParsedEnvironment>, TankaError>)>) -> Self {
        let mut list = Self::default();
        for (entrypoint, found) in looked {
            match found {
                Ok(found) => {
                    for parsed in found {
                        list.warnings.extend(parsed.warnings);
                        list.environments.push(ListedEnvironment {
                            entrypoint: entrypoint.clone(),
                            environment: parsed.environment,
                        });
                    }
                }
                Err(error) => list.failures.push(EnvironmentFailure { entrypoint, error }),
            }
        }
        list.environments.sort_by(|left, right| {
            let (one, other) = (&left.environment.metadata.name, &right.environment.metadata.name);
            (one, &left.entrypoint).cmp(&(other, &right.entrypoint))
        });
        list.warnings.sort_unstable();
        list.warnings.dedup();
        list
    }
}
