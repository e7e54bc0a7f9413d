//! Renders environments of one tree: finds them, evaluates their programs, and processes the values. A broken
//! environment never hides the others.

mod answer;
mod entrypoint;
mod environments;

pub use answer::{EnvironmentFailure, EnvironmentList, ListedEnvironment, RenderedEnvironment, Target};
pub use entrypoint::{EntrypointEnvironment, RenderedEntrypoint, ValueHash};

use super::environment::Environment;
use super::filter::Filter;
use super::layout::{self, Layout};
use super::listing::{TreeLookup, TreeNames};
use super::memory_permit::MemoryPermit;
use super::process::{is_environment, process};
use super::reader::read;
use super::script::{self, EntrypointScript};
use super::spec::{self, ParsedEnvironment};
use super::{TankaError, extract, settings, version};
use crate::base::model::RepoPath;
use crate::rendering::jsonnet::{EvalError, EvalRequest, Evaluation, Import};
use crate::state::workspace::Tree;
use async_trait::async_trait;
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// An evaluator of Jsonnet programs.
#[async_trait]
pub trait Evaluate: Send + Sync {
    /// Evaluates one program.
    async fn evaluate(
        &self,
        request: EvalRequest,
        cancel: &CancellationToken,
    ) -> Result<Evaluation, EvalError>;

    /// Evaluates several programs of one tenant and returns the values in the same order. Failures are independent.
    /// `done` is called after each result.
    async fn evaluate_all(
        &self,
        requests: Vec<EvalRequest>,
        done: &(dyn Fn() + Send + Sync),
        cancel: &CancellationToken,
    ) -> Vec<Result<Evaluation, EvalError>> {
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            answers.push(self.evaluate(request, cancel).await);
            done();
        }
        answers
    }

    /// Evaluates programs in the background with the lowest priority. Programs that were not evaluated count as
    /// cancelled.
    async fn evaluate_in_background(
        &self,
        requests: Vec<EvalRequest>,
        cancel: &CancellationToken,
    ) -> Vec<Result<Evaluation, EvalError>> {
        self.evaluate_all(requests, &|| {}, cancel).await
    }
}

/// Renders environments of one tree.
#[derive(Clone)]
pub struct Renderer {
    tree: Arc<dyn Tree>,
    evaluator: Arc<dyn Evaluate>,
    memory_permit: Arc<MemoryPermit>,
}

impl std::fmt::Debug for Renderer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renderer")
            .field("tree", &self.tree)
            .finish_non_exhaustive()
    }
}

/// The location of an environment, and its settings if it is static.
struct EnvironmentLocation {
    layout: Layout,
    settings: Option<ParsedEnvironment>,
}

impl Renderer {
    /// Creates a renderer for `tree`.
    pub fn new(tree: Arc<dyn Tree>, evaluator: Arc<dyn Evaluate>) -> Self {
        Self {
            tree,
            evaluator,
            memory_permit: Arc::default(),
        }
    }

    /// Makes the renderer part of a larger task and uses the memory permit of that task.
    #[must_use]
    pub fn with_memory_permit(mut self, permit: &Arc<MemoryPermit>) -> Self {
        self.memory_permit = Arc::clone(permit);
        self
    }

    /// True if a rendered value was large. The renderer then holds the memory permit of the process.
    pub fn has_large(&self) -> bool {
        self.memory_permit.is_large()
    }

    /// Releases the memory permit before something else is evaluated. The caller must have dropped the large
    /// values.
    pub async fn release_memory(&self) {
        self.memory_permit.release().await;
    }

    /// Renders one environment.
    pub async fn render(
        &self,
        target: &Target,
        filter: &Filter,
        cancel: &CancellationToken,
    ) -> Result<RenderedEnvironment, TankaError> {
        let target = self.with_path(target, cancel).await?;
        let EnvironmentLocation { layout, settings } = self.locate(&target.path).await?;
        match settings {
            Some(settings) => {
                self.render_static(&target, layout, settings, filter, cancel)
                    .await
            }
            None => self.render_inline(&target, layout, filter, cancel).await,
        }
    }

    /// Returns the entry point of an environment, and its name if it was found by name.
    pub async fn entrypoint(
        &self,
        target: &Target,
        cancel: &CancellationToken,
    ) -> Result<(RepoPath, Option<String>), TankaError> {
        if let Some(entrypoint) = self.find_entrypoint(&target.path).await? {
            return Ok((entrypoint, target.name.clone()));
        }
        let target = self.with_path(target, cancel).await?;
        let place = self.locate(&target.path).await?;
        Ok((place.layout.entrypoint, target.name))
    }

    /// Returns the entry point of the environment at a path, or `None` if there is none. The path is not
    /// interpreted as a name.
    pub async fn find_entrypoint(&self, path: &str) -> Result<Option<RepoPath>, TankaError> {
        let (renderer, path) = (self.clone(), path.to_owned());
        blocking(move || renderer.find_entrypoint_blocking(&path)).await
    }

    /// Finds the entry point like [`Self::find_entrypoint`], but blocks while it reads the tree.
    pub fn find_entrypoint_blocking(&self, path: &str) -> Result<Option<RepoPath>, TankaError> {
        match is_there(self.tree.as_ref(), path)? {
            true => Ok(Some(locate(self.tree.as_ref(), path)?.layout.entrypoint)),
            false => Ok(None),
        }
    }

    async fn is_there(&self, path: &str) -> Result<bool, TankaError> {
        let tree = Arc::clone(&self.tree);
        let path = path.to_owned();
        blocking(move || is_there(tree.as_ref(), &path)).await
    }

    /// Returns the unprocessed value of an entry point, or of a path into it.
    pub async fn evaluate(
        &self,
        target: &Target,
        expression: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<Value, TankaError> {
        let EnvironmentLocation { layout, settings } = self.locate(&target.path).await?;
        let script = expression.map_or(EntrypointScript::Whole, EntrypointScript::Expression);
        let environment = settings.map(|settings| settings.environment);
        let (value, _) = self
            .value(&layout, target, environment.as_ref(), &script, cancel)
            .await?;
        Ok(value)
    }

    /// Returns the files that a program reads, and the paths that it searches without a match.
    pub async fn imports(
        &self,
        target: &Target,
        cancel: &CancellationToken,
    ) -> Result<Vec<Import>, TankaError> {
        let EnvironmentLocation { layout, settings } = self.locate(&target.path).await?;
        let environment = settings.map(|settings| settings.environment);
        let (_, evaluated) = self
            .value(
                &layout,
                target,
                environment.as_ref(),
                &EntrypointScript::Whole,
                cancel,
            )
            .await?;
        Ok(evaluated.imports.to_vec())
    }

    /// Resolves a target. If its path names no file or directory, it is the name of an environment.
    async fn with_path(&self, target: &Target, cancel: &CancellationToken) -> Result<Target, TankaError> {
        if self.is_there(&target.path).await? || target.name.is_some() {
            return Ok(target.clone());
        }
        let not_there = || TankaError::NotFound {
            path: target.path.clone(),
        };
        let list = match self.list(".", cancel).await {
            Err(TankaError::NoRoot) => return Err(not_there()),
            list => list?,
        };
        let is_named = |found: &&ListedEnvironment| found.environment.metadata.name == target.path;
        let named: Vec<&ListedEnvironment> = list.environments.iter().filter(is_named).collect();
        let (first, others) = named.split_first().ok_or_else(not_there)?;
        if others.iter().any(|other| other.entrypoint != first.entrypoint) {
            return Err(TankaError::AmbiguousName {
                path: ".".to_owned(),
                name: target.path.clone(),
                names: named.iter().map(|found| found.entrypoint.to_string()).collect(),
            });
        }
        Ok(Target {
            path: first.entrypoint.to_string(),
            name: Some(target.path.clone()),
            ..target.clone()
        })
    }

    async fn render_static(
        &self,
        target: &Target,
        layout: Layout,
        settings: ParsedEnvironment,
        filter: &Filter,
        cancel: &CancellationToken,
    ) -> Result<RenderedEnvironment, TankaError> {
        let ParsedEnvironment {
            environment,
            warnings,
            ..
        } = settings;
        version::check(&environment.spec.expect_versions.tanka)?;
        let (value, evaluated) = self
            .value(
                &layout,
                target,
                Some(&environment),
                &EntrypointScript::Whole,
                cancel,
            )
            .await?;
        process_value(layout, environment, warnings, value, evaluated, filter).await
    }

    async fn render_inline(
        &self,
        target: &Target,
        layout: Layout,
        filter: &Filter,
        cancel: &CancellationToken,
    ) -> Result<RenderedEnvironment, TankaError> {
        let name = target.name.as_deref().filter(|name| !name.is_empty());
        let script = name.map_or(EntrypointScript::Whole, EntrypointScript::Named);
        let (mut value, evaluated) = self.value(&layout, target, None, &script, cancel).await?;
        if let Some(name) = name {
            value = match value.get_mut("found").map(Value::take) {
                Some(found) => found,
                None => return Err(no_single_match(target, name, &value["names"])),
            };
        }
        let bytes = evaluated.json.len();
        let mut found = run_on_reader(bytes, move || extract::open_lists(extract::extract(value)?)).await?;
        found.retain(is_environment);
        if found.len() > 1 {
            let mut names: Vec<String> = found.iter().map(|found| found.name().to_owned()).collect();
            names.sort_unstable();
            return Err(TankaError::Ambiguous {
                path: target.path.clone(),
                names,
            });
        }
        let mut found = found.pop().ok_or_else(|| TankaError::NoMatch {
            path: target.path.clone(),
        })?;
        let ParsedEnvironment {
            environment,
            warnings,
            ..
        } = inline_settings(&layout, &found.value)?;
        version::check(&environment.spec.expect_versions.tanka)?;
        let data = found.value.get_mut("data").map(Value::take).unwrap_or_default();
        process_value(layout, environment, warnings, data, evaluated, filter).await
    }

    async fn locate(&self, path: &str) -> Result<EnvironmentLocation, TankaError> {
        let tree = Arc::clone(&self.tree);
        let path = path.to_owned();
        blocking(move || locate(tree.as_ref(), &path)).await
    }

    async fn value(
        &self,
        layout: &Layout,
        target: &Target,
        environment: Option<&Environment>,
        script: &EntrypointScript<'_>,
        cancel: &CancellationToken,
    ) -> Result<(Value, Evaluation), TankaError> {
        let environment = environment
            .map(serde_json::to_string)
            .transpose()
            .map_err(|err| TankaError::Internal(err.to_string()))?;
        let request = script::request(Arc::clone(&self.tree), layout, target, environment, script)?;
        let evaluated = self.evaluator.evaluate(request, cancel).await?;
        self.memory_permit.acquire(evaluated.json.len()).await;
        let (json, permit) = (evaluated.json.clone(), Arc::clone(&self.memory_permit));
        let value = run_on_reader(json.len(), move || {
            // Moved into this task, because the caller may stop waiting while the value is read.
            let _permit = permit;
            serde_json::from_slice(&json).map_err(|err| TankaError::Value(err.to_string()))
        });
        Ok((value.await?, evaluated))
    }
}

fn is_there(tree: &dyn Tree, path: &str) -> Result<bool, TankaError> {
    let (names, path) = (TreeLookup(tree), layout::normalize_path(path)?);
    Ok(names.is_file(&path) || names.is_directory(&path))
}

fn locate(tree: &dyn Tree, path: &str) -> Result<EnvironmentLocation, TankaError> {
    locate_in(tree, &TreeLookup(tree), path)
}

fn locate_in(tree: &dyn Tree, names: &dyn TreeNames, path: &str) -> Result<EnvironmentLocation, TankaError> {
    let layout = Layout::find(names, path)?;
    let settings = match layout.spec_file(names)? {
        Some(file) => Some(static_settings(tree, &layout, &file)?),
        None => None,
    };
    Ok(EnvironmentLocation { layout, settings })
}

async fn process_value(
    layout: Layout,
    environment: Environment,
    warnings: Vec<String>,
    data: Value,
    evaluated: Evaluation,
    filter: &Filter,
) -> Result<RenderedEnvironment, TankaError> {
    let filter = filter.clone();
    run_on_reader(evaluated.json.len(), move || {
        Ok(RenderedEnvironment {
            objects: process(data, &environment, &filter)?,
            layout,
            environment,
            imports: evaluated.imports,
            cross_check: evaluated.cross_check,
            warnings,
        })
    })
    .await
}

/// Reads the settings of a static environment. Its name and namespace always come from its location.
fn static_settings(
    tree: &dyn Tree,
    layout: &Layout,
    file: &RepoPath,
) -> Result<ParsedEnvironment, TankaError> {
    let content = tree.read(file)?.content;
    settings::check_file(&content, file.as_str())?;
    let mut parsed = spec::parse_file(&content, file.as_str())?;
    layout.name().clone_into(&mut parsed.environment.metadata.name);
    layout
        .namespace()
        .clone_into(&mut parsed.environment.metadata.namespace);
    Ok(parsed)
}

fn inline_settings(layout: &Layout, value: &Value) -> Result<ParsedEnvironment, TankaError> {
    settings::check_inline(value, layout.entrypoint.as_str())?;
    let mut parsed = spec::parse(value, layout.entrypoint.as_str())?;
    layout
        .namespace()
        .clone_into(&mut parsed.environment.metadata.namespace);
    Ok(parsed)
}

fn no_single_match(target: &Target, name: &str, names: &Value) -> TankaError {
    let names = names.as_array().into_iter().flatten();
    let mut names: Vec<String> = names
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    names.sort_unstable();
    let path = target.path.clone();
    if names.is_empty() {
        return TankaError::NoMatch { path };
    }
    TankaError::AmbiguousName {
        path,
        name: name.to_owned(),
        names,
    }
}

/// Runs work on values with texts of this many bytes.
async fn run_on_reader<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, TankaError> + Send + 'static,
) -> Result<T, TankaError> {
    read(bytes, work)
        .await
        .unwrap_or_else(|why| Err(TankaError::Internal(why)))
}

/// Runs work that may block, such as reading a tree.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TankaError> + Send + 'static,
) -> Result<T, TankaError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(err) => Err(TankaError::Internal(err.to_string())),
    }
}

#[cfg(test)]
mod tests;
