//! Whole entry points: all environments of one entry point, static or inline, from one evaluation. Several entry
//! points are evaluated in one batch.

use super::{EnvironmentLocation, Renderer, Target, blocking, inline_settings, locate, run_on_reader};
use crate::base::parallel;
use crate::rendering::jsonnet::{CrossCheckResult, EvalRequest, Evaluation, Import};
use crate::rendering::tanka::environment::Environment;
use crate::rendering::tanka::filter::Filter;
use crate::rendering::tanka::layout::Layout;
use crate::rendering::tanka::object::Object;
use crate::rendering::tanka::process::{is_environment, process};
use crate::rendering::tanka::script::{self, EntrypointScript};
use crate::rendering::tanka::spec::ParsedEnvironment;
use crate::rendering::tanka::{TankaError, extract, version};
use crate::state::workspace::Tree;
use futures_util::StreamExt as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Maximum number of values that are processed concurrently.
const PROCESSED_TOGETHER_MAX: usize = 4;

/// The SHA-256 of a value in the serialization of an engine. Equal hashes mean equal values. Two engines may
/// serialize the same value differently.
pub type ValueHash = [u8; 32];

/// A rendered entry point.
#[derive(Debug)]
pub struct RenderedEntrypoint {
    /// The environments, in the order of the program.
    pub members: Vec<EntrypointEnvironment>,
    /// The hash of its value.
    pub value: ValueHash,
    /// Every file that its value depends on, and every path that was searched without a match.
    pub imports: Arc<[Import]>,
    /// The result of the cross-check of its value by the second engine.
    pub cross_check: CrossCheckResult,
}

/// One environment of an entry point.
#[derive(Debug)]
pub struct EntrypointEnvironment {
    /// The name.
    pub name: String,
    /// The namespace of objects without a namespace.
    pub namespace: String,
    /// The settings of an inline environment, or the reason why they are unknown; `None` for a static environment.
    pub settings: Option<Result<Environment, String>>,
    /// The objects in order. A failure does not affect the other environments.
    pub objects: Result<Vec<Object>, TankaError>,
}

/// An entry point that is ready for evaluation.
struct PreparedEntrypoint {
    layout: Layout,
    settings: Option<ParsedEnvironment>,
    request: EvalRequest,
}

impl Renderer {
    /// Renders all environments of each entry point in one batch, and returns the results in the same order.
    /// Failures are independent. The names in the targets are ignored. `done` is called after each evaluation.
    pub async fn render_all(
        &self,
        targets: Vec<Target>,
        done: &(dyn Fn() + Send + Sync),
        cancel: &CancellationToken,
    ) -> Vec<Result<RenderedEntrypoint, TankaError>> {
        let evaluated = self.evaluate_targets(targets, done, cancel).await;
        let bytes = evaluated.iter().flatten().map(|(_, found)| found.json.len());
        self.memory_permit.acquire(bytes.sum()).await;
        futures_util::stream::iter(evaluated)
            .map(|evaluated| async move {
                let ((asked, evaluated), permit) = (evaluated?, Arc::clone(&self.memory_permit));
                run_on_reader(evaluated.json.len(), move || {
                    // Moved into this task, because the caller may stop waiting while the value is read.
                    let _permit = permit;
                    process_entrypoint(asked, evaluated)
                })
                .await
            })
            .buffered(PROCESSED_TOGETHER_MAX)
            .collect()
            .await
    }

    /// Evaluates like [`Self::render_all`], but returns only the hash of each value and the files it depends on.
    pub async fn hash_all(
        &self,
        targets: Vec<Target>,
        done: &(dyn Fn() + Send + Sync),
        cancel: &CancellationToken,
    ) -> Vec<Result<(ValueHash, Arc<[Import]>), TankaError>> {
        let evaluated = self.evaluate_targets(targets, done, cancel).await;
        let count = evaluated.len();
        let hashed = blocking(move || {
            let hashed = evaluated.into_iter().map(|evaluated| {
                let (_, evaluated) = evaluated?;
                Ok((hash(&evaluated.json), evaluated.imports))
            });
            Ok(hashed.collect())
        });
        hashed.await.unwrap_or_else(|error| repeat_error(count, &error))
    }

    async fn evaluate_targets(
        &self,
        targets: Vec<Target>,
        done: &(dyn Fn() + Send + Sync),
        cancel: &CancellationToken,
    ) -> Vec<Result<(PreparedEntrypoint, Evaluation), TankaError>> {
        let count = targets.len();
        let tree = Arc::clone(&self.tree);
        let asked = blocking(move || {
            Ok(parallel::map(targets, |target| {
                prepare_entrypoint(&tree, &target)
            }))
        });
        let asked = match asked.await {
            Ok(asked) => asked,
            Err(error) => return repeat_error(count, &error),
        };
        let requests = asked.iter().flatten().map(|asked| asked.request.clone());
        let mut answers = self
            .evaluator
            .evaluate_all(requests.collect(), done, cancel)
            .await
            .into_iter();
        let evaluated = asked.into_iter().map(|asked| {
            let asked = asked?;
            let answer = answers
                .next()
                .unwrap_or(Err(crate::rendering::jsonnet::EvalError::Cancelled));
            Ok((asked, answer?))
        });
        evaluated.collect()
    }
}

fn hash(json: &[u8]) -> ValueHash {
    Sha256::digest(json).into()
}

/// Returns one copy of an error for each entry of a batch.
fn repeat_error<T>(count: usize, error: &TankaError) -> Vec<Result<T, TankaError>> {
    let broken = || Err(TankaError::Internal(error.to_string()));
    std::iter::repeat_with(broken).take(count).collect()
}

fn prepare_entrypoint(tree: &Arc<dyn Tree>, target: &Target) -> Result<PreparedEntrypoint, TankaError> {
    let EnvironmentLocation { layout, settings } = locate(tree.as_ref(), &target.path)?;
    let environment = settings
        .as_ref()
        .map(|settings| serde_json::to_string(&settings.environment))
        .transpose()
        .map_err(|err| TankaError::Internal(err.to_string()))?;
    let request = script::request(
        Arc::clone(tree),
        &layout,
        target,
        environment,
        &EntrypointScript::Whole,
    )?;
    Ok(PreparedEntrypoint {
        layout,
        settings,
        request,
    })
}

fn process_entrypoint(
    asked: PreparedEntrypoint,
    evaluated: Evaluation,
) -> Result<RenderedEntrypoint, TankaError> {
    let value: Value =
        serde_json::from_slice(&evaluated.json).map_err(|err| TankaError::Value(err.to_string()))?;
    let members = match asked.settings {
        Some(settings) => vec![process_environment(settings.environment, value)],
        None => {
            let mut found = extract::open_lists(extract::extract(value)?)?;
            found.retain(is_environment);
            let members = found
                .into_iter()
                .map(|found| process_inline(&asked.layout, found));
            members.collect()
        }
    };
    Ok(RenderedEntrypoint {
        members,
        value: hash(&evaluated.json),
        imports: evaluated.imports,
        cross_check: evaluated.cross_check,
    })
}

fn process_inline(layout: &Layout, mut found: Object) -> EntrypointEnvironment {
    match inline_settings(layout, &found.value) {
        Ok(parsed) => {
            let data = found.value.get_mut("data").map(Value::take).unwrap_or_default();
            let settings = parsed.clone().check_destination(layout.entrypoint.as_str());
            EntrypointEnvironment {
                settings: Some(settings.map_err(|error| error.to_string())),
                ..process_environment(parsed.environment, data)
            }
        }
        Err(error) => EntrypointEnvironment {
            name: found.name().to_owned(),
            namespace: String::new(),
            settings: Some(Err(error.to_string())),
            objects: Err(error),
        },
    }
}

fn process_environment(environment: Environment, data: Value) -> EntrypointEnvironment {
    let expected = version::check(&environment.spec.expect_versions.tanka);
    EntrypointEnvironment {
        objects: expected.and_then(|()| process(data, &environment, &Filter::default())),
        settings: None,
        name: environment.metadata.name,
        namespace: environment.spec.namespace,
    }
}
