//! The requests to a renderer, and its results.

use crate::base::model::RepoPath;
use crate::rendering::jsonnet::{CrossCheckMode, CrossCheckResult, Import};
use crate::rendering::tanka::TankaError;
use crate::rendering::tanka::environment::Environment;
use crate::rendering::tanka::layout::Layout;
use crate::rendering::tanka::object::Object;
use crate::rendering::tanka::spec::ParsedEnvironment;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An environment to render, and the values passed to its program.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// A directory or file of the environment. `.` is the repository. Any other text is the name of an environment.
    pub path: String,
    /// The name or a part of it, for a file with several environments.
    pub name: Option<String>,
    /// External variables as Jsonnet code, by name.
    pub ext_code: BTreeMap<String, String>,
    /// Top-level arguments as Jsonnet code, by name.
    pub tla_code: BTreeMap<String, String>,
    /// The maximum call depth; 0 for the default.
    pub max_stack: u32,
    /// The mode of the cross-check by the second engine.
    pub cross_check: CrossCheckMode,
}

impl Target {
    /// Returns a target for the environment at a path, without variables or arguments.
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
    /// The location of the environment.
    pub layout: Layout,
    /// The settings.
    pub environment: Environment,
    /// The objects, in order.
    pub objects: Vec<Object>,
    /// Every file that the value depends on. The settings file of a static environment is not included.
    pub imports: Arc<[Import]>,
    /// The result of the cross-check by the second engine.
    pub cross_check: CrossCheckResult,
    /// Warnings about deprecated or questionable text.
    pub warnings: Vec<String>,
}

/// An environment that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEnvironment {
    /// The entry point.
    pub entrypoint: RepoPath,
    /// The settings.
    pub environment: Environment,
}

/// An entry point whose environments could not be determined.
#[derive(Debug)]
pub struct EnvironmentFailure {
    /// The entry point.
    pub entrypoint: RepoPath,
    /// The reason.
    pub error: TankaError,
}

/// The environments below a directory.
#[derive(Debug, Default)]
pub struct EnvironmentList {
    /// The environments that were found, by name.
    pub environments: Vec<ListedEnvironment>,
    /// The entry points that failed, by path.
    pub failures: Vec<EnvironmentFailure>,
    /// Warnings about deprecated or questionable text, without duplicates.
    pub warnings: Vec<String>,
}

impl EnvironmentList {
    /// Sorts environments by name and failures by path.
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
